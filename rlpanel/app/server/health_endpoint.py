"""Health endpoints: ``/health`` for people and proxies, ``/metrics`` for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from tornado.web import RequestHandler

from rlpanel.app.server.background_service import Service
from rlpanel.runtime import Runtime
from rlpanel.store.index.folder_watches import WatchedRoot
from rlpanel.store.index.reader import Reader
from rlpanel.store.snapshot.snapshot import Snapshot

#: Maximum number of runs that are named.
MAX_NAMED = 20


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
        The first `MAX_NAMED` of these runs, with the reason.
    runs, sessions : int
        Number of followed runs, and of open pages.
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


@dataclass
class Observed:
    """The parts of a server that `health` reports on.

    Attributes
    ----------
    runtime : Runtime
    service : Service
        Background tasks.
    """

    runtime: Runtime
    service: Service = field(default_factory=Service)


def health(of: Observed) -> Health:
    """Return the current state; cheap and thread-safe."""
    session_hub, (live, alerts) = of.runtime.hub, of.service
    reader, root = session_hub.reader, live.root if live else None
    runs = reader.runs
    # Skip runs that were not read yet: their numbers are unknown, not 0.
    snapshots = [index.snapshot for index in runs if index.snapshot.version]
    failing = {index.name: reason for index in runs if (reason := reader.failing.get(index.path))}
    failure = _failure(reader, root, of.runtime.limits.stuck_seconds)
    return Health(
        well=not failure,
        failure=failure,
        watching=live is not None,
        root_readable=not root.failure if root and root.runs is not None else None,
        runs_found=len(root.runs) if root and root.runs is not None and not root.failure else None,
        runs=len(runs),
        runs_failing=len(failing),
        failing=dict(list(failing.items())[:MAX_NAMED]),
        sessions=session_hub.sessions,
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


def _failure(reader: Reader, root: WatchedRoot | None, stuck: float) -> str:
    """Return the reason why the board does not work; empty if it works."""
    if reader.failure:
        return reader.failure
    if reader.idle_seconds > stuck:
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

    def __init__(self, of: Observed) -> None:
        self._of = of

    def collect(self) -> Iterator[Metric]:
        values = asdict(health(self._of))
        for name, text in _GAUGES.items():
            if values[name] is not None:
                yield GaugeMetricFamily(f"rlpanel_{name}", text, value=float(values[name]))
        for name, text in _COUNTERS.items():
            if values[name] is not None:
                yield CounterMetricFamily(f"rlpanel_{name}", text, value=float(values[name]))


def registry_of(of: Observed) -> CollectorRegistry:
    """Return a registry with the metrics of a server."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(of))
    return registry


class HealthHandler(RequestHandler):
    """``/health``: status 200 with the numbers if all is well, otherwise 503 with the reason."""

    def initialize(self, of: Observed) -> None:
        """Take what it reports on."""
        self._of = of

    def get(self) -> None:
        """Send the state; without the token only whether all is well."""
        state = health(self._of)
        self.set_status(200 if state.well else 503)
        self.set_header("Cache-Control", "no-store")
        self.write(asdict(state) if may_read(self) else {"well": state.well})


class MetricsHandler(RequestHandler):
    """``/metrics``: the same numbers for Prometheus."""

    def initialize(self, registry: CollectorRegistry) -> None:
        """Take the registry, which reads the state at each request."""
        self._registry = registry

    def get(self) -> None:
        """Send the metrics; `request_guard` has checked the token."""
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(generate_latest(self._registry))


def may_read(handler: RequestHandler) -> bool:
    """Return True if a request may read all numbers, not only whether the reader works."""
    auth = handler.settings.get("auth")
    return auth is None or auth.may_read(handler.request)


def health_routes(of: Observed) -> list[Any]:
    """Return the routes of `/health` and `/metrics`."""
    registry = registry_of(of)
    return [("/health", HealthHandler, {"of": of}), ("/metrics", MetricsHandler, {"registry": registry})]
