"""Who must be told: each living session hears of changes at most ten times a second, and in its turn.

The reader calls from its thread. A session keeps the document it was born in, because callbacks from a
plain thread do not know which session they are for; all drawing happens on the event loop, in one
coalesced callback a document.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bokeh.document import Document

from rlpanel.app.pace import Turns, is_taking
from rlpanel.store.index import RunIndex
from rlpanel.store.live import Reader

log = logging.getLogger(__name__)

#: Seconds between two updates of one session.
FLOOR = 0.1


class Session:
    """One document's place in the hub.

    Parameters
    ----------
    document : Document
        Where callbacks are scheduled.
    draw : callable
        Called on the event loop with the set of what changed: runs' indexes, None for the list of runs.
    turns : Turns, optional
        Shared by the sessions of an event loop.
    """

    def __init__(
        self, document: Document, draw: Callable[[set[RunIndex | None]], None], turns: Turns | None = None
    ) -> None:
        self._document = document
        self._draw = draw
        self._turns = turns or Turns()
        self._lock = threading.Lock()
        self._changed: set[RunIndex | None] = set()
        self._scheduled = False
        self._drawn = 0.0
        self.closed = False

    def tell(self, changed: RunIndex | None) -> None:
        """Note a change; any thread may call."""
        with self._lock:
            self._changed.add(changed)
            if self._scheduled or self.closed:
                return
            self._scheduled = True
        try:
            self._document.add_next_tick_callback(self._soon)
        except RuntimeError:  # the session is being torn down
            self.closed = True

    @property
    def is_taking(self) -> bool:
        """Whether the browser still takes the last drawing."""
        return is_taking(self._document)

    def _soon(self) -> None:
        now = time.monotonic()
        wait = self._turns.after(max(now, self._drawn + FLOOR)) - now
        if wait > 0:
            self._document.add_timeout_callback(self._flush, int(wait * 1000) + 1)
        else:
            self._flush()

    def _flush(self) -> None:
        if self.is_taking and not self.closed:
            self._document.add_timeout_callback(self._flush, int(FLOOR * 1000))
            return
        with self._lock:
            changed, self._changed = self._changed, set()
            self._scheduled = False
        if self.closed:
            return
        begin = time.monotonic()
        try:
            self._draw(changed)
        except Exception:  # one broken view must not silence the session
            log.exception("a session could not be drawn")
        self._drawn = time.monotonic()
        self._turns.took(self._drawn - begin)


class Hub:
    """Passes the reader's news on to the sessions."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.turns = Turns()
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._forget = reader.listen(self._news)

    def join(self, session: Session) -> None:
        """Begin to tell a session."""
        with self._lock:
            self._sessions.add(session)

    def leave(self, session: Session) -> None:
        """A session ended."""
        session.closed = True
        with self._lock:
            self._sessions.discard(session)

    @property
    def sessions(self) -> int:
        """How many sessions listen."""
        return len(self._sessions)

    def _news(self, changed: RunIndex | None) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.tell(changed)


_hub: Hub | None = None
_hub_lock = threading.Lock()


def hub() -> Hub:
    """The process's hub; it follows the process's reader."""
    from rlpanel.store.run import reader

    global _hub
    with _hub_lock:
        service = reader()
        if _hub is None or _hub.reader is not service:
            _hub = Hub(service)
        return _hub
