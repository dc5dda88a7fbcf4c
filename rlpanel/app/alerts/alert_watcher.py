"""Keeps live runs open, checks them by the rules also without a page, and sends their findings."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xxhash

from rlpanel.app.alerts.alert_delivery import PAUSE, Alert, AlertQueue, Recipient
from rlpanel.board_url import write_query
from rlpanel.findings.check import cached_findings, raised_findings
from rlpanel.findings.engine.finding import Finding, finding_dict
from rlpanel.findings.engine.raised import RaisedFinding, keys_of, sure
from rlpanel.settings import Alerts, FindingSettings, LiveRunLimits
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.index.folder_watches import WatchedRoot
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex

# -- live runs -----------------------------------------------------------------------------------------
# Keeps the recently written runs open, so that alerts and `/health` cover them without an open page.


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveRun:
    """A run that is being written, with its index, which the reader keeps up to date."""

    info: RunInfo
    index: RunIndex


Listener = Callable[[Sequence[LiveRun], float], None]


class LiveRuns:
    """Background thread that opens the newest recently written runs below a root; `stop` ends it.

    Parameters
    ----------
    reader : Reader
        Reads the runs.
    root : path
        The folder that holds runs; it may be created later.
    limits : LiveRunLimits, optional

    Attributes
    ----------
    root : WatchedRoot
        The runs that the reader found below the root.
    """

    def __init__(self, reader: Reader, root: AnyPath, limits: LiveRunLimits | None = None) -> None:
        self._limits = limits or LiveRunLimits()
        self.root: WatchedRoot = reader.watch_root(root)
        self._reader = reader
        self._followed: dict[AnyPath, RunIndex] = {}
        self._listeners: list[Listener] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rlpanel-live-runs", daemon=True)

    def listen(self, listener: Listener) -> None:
        """Register a callback for the live runs and the time after each check; it must not block for long."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which then closes all runs."""
        self._stopping.set()
        self._thread.join(timeout=0.5)

    def check(self, now: float) -> None:
        """Open the runs that are being written, close the others, and call the listeners."""
        runs = self._recent_runs(now)
        for path in set(self._followed) - {run.path for run in runs}:
            self._reader.close(self._followed.pop(path))
        for run in runs:
            if run.path not in self._followed:
                self._followed[run.path] = self._reader.open(run.path, run.name)
        live = [LiveRun(run, self._followed[run.path]) for run in runs]
        for listener in self._listeners:
            if not self._stopping.is_set():
                listener(live, now)

    def _recent_runs(self, now: float) -> list[RunInfo]:
        """Return the newest recently written runs, newest first."""
        recent = [run for run in self.root.runs or [] if now - run.modified < self._limits.live_seconds]
        return sorted(recent, key=lambda run: -run.modified)[: self._limits.runs]

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.check(time.time())
            except Exception:  # keep the server running; the next check may succeed
                log.exception("checking the live runs failed; it is tried again")
            self._stopping.wait(self._limits.interval)
        for index in self._followed.values():
            self._reader.close(index)


# -- alert watcher -------------------------------------------------------------------------------------
# Checks all live runs by the rules, also while no page is open, and sends their findings to the recipients.
#
# The run list marks runs that nobody opened by the same checks.


#: Most symptoms that the text of an alert names.
_SYMPTOMS = 2


class LiveChecks:
    """Listener of `LiveRuns`: computes the findings of each live run, which notes the run's mark."""

    def __init__(self) -> None:
        self._thresholds = FindingSettings.from_environment()

    def check(self, runs: Sequence[LiveRun], now: float) -> None:
        """Check all runs whose backlog is read."""
        for run in runs:
            self.findings_of(run, now)

    def findings_of(self, run: LiveRun, now: float) -> list[Finding] | None:
        """Return the findings of a run; None while its backlog is read, because a part would mislead."""
        snapshot = run.index.snapshot
        if not snapshot.version or not snapshot.progress.caught_up:
            return None
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
        self._lasting: dict[AnyPath, dict[str, Finding]] = {}  # what was sent and has not ended, by key
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
            if self._stopping.is_set():
                return
            findings = self._checks.findings_of(run, now)
            if findings is not None:
                self._send(run.info, findings, raised_findings(run.index).by_key, now)
        for path in self._lasting.keys() - {run.info.path for run in runs}:
            del self._lasting[path]  # it is not written any more

    def _send(
        self, run: RunInfo, findings: Sequence[Finding], raised: Mapping[str, RaisedFinding], now: float
    ) -> None:
        """Queue the findings that are confirmed, and those that were sent and have ended."""
        lasting = self._lasting.setdefault(run.path, {})
        for finding in filter(None, (sure(each, raised) for each in findings)):
            if finding.key in lasting and lasting[finding.key].severity == "alarm":
                finding = replace(finding, severity="alarm")  # that it calms down is not sent, its end is
            if finding.severity in self._severities:
                lasting[finding.key] = finding
                self._offer(run, finding, raised, now)
        listed = {key for each in findings for key in keys_of(each)}
        for key, finding in list(lasting.items()):
            is_over = raised[key].ended is not None if key in raised else key not in listed
            if is_over and self._offer(run, finding, raised, now, ended=True):
                del lasting[key]

    def _offer(
        self,
        run: RunInfo,
        finding: Finding,
        raised: Mapping[str, RaisedFinding],
        now: float,
        *,
        ended: bool = False,
    ) -> bool:
        """Queue an alert for all recipients; False if a queue is full, so that it is offered again."""
        returns = raised[finding.key].returns if finding.key in raised else 0
        content = alert_json(run, finding, now, self._board, ended=ended, returns=returns)
        alert = Alert(content["id"], json.dumps(content).encode())
        offered = [queue.offer(alert) for queue in self._queues]
        return all(offered)


def alert_id(run: RunInfo, finding: Finding, *, ended: bool = False, returns: int = 0) -> str:
    """Return an id that stays the same while a finding of a run persists, and changes with its severity.

    Its end has another id, and so has a finding that came back ``returns`` times after its end.
    """
    parts: list[Any] = [str(run.path), finding.key, finding.severity]
    parts += [returns] * (returns > 0) + ["ended"] * ended
    return xxhash.xxh3_128_hexdigest(json.dumps(parts).encode())


def alert_json(
    run: RunInfo, finding: Finding, now: float, board: str, *, ended: bool = False, returns: int = 0
) -> dict[str, Any]:
    """Return the JSON object that recipients get for a finding or for its end, as a dict."""
    finding_json = finding_dict(finding) | ({"ongoing": False} if ended else {})
    symptoms = "".join(f" Also: {each.sentence}" for each in finding.symptoms[:_SYMPTOMS])
    return {
        "id": alert_id(run, finding, ended=ended, returns=returns),
        "text": f"{'ended' if ended else finding.severity} in {run.label}: {finding.sentence}{symptoms}",
        "ended": ended,
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
