"""A browser leaves: in the middle of a message, which is no error; and then nothing of its page is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from bokeh.document import Document
from panel.io.state import state
from panel.links import Callback
from panel.reactive import Reactive
from panel.viewable import Viewable
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError


def expect() -> None:
    """Let the running event loop take closed connections as everyday; all else goes the loop's usual way.

    A message is several writes. When the connection closes between two of them, nobody waits for the first
    any more, and asyncio would print a traceback when it is collected.
    """
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), WebSocketClosedError | StreamClosedError):
        loop.default_exception_handler(context)


def forget(document: Document, page: Viewable) -> None:
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
