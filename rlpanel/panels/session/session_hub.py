"""Broadcasts changes that the reader found to all sessions.

The reader calls from its own thread, where Panel's current document is not set. Each session therefore keeps
its document. Drawing happens on the event loop, in one coalesced callback per document.
"""

from __future__ import annotations

import threading
import time
from weakref import WeakKeyDictionary

from rlpanel.panels.session.event_loop import turns
from rlpanel.panels.session.session import Session
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Seconds for which sessions that wait for their turn are drawn from the same snapshot.
HELD = 0.5


class SessionHub:
    """Notifies all open sessions of changed runs.

    Attributes
    ----------
    left : int
        Number of sessions that have ended.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.left = 0
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._recent: WeakKeyDictionary[RunIndex, tuple[float, RunView]] = WeakKeyDictionary()
        self._unsubscribe = reader.listen(self._notify_all)

    def join(self, session: Session) -> None:
        """Add a session, which is notified from now on."""
        with self._lock:
            self._sessions.add(session)

    def leave(self, session: Session) -> None:
        """Remove a session that ended."""
        session.closed = True
        with self._lock:
            self.left += session in self._sessions
            self._sessions.discard(session)

    @property
    def sessions(self) -> int:
        """Number of open sessions."""
        return len(self._sessions)

    def view(self, index: RunIndex) -> RunView:
        """Return the view from which a session should draw; call it on the event loop.

        While pages wait for their turn, they share a view up to `HELD` seconds old, so that derived data is
        computed once (see `snapshot_cache`). A session that got an older one must be notified again.
        """
        now = time.monotonic()
        since, view = self._recent.get(index, (0.0, index.view))
        if not turns().waiting or now - since > HELD:
            since, view = now, index.view
            self._recent[index] = since, view
        return view

    def _notify_all(self, changed: RunIndex | None) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.notify(changed)
