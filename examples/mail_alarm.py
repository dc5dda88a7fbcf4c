"""Mail an alert of rlpanel: rlpanel serve runs --alert-command "python3 mail_alarm.py".

Reads the alert as JSON from standard input and hands it to a mail server. MAIL_TO says to whom, MAIL_FROM
from whom (else MAIL_TO too), MAIL_HOST and MAIL_PORT by which server (localhost, 25). A run's name and a
sentence may hold anything: nothing of them is part of a command, and no other program reads them on the way.
"""

import json
import os
import smtplib
import sys
from email.message import EmailMessage


def one_line(text: object, longest: int = 150) -> str:
    """Text for a header: nothing in it can begin another header."""
    plain = "".join(char if char.isprintable() else " " for char in str(text))
    # Older Pythons decode =?utf-8?q?=0A?= in a header and write the line end that comes out (CVE-2024-6923).
    return plain.replace("=?", "= ?")[:longest]


def message_of(alert: dict) -> EmailMessage:
    """The mail of an alert; the email package encodes what is not ASCII."""
    message = EmailMessage()
    message["To"] = os.environ["MAIL_TO"]
    message["From"] = os.environ.get("MAIL_FROM", os.environ["MAIL_TO"])
    message["Subject"] = one_line(f"rlpanel: {alert['severity']} in {alert['run']}")
    lines = [alert["sentence"], *alert["evidence"], alert["link"]]
    # Half a surrogate pair, which a file name may hold, has no encoding.
    text = "\n".join(map(str, lines)).encode("utf-8", "replace").decode("utf-8")
    message.set_content(text, cte="base64")  # a line that begins with a dot or "From " stays as it is
    return message


def main() -> None:
    """Mail the alert on standard input; any failure is an exit code that makes rlpanel try again."""
    message = message_of(json.load(sys.stdin))
    host, port = os.environ.get("MAIL_HOST", "localhost"), int(os.environ.get("MAIL_PORT", "25"))
    with smtplib.SMTP(host, port, timeout=30) as server:
        server.send_message(message)


if __name__ == "__main__":
    main()
