"""Findings that go out by themselves: of every run that is being written, whether anybody looks or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import xxhash

from rlpanel.app.alerts.alert_delivery import Alert, AlertQueue, SentAlerts
from rlpanel.app.alerts.recipients import Recipient
from rlpanel.app.live_runs import LiveRun, LiveRuns
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.findings_cache import cached_findings
from rlpanel.settings import Alerts, FindingSettings
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.run_index import RunIndex


class AlertWatcher:
    """Offers the findings of live runs to all recipients.

    Parameters
    ----------
    live : LiveRuns
        The runs; each look at them is a look for findings.
    recipients : sequence of Recipient
    settings : Alerts
    board : str
        The board's address, for links.
    """

    def __init__(self, live: LiveRuns, recipients: Sequence[Recipient], settings: Alerts, board: str) -> None:
        self._channels = [AlertQueue(recipient) for recipient in recipients]
        self._alarms_only = settings.alert_severity == "alarm"
        self._board = (settings.alert_board or board).rstrip("/")
        self._thresholds = FindingSettings.from_environment()
        self._stopping = threading.Event()
        live.listen(self._look)

    def stop(self) -> None:
        """End the recipients' threads; what did not go out yet does when the board is started again."""
        self._stopping.set()
        for channel in self._channels:
            channel.stop()

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

    def _look(self, runs: Sequence[LiveRun], now: float) -> None:
        for run in runs:
            self._tell_of(run.info, run.index, now)

    def _tell_of(self, run: RunInfo, index: RunIndex, now: float) -> None:
        snapshot = index.snapshot
        # Half a backlog looks like a run that began in the middle.
        if not snapshot.version or not snapshot.progress.caught_up or self._stopping.is_set():
            return
        found = cached_findings(index, self._thresholds, now)
        worth = [finding for finding in found if finding.severity == "alarm" or not self._alarms_only]
        if not worth:
            return
        sent = SentAlerts(run.path)
        noted = sent.read()
        for finding in worth:
            alert = Alert(alert_id(run, finding), self._body(run, finding, now), sent)
            for channel in self._channels:
                channel.offer(alert, noted)

    def _body(self, run: RunInfo, finding: Finding, now: float) -> bytes:
        return json.dumps(as_plain(run, finding, now, self._board)).encode()


def alert_id(run: RunInfo, finding: Finding) -> str:
    """The same for the same trouble of a run, however often it is found; another once it is an alarm."""
    return xxhash.xxh3_128_hexdigest(json.dumps([str(run.path), finding.key, finding.severity]).encode())


def as_plain(run: RunInfo, finding: Finding, now: float, board: str) -> dict[str, Any]:
    """What those who are alerted get."""
    steps = finding.steps
    query = urlencode({"run": run.name} | ({"step": steps[-1]} if steps else {}), errors="replace")
    return {
        "id": alert_id(run, finding),
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
