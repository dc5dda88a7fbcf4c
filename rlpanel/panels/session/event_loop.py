"""Where drawing happens: an event loop and, if the page is served, its document. Any thread may call back.

bokeh's own `Document.add_next_tick_callback` is for the loop's thread alone. While the loop holds a document
(`panel.io.hold`), what is scheduled is kept with what changed, and what another thread adds at the end of
the hold is lost, without a word and for good.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import panel as pn
from bokeh.document import Document


class SessionLoop:
    """A loop, and the document that is drawn on it.

    Parameters
    ----------
    loop : AbstractEventLoop
        The one that runs where the place is made.
    document : Document, optional
        With a session. None for a notebook's cell, which has only the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, document: Document | None = None) -> None:
        self._loop, self._document = loop, document
        self._session: Any = document.session_context if document is not None else None

    @property
    def is_served(self) -> bool:
        """Whether a browser comes for the document."""
        return self._document is not None

    @property
    def is_gone(self) -> bool:
        """Whether nothing is drawn here any more: the document's session has ended, or the loop."""
        return self._loop.is_closed() or (self._session is not None and self._session.destroyed)

    @property
    def is_sending(self) -> bool:
        """Whether a browser has not yet taken what was sent last.

        A page that sleeps takes nothing; what is sent to it all the same would wait in this process's memory.
        """
        session = getattr(self._session, "session", None)
        connections = session._subscribed_connections if session is not None else ()
        return any(_writing(connection._socket) for connection in connections)

    def call_soon(self, callback: Callable[[], Any]) -> None:
        """Call back on the loop, under the document's lock, unless it is gone; any thread may ask."""
        # In no document's context, which would be kept in memory as long as the callback.
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._enter, callback, context=contextvars.Context())

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call back after a while, as `call_soon` does; called on the loop."""
        self._loop.call_later(seconds, self._enter, callback, context=contextvars.Context())

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back when the session ends; a loop alone does not end."""
        if self._document is not None:
            self._document.on_session_destroyed(lambda _: callback())

    def _enter(self, callback: Callable[[], Any]) -> None:
        if self.is_gone:
            return
        if self._document is None:
            callback()
        else:
            self._document.add_next_tick_callback(callback)


def current_loop() -> SessionLoop | None:
    """The page being served, or the loop that runs a notebook's cell; in a script nothing can come back."""
    document = pn.state.curdoc
    if document is not None and document.session_context is None:
        document = None
    loop = _running() or (_serving(document) if document is not None else None)
    return SessionLoop(loop, document) if loop is not None else None


def drawing_loop() -> SessionLoop | None:
    """The served page's loop; None in a script or notebook cell, whose first output should be complete."""
    return current_loop() if pn.state.curdoc is not None else None


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _serving(document: Document) -> asyncio.AbstractEventLoop | None:
    """The server's loop: `panel serve --num-threads` builds pages on other threads."""
    session: Any = document.session_context
    application = session.server_context.application_context
    return application.io_loop.asyncio_loop if application is not None else None


def _writing(socket: Any) -> bool:
    websocket = socket.ws_connection
    return websocket is not None and websocket.stream.writing()
