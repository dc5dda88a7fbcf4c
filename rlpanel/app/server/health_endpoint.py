"""Health endpoints: ``/health`` for people and proxies, ``/metrics`` for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from tornado.web import RequestHandler

from rlpanel.app.server.background_service import Service
from rlpanel.app.session_hub import hub
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.watched_root import WatchedRoot
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds without a finished round after which the reader counts as hung, most likely in the file system.
STUCK = 60.0
#: Maximum number of runs that are named.
MOST_NAMED = 20


@dataclass(frozen=True)
class Health:
    """State of the process's reader, root, sessions and alerts; None for values that are not known.

    Attributes
    ----------
    well : bool
        True while the reader works and the watched root can be read.
    failure : str
        Reason why `well` is False; empty otherwise.
    watching : bool
        True if all growing runs are followed; otherwise only those on open pages are.
    root_readable : bool or None
        Whether the root's folder can be listed.
    runs_found : int or None
        Number of runs below the root.
    runs_failing : int
        Number of followed runs that cannot be read because of an unexpected error; others are read.
    failing : dict of str to str
        The first `MOST_NAMED` of these runs, with the reason.
    runs, sessions, spare_pages : int
        Number of followed runs, of open pages, and of pages that are built for the next visitors.
    samples, bad_lines, behind_bytes : int or None
        Totals over the followed runs: samples, lines that are no samples, bytes not read yet.
    lines_read, bytes_read, rounds : int
        Totals since the process started: samples and bad lines, bytes, rounds over the files.
    seconds_since_round : float or None
        Seconds since the reader last finished a round over the files.
    newest_line_age : float or None
        Seconds since the newest line: of all runs below a watched root, otherwise of the followed runs.
    alerts_waiting, alerts_sent, alerts_failing : int or None
        Number of alerts not delivered yet, of delivered alerts, and of recipients for which the last attempt
        failed. None without recipients.
    """

    well: bool
    failure: str
    watching: bool
    root_readable: bool | None
    runs_found: int | None
    runs: int
    runs_failing: int
    failing: dict[str, str]
    sessions: int
    spare_pages: int
    samples: int | None
    bad_lines: int | None
    behind_bytes: int | None
    lines_read: int
    bytes_read: int
    rounds: int
    seconds_since_round: float | None
    newest_line_age: float | None
    alerts_waiting: int | None
    alerts_sent: int | None
    alerts_failing: int | None


class _Current:
    """Holds the service that `health` reports on, and counts the spare pages."""

    service = Service()
    count_spare_pages: Callable[[], int] = staticmethod(lambda: 0)


def set_service(service: Service) -> None:
    """Set the service that `health` reports on."""
    _Current.service = service


def set_spare_pages(count: Callable[[], int]) -> None:
    """Set the function that returns the number of spare pages."""
    _Current.count_spare_pages = staticmethod(count)


def health() -> Health:
    """Return the current state; cheap and thread-safe."""
    session_hub, (live, alerts) = hub(), _Current.service
    reader, root = session_hub.reader, live.root if live else None
    runs = reader.runs
    # Skip runs that were not read yet: their numbers are unknown, not 0.
    snapshots = [index.snapshot for index in runs if index.snapshot.version]
    failing = {index.name: reason for index in runs if (reason := reader.failing.get(index.path))}
    failure = _failure(reader, root)
    return Health(
        well=not failure,
        failure=failure,
        watching=live is not None,
        root_readable=not root.failure if root and root.runs is not None else None,
        runs_found=len(root.runs) if root and root.runs is not None and not root.failure else None,
        runs=len(runs),
        runs_failing=len(failing),
        failing=dict(list(failing.items())[:MOST_NAMED]),
        sessions=session_hub.sessions,
        spare_pages=_Current.count_spare_pages(),
        samples=_total(snapshot.all_samples for snapshot in snapshots),
        bad_lines=_total(snapshot.bad_count for snapshot in snapshots),
        behind_bytes=_total(snapshot.progress.waiting for snapshot in snapshots),
        lines_read=reader.lines,
        bytes_read=reader.bytes,
        rounds=reader.rounds,
        seconds_since_round=round(reader.idle_seconds, 3) if reader.started else None,
        newest_line_age=_newest_line_age(snapshots, root, time.time()),
        alerts_waiting=alerts.waiting if alerts else None,
        alerts_sent=alerts.sent if alerts else None,
        alerts_failing=alerts.failing if alerts else None,
    )


def _failure(reader: Reader, root: WatchedRoot | None) -> str:
    """Return the reason why the board does not work; empty if it works."""
    if reader.failure:
        return reader.failure
    if reader.idle_seconds > STUCK:
        return f"the reader has not finished a round over the files for {reader.idle_seconds:.0f} s"
    return f"the root {root.path} cannot be read: {root.failure}" if root and root.failure else ""


def _total(numbers: Iterable[int]) -> int | None:
    """Return the sum; None if there are no numbers."""
    values = list(numbers)
    return sum(values) if values else None


def _newest_line_age(snapshots: list[Snapshot], root: WatchedRoot | None, now: float) -> float | None:
    times = [snapshot.newest_line for snapshot in snapshots if snapshot.newest_line]
    times += [run.modified for run in (root.runs if root else None) or []]
    return round(max(0.0, now - max(times)), 3) if times else None


_GAUGES = {
    "well": "1 while the reader works and the watched root can be read.",
    "watching": "1 if all growing runs are followed, 0 if only those on open pages are.",
    "root_readable": "1 while the root's folder can be listed.",
    "runs_found": "Runs below the root.",
    "runs": "Runs being followed.",
    "runs_failing": "Followed runs that cannot be read because of an unexpected error.",
    "sessions": "Open pages.",
    "spare_pages": "Pages that are built for the next visitors.",
    "samples": "Samples of the followed runs.",
    "bad_lines": "Lines of the followed runs that are no samples.",
    "behind_bytes": "Bytes of log files that are not read yet.",
    "seconds_since_round": "Seconds since the reader last finished a round over the files.",
    "newest_line_age": "Seconds since the newest line.",
    "alerts_waiting": "Alerts that are not delivered yet.",
    "alerts_failing": "Recipients for which the last attempt failed.",
}
_COUNTERS = {
    "lines_read": "Samples and bad lines read.",
    "bytes_read": "Bytes read from log files.",
    "rounds": "Rounds over the files.",
    "alerts_sent": "Alerts delivered.",
}


class _Collector(Collector):
    """Prometheus collector that reads `health` at each scrape."""

    def collect(self) -> Iterator[Metric]:
        values = asdict(health())
        for name, text in _GAUGES.items():
            if values[name] is not None:
                yield GaugeMetricFamily(f"rlpanel_{name}", text, value=float(values[name]))
        for name, text in _COUNTERS.items():
            if values[name] is not None:
                yield CounterMetricFamily(f"rlpanel_{name}", text, value=float(values[name]))


REGISTRY = CollectorRegistry(auto_describe=False)
REGISTRY.register(_Collector())


class HealthHandler(RequestHandler):
    """``/health``: status 200 with the numbers if all is well, otherwise 503 with the reason."""

    def get(self) -> None:
        """Send the state; without the token only whether all is well."""
        state = health()
        self.set_status(200 if state.well else 503)
        self.set_header("Cache-Control", "no-store")
        self.write(asdict(state) if may_read(self) else {"well": state.well})


class MetricsHandler(RequestHandler):
    """``/metrics``: the same numbers for Prometheus."""

    def get(self) -> None:
        """Send the metrics; `request_guard` has checked the token."""
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(generate_latest(REGISTRY))


def may_read(handler: RequestHandler) -> bool:
    """Return True if a request may read all numbers, not only whether the reader works."""
    auth = handler.settings.get("auth")
    return auth is None or auth.may_read(handler.request)


PATTERNS = [("/health", HealthHandler), ("/metrics", MetricsHandler)]
