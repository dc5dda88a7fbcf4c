"""The runtime: what runs and pages of one process share, which `rlpanel serve` and `open_run` create.

Rooms below do not import this module. They get what they need of it passed in.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from rlpanel.settings import DEFAULT_LIMITS, Limits, Reading

if TYPE_CHECKING:
    from rlpanel.checks.run_checks import RunChecks
    from rlpanel.panels.session.page_addresses import MediaAddresses, PageCodes
    from rlpanel.panels.session.session_hub import SessionHub
    from rlpanel.panels.session.threads import Threads
    from rlpanel.store.index.reader import Reader
    from rlpanel.store.index.summary_store import SummaryStore


class Runtime:
    """Reader, summaries of runs, session hub, threads, media: each created on first use. Thread-safe.

    Parameters
    ----------
    reading : Reading, optional
        Settings of the reader; by default those of the environment.
    limits : Limits
        Sizes and intervals, which tests make smaller.
    """

    def __init__(self, reading: Reading | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._reading = reading
        self._lock = threading.RLock()
        self._reader: Reader | None = None
        self._summaries: SummaryStore | None = None
        self._hub: SessionHub | None = None
        self._threads: Threads | None = None
        self._media: MediaAddresses | None = None
        self._codes: PageCodes | None = None
        self._checks: RunChecks | None = None
        self._closed = False

    # Imported on use: a command that reads a run once needs neither what follows files nor what draws.

    @property
    def reader(self) -> Reader:
        """The reader of all followed runs, with its thread, worker processes and cached texts."""
        from rlpanel.store.index.reader import Reader

        with self._lock:
            if self._reader is None:
                self._reader = Reader(self._reading, self.limits.store, self.summaries)
                if self._closed:
                    self._reader.stop()
            return self._reader

    @property
    def summaries(self) -> SummaryStore:
        """The summaries of all runs that were read or listed."""
        from rlpanel.store.index.summary_store import SummaryStore

        with self._lock:
            if self._summaries is None:
                self._summaries = SummaryStore()
            return self._summaries

    @property
    def hub(self) -> SessionHub:
        """The hub, which notifies open sessions of what the reader found."""
        from rlpanel.panels.session.session_hub import SessionHub

        with self._lock:
            if self._hub is None:
                self._hub = SessionHub(self.reader)
            return self._hub

    @property
    def threads(self) -> Threads:
        """The pools of threads of all sessions."""
        from rlpanel.panels.session.threads import Threads

        with self._lock:
            if self._threads is None:
                self._threads = Threads()
            return self._threads

    @property
    def media(self) -> MediaAddresses:
        """The addresses of audio and video of all sessions."""
        from rlpanel.panels.session.page_addresses import MediaAddresses

        with self._lock:
            if self._media is None:
                self._media = MediaAddresses()
            return self._media

    @property
    def codes(self) -> PageCodes:
        """The codes by which agents may move open pages."""
        from rlpanel.panels.session.page_addresses import PageCodes

        with self._lock:
            if self._codes is None:
                self._codes = PageCodes()
            return self._codes

    @property
    def checks(self) -> RunChecks:
        """The checks of runs that nobody opened."""
        from rlpanel.checks.run_checks import RunChecks

        with self._lock:
            if self._checks is None:
                self._checks = RunChecks(self.reader, self.summaries, self.limits.checks)
                if self._closed:
                    self._checks.stop()
            return self._checks

    def reading(self, **changed: Any) -> Reading:
        """Return the settings of the reader, with some values changed."""
        if self._reading is None:
            return Reading.from_environment(**changed)
        return Reading(**{**self._reading.param.values(), **changed})

    @property
    def closed(self) -> bool:
        """True once `close` was called; a closed runtime reads nothing more."""
        return self._closed

    def close(self) -> None:
        """End the reader, its processes and the threads; wait up to five seconds for the reader."""
        with self._lock:
            self._closed = True
        if self._checks is not None:
            self._checks.stop()
        if self._reader is not None:
            self._reader.stop()
        if self._threads is not None:
            self._threads.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: The runtime of callers that were given none: `open_run` and `board` in a notebook or under `panel serve`
#: share one reader without passing anything to each other.
_default: Runtime | None = None
_default_lock = threading.Lock()


def default_runtime() -> Runtime:
    """Return the runtime of this process, created on first use and after it was closed."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Runtime()
        return _default
