"""A browser leaves: in the middle of a message, which is no error; and then nothing of its page is kept."""

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

#: Bokeh and Panel warn so of each message to a page that has just left, dozens at a time.
CLOSED = "Failed sending message as connection was closed"
#: Who says it → the function that does, and its variable that stands for the connection.
_SAYS = {
    "bokeh.server.views.ws": ("send_message", "self"),
    "panel.io.document": ("_run_write_futures", "doc"),
}


class OncePerConnection(logging.Filter):
    """Lets `CLOSED` pass at debug level, once for each connection."""

    def __init__(self) -> None:
        super().__init__()
        self._told: WeakSet[Any] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by the logger before any handler gets the record."""
        if record.msg != CLOSED:
            return True
        connection = _local(sys._getframe(), *_SAYS[record.name])
        told = connection in self._told
        self._told.add(connection)
        record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        return not told and logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _local(frame: FrameType | None, function: str, name: str) -> Any:
    """A variable of the function that is logging; one for all where there is no such function."""
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame.f_locals[name] if frame is not None else OncePerConnection


_once = OncePerConnection()


def ignore_closed_connections() -> None:
    """Let the running event loop take closed connections as everyday; all else goes the loop's usual way.

    A message is several writes. When the connection closes between two of them, nobody waits for the first
    any more, and asyncio would print a traceback when it is collected.
    """
    for name in _SAYS:
        logging.getLogger(name).addFilter(_once)
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), WebSocketClosedError | StreamClosedError):
        loop.default_exception_handler(context)


def release_page(document: Document, page: Viewable) -> None:
    """Let go of what Panel keeps of a page whose session ended.

    The notifications' own root stays in its list of views, and with it the document and all that it shows; a
    table's script stays with what it writes into, and so may keep the table that keeps it.
    """
    for part in page.select():
        if isinstance(part, Reactive) and part in Callback.registry:
            del Callback.registry[part]
    for name, (view, root, shown_in, _) in list(state._views.items()):
        if shown_in is document:
            view._cleanup(root)
            del state._views[name]
