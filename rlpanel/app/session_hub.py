"""Who must be told: the news of the reader go to every living session.

The reader calls from its thread. A session keeps the document it was born in, because callbacks from a
plain thread do not know which session they are for; all drawing happens on the event loop, in one
coalesced callback a document.
"""

from __future__ import annotations

import threading
import time
from weakref import WeakKeyDictionary

from rlpanel.panels.session.redraw_queue import redraw_queue
from rlpanel.panels.session.session import Session
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Seconds for which sessions that wait for each other are drawn from one snapshot.
HELD = 0.5


class SessionHub:
    """Passes the reader's news on to the sessions.

    Attributes
    ----------
    left : int
        Sessions that have ended so far.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.left = 0
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._shown: WeakKeyDictionary[RunIndex, tuple[float, RunView]] = WeakKeyDictionary()
        self._forget = reader.listen(self._news)

    def join(self, session: Session) -> None:
        """Begin to tell a session."""
        with self._lock:
            self._sessions.add(session)

    def leave(self, session: Session) -> None:
        """A session ended."""
        session.closed = True
        with self._lock:
            self.left += session in self._sessions
            self._sessions.discard(session)

    @property
    def sessions(self) -> int:
        """How many sessions listen."""
        return len(self._sessions)

    def view(self, index: RunIndex) -> RunView:
        """What a session is to be drawn from now; called on the event loop.

        While many wait for their turn, some are drawn from one snapshot, so that what they need alike is
        worked out once (see `snapshot_cache`); a session that gets an older one must be told again.
        """
        now = time.monotonic()
        taken, view = self._shown.get(index, (0.0, index.view))
        if not len(redraw_queue()) or now - taken > HELD:
            taken, view = now, index.view
            self._shown[index] = taken, view
        return view

    def _news(self, changed: RunIndex | None) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.notify(changed)


_hub: SessionHub | None = None
_hub_lock = threading.Lock()


def hub() -> SessionHub:
    """The process's hub; it follows the process's reader."""
    from rlpanel.store.open_run import reader

    global _hub
    with _hub_lock:
        service = reader()
        if _hub is None or _hub.reader is not service:
            _hub = SessionHub(service)
        return _hub
