"""Whether the board is well, for a person's ``curl``, a proxy and Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from tornado.web import RequestHandler

from rlpanel.app.alerts import Watcher
from rlpanel.app.hub import hub

#: A reader that has not come back from the files for so many seconds hangs, most likely in the file system.
STUCK = 60.0


@dataclass(frozen=True)
class Health:
    """What is known of the process's reader and its viewers.

    Attributes
    ----------
    well : bool
        Whether the reader reads.
    failure : str
        What keeps it from reading; empty if nothing.
    runs, sessions : int
        Runs that are followed; pages that are open.
    samples, bad_lines, behind_bytes : int
        Of the runs that are followed; bytes that were found in files and are not taken in.
    lines_read, bytes_read, rounds : int
        Since the process began: samples and bad lines, bytes, looks at the files.
    seconds_since_round : float
        Since the reader last finished a look at the files.
    newest_line_age : float or None
        Seconds since the newest line; None before there is one.
    alerts_waiting, alerts_sent, alerts_failing : int or None
        Alerts that did not arrive yet, and that did; recipients that did not take the last one. None where
        nobody is to be alerted.
    """

    well: bool
    failure: str
    runs: int
    sessions: int
    samples: int
    bad_lines: int
    behind_bytes: int
    lines_read: int
    bytes_read: int
    rounds: int
    seconds_since_round: float
    newest_line_age: float | None
    alerts_waiting: int | None
    alerts_sent: int | None
    alerts_failing: int | None


class _Told:
    """Whose alerts are told of."""

    watcher: Watcher | None = None


def tell_of(watcher: Watcher | None) -> None:
    """From now on the health says how these alerts fare."""
    _Told.watcher = watcher


def health() -> Health:
    """The state of things now; cheap, any thread may ask."""
    here = hub()
    reader, watcher = here.reader, _Told.watcher
    snapshots = [index.snapshot for index in reader.runs]
    newest = max((snapshot.newest_line for snapshot in snapshots), default=0.0)
    failure = reader.failure
    if not failure and reader.stuck > STUCK:
        failure = f"the reader has not come back from the files for {reader.stuck:.0f} s"
    return Health(
        well=not failure,
        failure=failure,
        runs=len(snapshots),
        sessions=here.sessions,
        samples=sum(snapshot.all_samples for snapshot in snapshots),
        bad_lines=sum(snapshot.bad_count for snapshot in snapshots),
        behind_bytes=sum(snapshot.progress.waiting for snapshot in snapshots),
        lines_read=reader.lines,
        bytes_read=reader.bytes,
        rounds=reader.rounds,
        seconds_since_round=round(reader.stuck, 3),
        newest_line_age=round(max(0.0, time.time() - newest), 3) if newest else None,
        alerts_waiting=watcher.waiting if watcher else None,
        alerts_sent=watcher.sent if watcher else None,
        alerts_failing=watcher.failing if watcher else None,
    )


_GAUGES = {
    "well": "1 while the reader reads.",
    "runs": "Runs that are followed.",
    "sessions": "Pages that are open.",
    "samples": "Samples of the runs followed.",
    "bad_lines": "Lines of the runs followed that are no samples.",
    "behind_bytes": "Bytes found in files and not taken in.",
    "seconds_since_round": "Seconds since the reader last finished a look at the files.",
    "newest_line_age": "Seconds since the newest line.",
    "alerts_waiting": "Alerts that did not arrive yet.",
    "alerts_failing": "Recipients that did not take the last alert.",
}
_COUNTERS = {
    "lines_read": "Samples and bad lines taken in.",
    "bytes_read": "Bytes read from logs.",
    "rounds": "Looks at the files.",
    "alerts_sent": "Alerts that arrived.",
}


class _Collector(Collector):
    """Asks for the health whenever Prometheus does."""

    def collect(self) -> Iterator[Metric]:
        now = asdict(health())
        for name, text in _GAUGES.items():
            if now[name] is not None:
                yield GaugeMetricFamily(f"rlpanel_{name}", text, value=float(now[name]))
        for name, text in _COUNTERS.items():
            if now[name] is not None:
                yield CounterMetricFamily(f"rlpanel_{name}", text, value=float(now[name]))


REGISTRY = CollectorRegistry(auto_describe=False)
REGISTRY.register(_Collector())


class HealthHandler(RequestHandler):
    """``/health``: 200 with the numbers while the reader reads, else 503 with the reason."""

    def get(self) -> None:
        """Answer; without the token only whether all is well."""
        now = health()
        self.set_status(200 if now.well else 503)
        self.set_header("Cache-Control", "no-store")
        self.write(asdict(now) if may_read(self) else {"well": now.well})


class MetricsHandler(RequestHandler):
    """``/metrics``: the same for Prometheus."""

    def get(self) -> None:
        """Answer; `request_guard` has checked the token."""
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(generate_latest(REGISTRY))


def may_read(handler: RequestHandler) -> bool:
    """Return True if a request may see more than whether the reader works."""
    auth = handler.settings.get("auth")
    return auth is None or auth.may_read(handler.request)


PATTERNS = [("/health", HealthHandler), ("/metrics", MetricsHandler)]
