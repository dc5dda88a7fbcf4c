"""Alerts for findings: each is delivered once, failures are retried, and nothing waits for delivery."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from prometheus_client import generate_latest

import rlpanel
from docs import generate
from rlpanel.app.alerts.alert_delivery import (
    Alert,
    AlertQueue,
    Command,
    NotDelivered,
    Recipient,
    Webhook,
    from_settings,
)
from rlpanel.app.alerts.alert_watcher import AlertWatcher, LiveRuns
from rlpanel.app.server.background_service import Service
from rlpanel.app.server.health_endpoint import Observed, health, registry_of
from rlpanel.board_url import read_query
from rlpanel.errors import SettingError
from rlpanel.runtime import default_runtime
from rlpanel.settings import Alerts, LiveRunLimits, Reading
from rlpanel.store.index.reader import Reader
from tests.factories import append, line, write_run
from tests.waiting import wait_until

SECRET = "Bearer s3cret"
#: Seconds until a recipient that failed is tried again.
SOON = 0.01


class Hook(ThreadingHTTPServer):
    """HTTP server on loopback that answers with given status codes and stores the requests.

    Attributes
    ----------
    answers : list of int
        Status codes of the next answers; later requests succeed.
    go_on : Event
        Requests are answered only while it is set.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook"
        self.answers: list[int] = []
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def subjects(self) -> list[str]:
        """Rules and severities that arrived, tries that failed among them."""
        return [f"{alert['rule']} {alert['severity']}" for _, alert in self.got]


class _Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), json.loads(body)))
        self.server.go_on.wait(20)
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.go_on.set()
        server.shutdown()


@pytest.fixture
def reader() -> Iterator[Reader]:
    service = Reader(Reading(polling=True, poll_interval=0.02, rescan_interval=0.1))
    yield service
    service.stop()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that is being written: four steps of its last ones were cut, which is worth a warning."""
    folder = write_run(tmp_path / "root" / "run", steps=8, samples=32, tokens=False, truncated=0)
    go_on(folder, 9, 10, 11, 12, truncated=1)
    go_on(folder, 13, 14, truncated=0)
    return folder


def go_on(run: Path, *steps: int, rests: bool = True, **fields: Any) -> None:
    """Append steps; where the run ``rests``, so long ago that no further one is waited for."""
    lines = [line(step, index=index, tokens=False, **fields) for step in steps for index in range(32)]
    append(run / "rollout_data_rank_0.jsonl", *lines)
    if rests:
        let_rest(run)


def grow(reader: Reader, live: LiveRuns | None, run: Path, *steps: int, truncated: int) -> None:
    """Append one step after the other to the only run; each is read and checked before the next one."""
    assert live is not None
    for step in steps:
        go_on(run, step, truncated=truncated, rests=False)
        wait_until(partial(has_read, reader, step * 32))
        live.check(time.time() + 2)  # the step is complete


def has_read(reader: Reader, samples: int) -> bool:
    return bool(reader.runs) and reader.runs[0].snapshot.samples == samples


def let_rest(run: Path) -> None:
    os.utime(run / "rollout_data_rank_0.jsonl", (time.time() - 3000,) * 2)


class watching:
    """A watcher over the run's root, while this is entered."""

    def __init__(self, reader: Reader, run: Path, *recipients: Recipient, **settings: str) -> None:
        self._live = LiveRuns(reader, run.parent, LiveRunLimits(interval=0.02))
        alerts = Alerts(**settings)
        self._watcher = AlertWatcher(self._live, recipients, alerts, "http://board:5006", pause=SOON)

    def __enter__(self) -> Service:
        self._live.start()
        return Service(self._live, self._watcher)

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self._watcher.stop()


def test_a_finding_arrives_once_although_the_first_tries_fail(hook: Hook, reader: Reader, run: Path) -> None:
    hook.answers = [500, 503]
    with watching(reader, run, Webhook(hook.url, f"Authorization: {SECRET}")) as (live, _):
        wait_until(lambda: len(hook.got) == 3)
        grow(reader, live, run, *range(15, 21), truncated=1)  # what goes on is an alarm
        wait_until(lambda: len(hook.got) == 4)
    assert hook.subjects() == [*["truncated warning"] * 3, "truncated alarm"]
    assert {headers["Authorization"] for headers, _ in hook.got} == {SECRET}
    ids = [alert["id"] for _, alert in hook.got]
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_health_reports_alert_counts_if_a_recipient_is_set(hook: Hook, reader: Reader, run: Path) -> None:
    observed = Observed(default_runtime())
    registry = registry_of(observed)

    def alerts() -> tuple[int | None, ...]:
        state = health(observed)
        return state.alerts_waiting, state.alerts_sent, state.alerts_failing

    assert alerts() == (None, None, None)
    assert b"rlpanel_alerts" not in generate_latest(registry)
    hook.answers = [500] * 1000
    with watching(reader, run, Webhook(hook.url)) as service:
        observed.service = service
        wait_until(lambda: alerts()[2])
        assert alerts() == (1, 0, 1)
        hook.answers = []
        wait_until(lambda: alerts()[1])
        assert b"rlpanel_alerts_sent_total 1.0" in generate_latest(registry)
        wait_until(lambda: not alerts()[0])
        assert alerts()[2] == 0


def test_an_alert_says_what_was_found_and_where_to_look(hook: Hook, reader: Reader, run: Path) -> None:
    with watching(reader, run, Webhook(hook.url)):
        wait_until(lambda: hook.got)
    alert = hook.got[0][1]
    assert alert["text"] == f"warning in run: {alert['sentence']}"
    assert "From step 9 on" in alert["sentence"]
    assert (alert["run"], alert["path"], alert["steps"], alert["first_step"], alert["last_step"]) == (
        "run",
        str(run),
        6,
        9,
        14,
    )
    assert (alert["onset"], alert["last"], alert["ongoing"], alert["rank"], alert["category"]) == (
        9,
        14,
        True,
        None,
        "",
    )
    assert alert["ended"] is False
    assert alert["evidence"]
    assert alert["advice"].startswith("Read how the longest ones end")
    assert (alert["metric"], alert["filter"], alert["symptoms"]) == ("truncated_share", "ended == 0", [])


def test_a_link_opens_the_onset_with_the_filter_of_the_finding(hook: Hook, reader: Reader, run: Path) -> None:
    with watching(reader, run, Webhook(hook.url)):
        wait_until(lambda: hook.got)
    alert = hook.got[0][1]
    where = urlsplit(alert["link"])
    assert where.netloc == "board:5006"
    values, problems = read_query(where.query)
    assert (values["run"], values["step"], values["filter"], problems) == ("run", 9, "ended == 0", [])
    assert parse_qs(where.query)["finding"] == ["truncated:"]
    assert run_of_uid(run, alert["uid"])["step"] == 9


def run_of_uid(run: Path, uid: str) -> dict[str, Any]:
    """Return the line of a sample."""
    file, _, offset = uid.rpartition(":")
    return json.loads((run / file).read_bytes()[int(offset) :].split(b"\n")[0])


def test_what_ended_long_ago_is_not_sent(hook: Hook, reader: Reader, run: Path) -> None:
    go_on(run, *range(15, 31), truncated=0)
    assert rlpanel.open_run(run, follow=False).findings.severity.tolist() == ["info"]
    let_rest(write_run(run.parent / "other", steps=30, samples=32, tokens=False, truncated=1))
    with watching(reader, run, Webhook(hook.url)) as (live, alerts):
        wait_until(lambda: [index.snapshot.samples for index in reader.runs] == [30 * 32] * 2)
        assert live is not None
        live.check(time.time())
        assert alerts is not None
        wait_until(lambda: hook.got and not alerts.waiting)
    assert {alert["run"] for _, alert in hook.got} == {"other"}


def test_the_page_on_alerts_names_every_key(hook: Hook, reader: Reader, run: Path) -> None:
    with watching(reader, run, Webhook(hook.url)):
        wait_until(lambda: hook.got)
    _, _, table = (generate.FOLDER / "alerts.md").read_text("utf-8").partition("| key | meaning |")
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == list(hook.got[0][1])


def test_each_finding_is_sent_once_when_it_is_raised_and_once_when_it_has_ended(
    hook: Hook, reader: Reader, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "root" / "run", steps=12, samples=32, tokens=False, truncated=0)
    with watching(reader, run, Webhook(hook.url)) as (live, alerts):
        assert alerts is not None
        grow(reader, live, run, 13, 14, truncated=1)
        wait_until(lambda: not alerts.waiting)
        assert not hook.got, "two further steps must show it"
        grow(reader, live, run, *range(15, 19), truncated=1)
        wait_until(lambda: not alerts.waiting)
        assert hook.subjects() == ["truncated alarm"]
        grow(reader, live, run, *range(19, 60), truncated=0)
        wait_until(lambda: not alerts.waiting)
    assert hook.subjects() == ["truncated alarm"] * 2
    (_, first), (_, last) = hook.got
    assert (first["ended"], last["ended"], last["ongoing"]) == (False, True, False)
    assert last["text"].startswith("ended in run: ")
    assert last["sentence"] in last["text"]
    assert first["id"] != last["id"]


def test_after_a_restart_what_lasts_is_sent_again_with_the_same_id(
    hook: Hook, reader: Reader, run: Path
) -> None:
    with watching(reader, run, Webhook(hook.url)) as (_, alerts):
        wait_until(lambda: alerts is not None and alerts.sent == 1)
    with watching(reader, run, Webhook(hook.url)) as (_, alerts):
        wait_until(lambda: alerts is not None and alerts.sent == 1)
    assert hook.subjects() == ["truncated warning"] * 2
    assert len({alert["id"] for _, alert in hook.got}) == 1
    assert not (run / ".rlpanel" / "alerts").exists()


def test_an_undelivered_alert_is_sent_after_a_restart(hook: Hook, reader: Reader, run: Path) -> None:
    hook.answers = [500] * 1000
    with watching(reader, run, Webhook(hook.url)):
        wait_until(lambda: hook.got)
    hook.answers = []
    with watching(reader, run, Webhook(hook.url)) as (_, alerts):
        wait_until(lambda: alerts is not None and alerts.sent == 1)


def test_where_only_alarms_are_wanted_no_warning_arrives(hook: Hook, reader: Reader, run: Path) -> None:
    with watching(reader, run, Webhook(hook.url), alert_severity="alarm") as (live, _):
        wait_until(lambda: reader.runs and reader.runs[0].snapshot.samples == 14 * 32)
        assert live is not None
        live.check(time.time())  # at the warning
        grow(reader, live, run, *range(15, 21), truncated=1)
        wait_until(lambda: hook.got)
    assert hook.subjects() == ["truncated alarm"]


def test_a_run_that_was_over_before_is_history(hook: Hook, reader: Reader, run: Path) -> None:
    old_run = write_run(run.parent / "old", steps=8, samples=32, tokens=False, truncated=1)
    old = old_run / "rollout_data_rank_0.jsonl"
    os.utime(old, (time.time() - 2 * LiveRunLimits().live_seconds,) * 2)
    with watching(reader, run, Webhook(hook.url)):
        wait_until(lambda: hook.got)
        assert [index.name for index in reader.runs] == ["run"]
    assert {alert["run"] for _, alert in hook.got} == {"run"}
    wait_until(lambda: not reader.runs, message="the run is let go")


def test_a_hanging_recipient_does_not_delay_reading_or_other_recipients(
    hook: Hook, reader: Reader, run: Path, tmp_path: Path
) -> None:
    hook.go_on.clear()
    with watching(reader, run, Webhook(hook.url), Command(noting(tmp_path / "noted"))) as (live, _):
        wait_until(lambda: hook.got)
        grow(reader, live, run, *range(15, 21), truncated=1)
        wait_until(lambda: len(noted(tmp_path / "noted")) == 2, message="the other recipient is alerted")
        began = time.monotonic()
    assert time.monotonic() - began < 10  # the recipient hangs for 20 s
    assert len(hook.got) == 1


def noting(path: Path) -> str:
    """A command that keeps what it gets, a line each."""
    code = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"
    return shlex.join([sys.executable, "-c", code, str(path)])


def noted(path: Path) -> list[dict[str, Any]]:
    return [json.loads(found) for found in path.read_text().splitlines()] if path.exists() else []


def test_a_command_gets_the_finding_and_nothing_of_it_is_run(reader: Reader, tmp_path: Path) -> None:
    name = "$(touch ran); `touch ran` 🙂"
    run = write_run(tmp_path / "root" / name, steps=8, samples=32, tokens=False, truncated=1)
    let_rest(run)
    with watching(reader, run, Command(noting(tmp_path / "noted"))):
        found = wait_until(lambda: noted(tmp_path / "noted"))
    assert [alert["run"] for alert in found] == [name]
    assert not list(tmp_path.rglob("ran"))
    assert not Path("ran").exists()


def test_a_command_that_fails_is_run_again(tmp_path: Path, reader: Reader, run: Path) -> None:
    code = "import pathlib, sys; tries = pathlib.Path(sys.argv[1]); tries.open('a').write('x')\n"
    code += "sys.exit(tries.stat().st_size < 3)"
    with watching(
        reader, run, Command(shlex.join([sys.executable, "-c", code, str(tmp_path / "tries")]))
    ) as (_, alerts):
        wait_until(lambda: alerts is not None and alerts.sent == 1)
    assert (tmp_path / "tries").read_text() == "xxx"


def test_a_command_that_never_ends_is_ended_with_what_it_started(tmp_path: Path) -> None:
    code = "import os, pathlib, subprocess, sys; child = subprocess.Popen(['sleep', '60'])\n"
    code += "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); child.wait()"
    command = Command(shlex.join([sys.executable, "-c", code, str(tmp_path / "pid")]))
    channel = AlertQueue(command)
    channel.offer(Alert("1", b"{}"))
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    began = time.monotonic()
    channel.stop()
    assert time.monotonic() - began < 10  # the command would run for 60 s
    wait_until(lambda: not _runs(pid), message="its child is gone")


def _runs(pid: int) -> bool:
    """Return True if a process is running; a zombie is not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_alerts_that_wait_are_bounded_and_come_in_the_end(hook: Hook) -> None:
    made = [Alert(str(number), json.dumps({"number": number}).encode()) for number in range(12)]
    hook.go_on.clear()
    channel = AlertQueue(Webhook(hook.url), room=5)
    for alert in made:
        channel.offer(alert)
    hook.go_on.set()
    wait_until(lambda: len(hook.got) == 5)
    wait_until(lambda: channel.sent == 5)
    assert [alert["number"] for _, alert in hook.got] == [0, 1, 2, 3, 4]
    for alert in made[:8]:  # as the next look does
        channel.offer(alert)
    wait_until(lambda: len(hook.got) == 8)
    channel.stop()
    assert [alert["number"] for _, alert in hook.got[5:]] == [5, 6, 7]


def test_one_that_is_refused_does_not_hold_the_others_back(hook: Hook) -> None:
    hook.answers = [400]
    hook.go_on.clear()
    channel = AlertQueue(Webhook(hook.url), pause=SOON)
    for number in range(3):
        channel.offer(Alert(str(number), json.dumps({"number": number}).encode()))
    hook.go_on.set()
    wait_until(lambda: len(hook.got) == 4)
    channel.stop()
    assert [alert["number"] for _, alert in hook.got] == [0, 1, 2, 0]


def test_what_is_offered_at_each_check_arrives_once(hook: Hook) -> None:
    channel = AlertQueue(Webhook(hook.url))
    for name in ("one", "one", "two"):
        channel.offer(Alert(name, json.dumps({"name": name}).encode()))
        wait_until(lambda: not channel.waiting)
    channel.stop()
    assert [alert["name"] for _, alert in hook.got] == ["one", "two"]


def test_a_redirect_is_not_followed(hook: Hook) -> None:
    hook.answers = [302]
    with pytest.raises(NotDelivered, match="302"):
        Webhook(hook.url, f"Authorization: {SECRET}").send(b"{}")
    assert len(hook.got) == 1


def test_a_failure_does_not_give_the_address_away(hook: Hook) -> None:
    hook.server_close()
    secret = Webhook(f"{hook.url}/T0k3n")
    with pytest.raises(NotDelivered) as said:
        secret.send(b"{}")
    assert "T0k3n" not in f"{said.value} {secret.name}"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"alert_url": "ftp://host/x"}, "http"),
        ({"alert_url": "file:///etc/passwd"}, "http"),
        ({"alert_url": "http://"}, "host"),
        ({"alert_url": "http://host/\r\nX: y"}, "http"),
        ({"alert_url": "http://host", "alert_header": "no colon"}, "Name: value"),
        ({"alert_url": "http://host", "alert_header": "X: a\r\nY: b"}, "Name: value"),
        ({"alert_header": "X: a"}, "no address"),
        ({"alert_command": "no-such-command --now"}, "not found"),
        ({"alert_command": "echo 'open"}, "cannot be read"),
    ],
)
def test_a_recipient_that_cannot_be_is_said_at_once(settings: dict[str, str], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        from_settings(Alerts(**settings))
