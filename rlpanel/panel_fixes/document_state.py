"""Reads what Panel and Bokeh know of a served document, for which they have no public interface.

Upstream: docs/upstream/bokeh-unsent-messages.md
Needed by: Panel 1.9 to 1.10, Bokeh 3.9 to 3.10
Delete when: Bokeh says whether a session's messages have been sent, and Panel whether it holds changes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bokeh.document import Document
from panel.io.document import _WRITE_BLOCK


def has_unsent_changes(document: Document) -> bool:
    """Return True if changes of the document wait until Panel sends them.

    Panel 1.10 makes messages of held and queued changes when it sends them. Points that are appended to a
    change meanwhile would be part of it, and be sent again on their own.
    """
    return bool(document.callbacks.hold_value or document in _WRITE_BLOCK)


def is_sending(document: Document) -> bool:
    """Return True if a browser has not yet received all that was sent."""
    session = getattr(document.session_context, "session", None)
    connections = session._subscribed_connections if session is not None else ()
    return any(_is_writing(connection._socket) for connection in connections)


def server_loop(document: Document) -> asyncio.AbstractEventLoop | None:
    """Return the server's loop: a page may be built on a worker thread, which has none."""
    session: Any = document.session_context
    application = session.server_context.application_context
    loop: asyncio.AbstractEventLoop | None = application.io_loop.asyncio_loop if application else None
    return loop


def _is_writing(socket: Any) -> bool:
    websocket = socket.ws_connection
    return websocket is not None and websocket.stream.writing()
