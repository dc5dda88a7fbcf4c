"""The mail script of docs/alerts.md, with malicious run names and sentences."""

from __future__ import annotations

import email
import email.policy
import json
import os
import shlex
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from rlpanel.app.alerts.alert_delivery import Command, NotDelivered
from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE
from tests.waiting import wait_until

SCRIPT = CHECKOUT / "examples" / "mail_alarm.py"
HOSTILE = {
    "a line end": "run\nBcc: thief@evil.example",
    "a return": "run\r\nBcc: thief@evil.example\r\n\r\nbody",
    "a tilde": "~!touch ran",
    "a tilde on its own line": "run\n~!touch ran\n~r /etc/passwd",
    "a dash": "-s --help",
    "a shell": "$(touch ran); `touch ran` | touch ran",
    "the end of a mail": "run\r\n.\r\nMAIL FROM:<thief@evil.example>",
    "other line ends": "run\u2028Bcc: thief@evil.example\u0085Bcc: thief@evil.example\x0bX: y",
    "an encoded word": "=?utf-8?q?=0ABcc:_thief=40evil.example?=",
    "half a letter": "run \udcff",
    "much": "x" * 100_000,
    "nothing": "",
}


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server on loopback that stores its mails with their recipients."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.got: list[tuple[list[str], bytes]] = []

    @property
    def mail(self) -> EmailMessage:
        """The only mail that arrived."""
        [(recipients, data)] = self.got
        assert recipients == ["<me@example.org>"]
        made = email.message_from_bytes(data, policy=email.policy.default)
        assert isinstance(made, EmailMessage)
        return made


class _Session(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        recipients: list[str] = []
        self._say(220)
        while line := self.rfile.readline().decode().strip():
            word, _, rest = line.partition(" ")
            if word.upper() == "RCPT":
                recipients.append(rest.removeprefix("TO:").removeprefix("to:"))
            elif word.upper() == "DATA":
                self._say(354)
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.server.got.append((recipients, b"".join(line.removeprefix(b".") for line in lines)))
            self._say(221 if word.upper() == "QUIT" else 250)

    def _say(self, code: int) -> None:
        self.wfile.write(b"%d ok\r\n" % code)


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """A folder for PATH whose programs only record that they were run."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mail", "mailx", "sendmail", "sh", "bash", "touch", "jq"):
        (folder / name).write_text(
            f"#!{sys.executable}\nopen({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n"
        )
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def environment(mailbox: Mailbox, traps: Path) -> dict[str, str]:
    host, port = mailbox.server_address[:2]
    return os.environ | {
        "PATH": f"{traps}{os.pathsep}{os.environ['PATH']}",
        "MAIL_TO": "me@example.org",
        "MAIL_HOST": str(host),
        "MAIL_PORT": str(port),
    }


Send = Callable[..., None]


@pytest.fixture
def send(environment: dict[str, str], tmp_path: Path) -> Send:
    """Run the script with an alert, like rlpanel does."""

    def run(**said: Any) -> None:
        alert = {"severity": "alarm", "run": "run", "sentence": "", "evidence": [], "link": "http://board/"}
        subprocess.run(
            [sys.executable, str(SCRIPT)],
            input=json.dumps(alert | said).encode(),
            env=environment, cwd=tmp_path, check=True, timeout=2 * PATIENCE,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("where", ["run", "sentence", "evidence", "link", "severity"])
def test_nothing_of_a_log_adds_a_header_or_is_run(
    send: Send, mailbox: Mailbox, tmp_path: Path, where: str, text: str
) -> None:
    send(**{where: [text, text] if where == "evidence" else text})
    assert {name.lower() for name in mailbox.mail} == {
        "to", "from", "subject", "content-type", "content-transfer-encoding", "mime-version",
    }  # fmt: skip
    assert (mailbox.mail["To"], mailbox.mail["From"]) == ("me@example.org", "me@example.org")
    assert len(mailbox.mail["Subject"]) <= 150
    assert not list(tmp_path.rglob("ran"))


def test_the_mail_says_what_was_found(send: Send, mailbox: Mailbox) -> None:
    send(run="exp/月 1", sentence="Cut.\n.\n~!x", evidence=["a", "From b"], link="http://board/?run=x")
    assert mailbox.mail["Subject"] == "rlpanel: alarm in exp/月 1"
    assert mailbox.mail.get_content() == "Cut.\n.\n~!x\na\nFrom b\nhttp://board/?run=x\n"


def test_a_mail_that_is_not_taken_is_a_failure_that_is_tried_again(
    environment: dict[str, str], mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox.shutdown()
    mailbox.server_close()
    for name in ("MAIL_TO", "MAIL_HOST", "MAIL_PORT"):
        monkeypatch.setenv(name, environment[name])
    with pytest.raises(NotDelivered, match="it exited with code 1"):
        Command(shlex.join([sys.executable, str(SCRIPT)])).send(b'{"severity": "alarm", "run": "run"}')


@pytest.mark.slow
def test_a_server_mails_an_alarm_of_a_run_with_a_hostile_name(
    environment: dict[str, str], mailbox: Mailbox, tmp_path: Path
) -> None:
    write_run(
        tmp_path / "root" / "-s $(touch ran)\n~!touch ran\nBcc: thief@evil.example", steps=8, truncated=1
    )
    command = shlex.join([sys.executable, str(SCRIPT)])
    options = ["--alert-severity", "alarm", "--alert-command", command]
    with ServerProcess(tmp_path / "root", *options, cwd=tmp_path, env=dict(environment)):
        wait_until(lambda: mailbox.got, 2 * PATIENCE, "a mail")
    assert mailbox.mail["Bcc"] is None
    assert mailbox.mail["Subject"] == "rlpanel: alarm in -s $(touch ran) ~!touch ran Bcc: thief@evil.example"
    assert not list(tmp_path.rglob("ran"))


def test_the_page_on_alerts_tells_of_this_script_and_of_no_shell() -> None:
    page = (CHECKOUT / "docs" / "alerts.md").read_text("utf-8")
    assert '--alert-command "python3 examples/mail_alarm.py"' in page
    assert "| mail -s" not in page
