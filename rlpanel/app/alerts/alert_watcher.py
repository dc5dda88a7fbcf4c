"""Checks all live runs by the rules, also while no page is open, and sends their findings to the recipients.

The run list marks runs that nobody opened by the same checks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import xxhash

from rlpanel.app.alerts.alert_delivery import PAUSE, Alert, AlertQueue, Recipient
from rlpanel.app.live_runs import LiveRun, LiveRuns
from rlpanel.board_url import write_query
from rlpanel.findings.check import cached_findings
from rlpanel.findings.engine.finding import Finding, finding_dict
from rlpanel.settings import Alerts, FindingSettings
from rlpanel.sources.discovery.directory import RunInfo


class LiveChecks:
    """Listener of `LiveRuns`: computes the findings of each live run, which notes the run's mark."""

    def __init__(self) -> None:
        self._thresholds = FindingSettings.from_environment()

    def check(self, runs: Sequence[LiveRun], now: float) -> None:
        """Check all runs whose backlog is read."""
        for run in runs:
            self.findings_of(run, now)

    def findings_of(self, run: LiveRun, now: float) -> list[Finding]:
        """Return the findings of a run; none while its backlog is read, because a part would mislead."""
        snapshot = run.index.snapshot
        if not snapshot.version or not snapshot.progress.caught_up:
            return []
        return cached_findings(run.index, self._thresholds, now)


class AlertWatcher:
    """Queues the findings of live runs for all recipients.

    Parameters
    ----------
    live : LiveRuns
        Provides the runs; each of its checks also checks their findings.
    recipients : sequence of Recipient
    settings : Alerts
    board : str
        URL of the board, for links; the setting ``alert_board`` takes precedence.
    pause : float
        Seconds after a first failure of a recipient.
    """

    def __init__(
        self,
        live: LiveRuns,
        recipients: Sequence[Recipient],
        settings: Alerts,
        board: str,
        *,
        pause: float = PAUSE,
    ) -> None:
        self._queues = [AlertQueue(recipient, pause=pause) for recipient in recipients]
        self._severities = ("alarm",) if settings.alert_severity == "alarm" else ("alarm", "warning")
        self._board = (settings.alert_board or board).rstrip("/")
        self._checks = LiveChecks()
        self._stopping = threading.Event()
        live.listen(self._check_runs)

    def stop(self) -> None:
        """Stop the recipients' threads; queued alerts are sent when the board is restarted."""
        self._stopping.set()
        for queue in self._queues:
            queue.stop()

    @property
    def waiting(self) -> int:
        """Number of alerts that were not delivered yet."""
        return sum(queue.waiting for queue in self._queues)

    @property
    def sent(self) -> int:
        """Number of alerts that were delivered."""
        return sum(queue.sent for queue in self._queues)

    @property
    def failing(self) -> int:
        """Number of recipients for which the last attempt failed."""
        return sum(queue.failing for queue in self._queues)

    def _check_runs(self, runs: Sequence[LiveRun], now: float) -> None:
        for run in runs:
            if not self._stopping.is_set():
                findings = self._checks.findings_of(run, now)
                self._send(run.info, [each for each in findings if each.severity in self._severities], now)

    def _send(self, run: RunInfo, to_send: Sequence[Finding], now: float) -> None:
        for finding in to_send:
            alert = Alert(alert_id(run, finding), self._body(run, finding, now))
            for queue in self._queues:
                queue.offer(alert)

    def _body(self, run: RunInfo, finding: Finding, now: float) -> bytes:
        return json.dumps(alert_json(run, finding, now, self._board)).encode()


def alert_id(run: RunInfo, finding: Finding) -> str:
    """Return an id that stays the same while a finding of a run persists, and changes with its severity."""
    return xxhash.xxh3_128_hexdigest(json.dumps([str(run.path), finding.key, finding.severity]).encode())


def alert_json(run: RunInfo, finding: Finding, now: float, board: str) -> dict[str, Any]:
    """Return the JSON object that recipients get for a finding, as a dict."""
    finding_json = finding_dict(finding)
    return {
        "id": alert_id(run, finding),
        "text": f"{finding.severity} in {run.label}: {finding.sentence}",
        "run": run.name,
        "path": str(run.path),
        **finding_json,
        "first_step": finding_json["onset"],
        "last_step": finding_json["last"],
        "time": round(now, 3),
        "link": f"{board}/{_query(run, finding)}",
    }


def _query(run: RunInfo, finding: Finding) -> str:
    """Return the query string of the board at the onset of a finding, with its filter and sort order."""
    values: dict[str, Any] = {"run": run.name, "step": finding.onset, "filter": finding.where}
    # The finding itself is not one of the other split's, to whose samples the link leads.
    values |= {"sort": finding.sort, "split": finding.split, "finding": "" if finding.split else finding.key}
    return write_query({**values, "follow": False})
