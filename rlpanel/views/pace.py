"""When a session may be drawn: not while its browser still takes the last drawing, and never all at once.

Drawing one page takes some milliseconds of the event loop. With fifty pages told of the same news, the loop
would draw for half a second and answer nobody; spread out, each waits a little longer for its turn, and what
comes meanwhile is drawn with it.
"""

from __future__ import annotations

from typing import Any

from bokeh.document import Document

#: Share of the event loop's time that drawing may take.
SHARE = 0.5
#: No drawing keeps others waiting as if it took longer: a page's first one, say.
MOST_SECONDS = 0.1
#: Weight of the newest drawing in the running mean of what one costs.
NEWEST = 0.2


class Turns:
    """Gives out times to draw at; for one event loop."""

    def __init__(self) -> None:
        self._free = 0.0
        self._cost = 0.0

    def after(self, earliest: float) -> float:
        """The next free time at or after ``earliest``, which is then taken; seconds of any one clock."""
        turn = max(earliest, self._free)
        self._free = turn + self._cost / SHARE
        return turn

    def took(self, seconds: float) -> None:
        """A drawing took so long."""
        self._cost += NEWEST * (min(seconds, MOST_SECONDS) - self._cost)


def is_taking(document: Document) -> bool:
    """Whether a browser of the document has not yet taken what was sent.

    A page that sleeps takes nothing; what is sent to it all the same would wait in this process's memory.
    """
    context: Any = document.session_context
    session = getattr(context, "session", None)
    connections = session._subscribed_connections if session is not None else ()
    return any(_writing(connection._socket) for connection in connections)


def _writing(socket: Any) -> bool:
    websocket = socket.ws_connection
    return websocket is not None and websocket.stream.writing()
