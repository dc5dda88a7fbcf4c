"""Findings that go out by themselves: of every run that is being written, whether anybody looks or not."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import xxhash

from rlpanel.app.delivery import Alert, Channel, Sent
from rlpanel.app.recipients import Recipient, from_settings
from rlpanel.health.finding import Finding
from rlpanel.health.found import found_in
from rlpanel.settings import Alerts, Health
from rlpanel.sources.directory import RunInfo
from rlpanel.sources.files import AnyPath
from rlpanel.store.index import RunIndex
from rlpanel.store.live import Reader

log = logging.getLogger(__name__)

#: Seconds between two looks at the runs.
EVERY = 5.0
#: A run is followed until nothing was written to it for so many seconds; at most so many are, the newest.
LIVE, MOST = 3600.0, 64


class Watcher:
    """Follows the runs below a root that are being written, and offers their findings to all recipients.

    Parameters
    ----------
    reader : Reader
        Reads the runs.
    root : path
    recipients : sequence of Recipient
    settings : Alerts
    board : str
        The board's address, for links.
    """

    def __init__(
        self, reader: Reader, root: AnyPath, recipients: Sequence[Recipient], settings: Alerts, board: str
    ) -> None:
        self._reader = reader
        self._root = reader.watch_root(root)
        self._channels = [Channel(recipient) for recipient in recipients]
        self._alarms_only = settings.alert_severity == "alarm"
        self._board = (settings.alert_board or board).rstrip("/")
        self._thresholds = Health.from_environment()
        self._followed: dict[AnyPath, RunIndex] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rlpanel-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all threads; what did not go out yet does when the board is started again."""
        self._stopping.set()
        for channel in self._channels:
            channel.stop()
        self._thread.join(timeout=0.5)

    @property
    def waiting(self) -> int:
        """Alerts that did not arrive yet."""
        return sum(channel.waiting for channel in self._channels)

    @property
    def sent(self) -> int:
        """Alerts that arrived."""
        return sum(channel.sent for channel in self._channels)

    @property
    def failing(self) -> int:
        """Recipients that did not take the last one."""
        return sum(channel.failing for channel in self._channels)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look(time.time())
            except Exception:  # the next look may do better, and the board goes on in any case
                log.exception("the findings could not be looked at")
            self._stopping.wait(EVERY)

    def look(self, now: float) -> None:
        """One look at every run that is being written."""
        runs = self._written(now)
        for run in runs:
            if run.path not in self._followed:
                self._followed[run.path] = self._reader.open(run.path, run.name)
        for path in set(self._followed) - {run.path for run in runs}:
            self._reader.close(self._followed.pop(path))
        for run in runs:
            self._tell_of(run, self._followed[run.path], now)

    def _written(self, now: float) -> list[RunInfo]:
        """The runs that were written to lately, newest first."""
        found = [run for run in self._root.runs or [] if now - run.modified < LIVE]
        return sorted(found, key=lambda run: -run.modified)[:MOST]

    def _tell_of(self, run: RunInfo, index: RunIndex, now: float) -> None:
        snapshot = index.snapshot
        # Half a backlog looks like a run that began in the middle.
        if not snapshot.version or not snapshot.progress.caught_up or self._stopping.is_set():
            return
        found = found_in(index, self._thresholds, now)
        worth = [finding for finding in found if finding.severity == "alarm" or not self._alarms_only]
        if not worth:
            return
        sent = Sent(run.path)
        noted = sent.read()
        for finding in worth:
            alert = Alert(id_of(run, finding), self._body(run, finding, now), sent)
            for channel in self._channels:
                channel.offer(alert, noted)

    def _body(self, run: RunInfo, finding: Finding, now: float) -> bytes:
        return json.dumps(as_plain(run, finding, now, self._board)).encode()


@contextmanager
def going_out(reader: Reader, root: AnyPath | None, board: str) -> Iterator[Watcher | None]:
    """Inside this, findings in the runs below ``root`` go to whoever the settings name; None if to nobody.

    Raises
    ------
    SettingError
        If a recipient cannot be one.
    """
    settings = Alerts.from_environment()
    recipients = from_settings(settings)
    watcher = Watcher(reader, root, recipients, settings, board) if recipients and root is not None else None
    try:
        yield watcher
    finally:
        if watcher is not None:
            watcher.stop()


def id_of(run: RunInfo, finding: Finding) -> str:
    """The same for the same trouble of a run, however often it is found; another once it is an alarm."""
    return xxhash.xxh3_128_hexdigest(json.dumps([str(run.path), finding.key, finding.severity]).encode())


def as_plain(run: RunInfo, finding: Finding, now: float, board: str) -> dict[str, Any]:
    """What those who are alerted get."""
    steps = finding.steps
    query = urlencode({"run": run.name} | ({"step": steps[-1]} if steps else {}), errors="replace")
    return {
        "id": id_of(run, finding),
        "text": f"{finding.severity} in {run.label}: {finding.sentence}",
        "run": run.name,
        "path": str(run.path),
        "severity": finding.severity,
        "rule": finding.rule,
        "subject": finding.subject,
        "sentence": finding.sentence,
        "evidence": list(finding.evidence),
        "steps": len(steps),
        "first_step": steps[0] if steps else None,
        "last_step": steps[-1] if steps else None,
        "time": round(now, 3),
        "link": f"{board}/?{query}",
    }
