"""Silences errors about closed pages, and drops all references to their documents.

Upstream: docs/upstream/panel-notification-views.md; https://github.com/holoviz/panel/pull/8607 did a part of
  this; https://github.com/bokeh/bokeh/pull/7623 introduced the warning
Needed by: Panel 1.9 to 1.10, Bokeh 3.9 to 3.10
Delete when: an ended page leaves nothing in ``state._views`` and ``Callback.registry``, and logs no warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from bokeh.document import Document
from panel.io.state import state
from panel.links import Callback
from panel.reactive import Reactive
from panel.viewable import Viewable
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

#: The warning that Bokeh and Panel log for each message to a closed page, often dozens at a time.
CLOSED = "Failed sending message as connection was closed"
_LOGGERS = ("bokeh.server.views.ws", "panel.io.document")

#: Runs a function with the event loop, on the loop's thread.
OnLoop = Callable[[Callable[[asyncio.AbstractEventLoop], object]], None]


def _only_for_debugging(record: logging.LogRecord) -> bool:
    """Log `CLOSED` at debug level; return False if the record is to be dropped."""
    if record.msg != CLOSED:
        return True
    record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
    return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def ignore_closed_connections(on_loop: OnLoop) -> None:
    """Silence errors about closed connections in the logs and on the page's event loop. Thread-safe.

    A message is sent in several writes. If the connection closes between two of them, nobody awaits the first
    write's future, and asyncio would print a traceback when that is garbage-collected.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_only_for_debugging)
    on_loop(_set_exception_handler)


def _set_exception_handler(loop: asyncio.AbstractEventLoop) -> None:
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_ignore_closed)


def _ignore_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), WebSocketClosedError | StreamClosedError):
        loop.default_exception_handler(context)


def release_page(document: Document, page: Viewable) -> None:
    """Drop the references that Panel keeps to a page whose session ended.

    Panel leaves the root of the notifications in ``state._views``, which keeps the document and its models
    alive, and before 1.9.2 others. It also leaves a table's callback in ``Callback.registry``, which can keep
    the table alive.
    """
    for part in page.select():
        if isinstance(part, Reactive) and part in Callback.registry:
            del Callback.registry[part]
    for name, (view, root, shown_in, _) in list(state._views.items()):
        if shown_in is document:
            view._cleanup(root)
            del state._views[name]
