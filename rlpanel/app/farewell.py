"""A browser that leaves in the middle of a message is no error, and its terminal need not read of it."""

from __future__ import annotations

import asyncio
from typing import Any

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
