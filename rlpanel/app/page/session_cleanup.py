"""Cleans up after a closed page: ignores the broken websocket and drops all references to its document."""

from __future__ import annotations

import asyncio
import logging
import sys
from types import FrameType
from typing import Any
from weakref import WeakSet

from bokeh.document import Document
from panel.io.state import state
from panel.links import Callback
from panel.reactive import Reactive
from panel.viewable import Viewable
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from rlpanel.panels.session.event_loop import SessionLoop

#: The warning that Bokeh and Panel log for each message to a closed page, often dozens at a time.
CLOSED = "Failed sending message as connection was closed"
#: Logger of the warning → the function that logs it, and its local variable that identifies the connection.
_SOURCES = {
    "bokeh.server.views.ws": ("send_message", "self"),
    "panel.io.document": ("_run_write_futures", "doc"),
}


class OncePerConnection(logging.Filter):
    """Logging filter that passes `CLOSED` at debug level, once for each connection."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: WeakSet[Any] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False if the record is to be dropped; called by the logger before any handler."""
        if record.msg != CLOSED:
            return True
        connection = _local_variable(sys._getframe(), *_SOURCES[record.name])
        logged = connection in self._logged
        self._logged.add(connection)
        record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        return not logged and logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _local_variable(frame: FrameType | None, function: str, name: str) -> Any:
    """Return a local variable of a function on the call stack, or one shared value without that function."""
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame.f_locals[name] if frame is not None else OncePerConnection


_filter = OncePerConnection()


def ignore_closed_connections(loop: SessionLoop) -> None:
    """Silence errors about closed connections in the logs and on the session's event loop. Thread-safe.

    A message is sent in several writes. If the connection closes between two of them, nobody awaits the first
    write's future, and asyncio would print a traceback when that is garbage-collected.
    """
    for name in _SOURCES:
        logging.getLogger(name).addFilter(_filter)
    loop.on_loop(_set_exception_handler)


def _set_exception_handler(loop: asyncio.AbstractEventLoop) -> None:
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_ignore_closed)


def _ignore_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), WebSocketClosedError | StreamClosedError):
        loop.default_exception_handler(context)


def release_page(document: Document, page: Viewable) -> None:
    """Drop the references that Panel keeps to a page whose session ended.

    Panel leaves the root of the notifications in ``state._views``, which keeps the document and its models
    alive. It also leaves a table's callback in ``Callback.registry``, which can keep the table alive.
    """
    for part in page.select():
        if isinstance(part, Reactive) and part in Callback.registry:
            del Callback.registry[part]
    for name, (view, root, shown_in, _) in list(state._views.items()):
        if shown_in is document:
            view._cleanup(root)
            del state._views[name]
