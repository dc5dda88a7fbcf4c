"""Sends an alert of rlpanel by mail: rlpanel serve runs --alert-command "python3 mail_alarm.py".

Reads the alert as JSON from standard input and sends it to a mail server. Environment variables: MAIL_TO is
the recipient, MAIL_FROM the sender (default: MAIL_TO), MAIL_HOST and MAIL_PORT the server (default: localhost
and 25). A run's name and the alert's sentence may contain any characters. They are never part of a command,
and no other program parses them.
"""

import json
import os
import smtplib
import sys
from email.message import EmailMessage


def one_line(text: object, longest: int = 150) -> str:
    """Return text that is safe in a mail header: it cannot start another header."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))
    # Older Pythons decode =?utf-8?q?=0A?= in a header and write the resulting newline (CVE-2024-6923).
    return plain.replace("=?", "= ?")[:longest]


def message_of(alert: dict) -> EmailMessage:
    """Return the mail for an alert; the email package encodes non-ASCII characters."""
    message = EmailMessage()
    message["To"] = os.environ["MAIL_TO"]
    message["From"] = os.environ.get("MAIL_FROM", os.environ["MAIL_TO"])
    message["Subject"] = one_line(f"rlpanel: {alert['severity']} in {alert['run']}")
    lines = [alert["sentence"], *alert["evidence"], alert["link"]]
    # A file name may contain a lone surrogate, which cannot be encoded.
    text = "\n".join(map(str, lines)).encode("utf-8", "replace").decode("utf-8")
    message.set_content(text, cte="base64")  # keeps lines that start with a dot or "From "
    return message


def main() -> None:
    """Mail the alert on standard input. After a failure the exit code is not 0, so rlpanel tries again."""
    message = message_of(json.load(sys.stdin))
    host, port = os.environ.get("MAIL_HOST", "localhost"), int(os.environ.get("MAIL_PORT", "25"))
    with smtplib.SMTP(host, port, timeout=30) as server:
        server.send_message(message)


if __name__ == "__main__":
    main()
