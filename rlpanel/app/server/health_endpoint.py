"""Whether the board is well, for a person's ``curl``, a proxy and Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from tornado.web import RequestHandler

from rlpanel.app.server.service import Service
from rlpanel.app.session_hub import hub
from rlpanel.store.index.reader import Reader, Root
from rlpanel.store.snapshot.snapshot import Snapshot

#: A reader that has not come back from the files for so many seconds hangs, most likely in the file system.
STUCK = 60.0


@dataclass(frozen=True)
class Health:
    """What is known of the process's reader, the root and the viewers; None where it is not known.

    Attributes
    ----------
    well : bool
        Whether the reader reads, and the root can be read where it is watched.
    failure : str
        Why not; empty if all is well.
    watching : bool
        Whether all runs that grow are followed; without, only those that a page shows are.
    root_readable : bool or None
        Whether the root's folder can be listed.
    runs_found : int or None
        Runs below the root.
    runs, sessions : int
        Runs that are followed; pages that are open.
    samples, bad_lines, behind_bytes : int or None
        Of the runs that are followed; bytes that were found in files and are not taken in.
    lines_read, bytes_read, rounds : int
        Since the process began: samples and bad lines, bytes, looks at the files.
    seconds_since_round : float or None
        Since the reader last finished a look at the files.
    newest_line_age : float or None
        Seconds since the newest line: of all runs below the root where it is watched, else of those followed.
    alerts_waiting, alerts_sent, alerts_failing : int or None
        Alerts that did not arrive yet, and that did; recipients that did not take the last one. None where
        nobody is to be alerted.
    """

    well: bool
    failure: str
    watching: bool
    root_readable: bool | None
    runs_found: int | None
    runs: int
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


class _Told:
    """The service that is spoken of."""

    service = Service()


def tell_of(service: Service) -> None:
    """From now on the health speaks for this service."""
    _Told.service = service


def health() -> Health:
    """The state of things now; cheap, any thread may ask."""
    here, (live, alerts) = hub(), _Told.service
    reader, root = here.reader, live.root if live else None
    runs = reader.runs
    # A run that was not read yet has no numbers, rather than none of anything.
    snapshots = [index.snapshot for index in runs if index.snapshot.version]
    failure = _failure(reader, root)
    return Health(
        well=not failure,
        failure=failure,
        watching=live is not None,
        root_readable=not root.failure if root and root.runs is not None else None,
        runs_found=len(root.runs) if root and root.runs is not None and not root.failure else None,
        runs=len(runs),
        sessions=here.sessions,
        samples=_total(snapshot.all_samples for snapshot in snapshots),
        bad_lines=_total(snapshot.bad_count for snapshot in snapshots),
        behind_bytes=_total(snapshot.progress.waiting for snapshot in snapshots),
        lines_read=reader.lines,
        bytes_read=reader.bytes,
        rounds=reader.rounds,
        seconds_since_round=round(reader.stuck, 3) if reader.started else None,
        newest_line_age=_newest_line_age(snapshots, root, time.time()),
        alerts_waiting=alerts.waiting if alerts else None,
        alerts_sent=alerts.sent if alerts else None,
        alerts_failing=alerts.failing if alerts else None,
    )


def _failure(reader: Reader, root: Root | None) -> str:
    """What is wrong; empty if nothing is known to be."""
    if reader.failure:
        return reader.failure
    if reader.stuck > STUCK:
        return f"the reader has not come back from the files for {reader.stuck:.0f} s"
    return f"the root {root.path} cannot be read: {root.failure}" if root and root.failure else ""


def _total(numbers: Iterable[int]) -> int | None:
    """The sum; None of nothing."""
    found = list(numbers)
    return sum(found) if found else None


def _newest_line_age(snapshots: list[Snapshot], root: Root | None, now: float) -> float | None:
    times = [snapshot.newest_line for snapshot in snapshots if snapshot.newest_line]
    times += [run.modified for run in (root.runs if root else None) or []]
    return round(max(0.0, now - max(times)), 3) if times else None


_GAUGES = {
    "well": "1 while the reader reads, and the root can be read where it is watched.",
    "watching": "1 where all runs that grow are followed, 0 where only those that a page shows are.",
    "root_readable": "1 while the root's folder can be listed.",
    "runs_found": "Runs below the root.",
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
    """``/health``: 200 with the numbers while all is well, else 503 with the reason."""

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
