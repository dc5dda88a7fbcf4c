"""What the event loop says of connections that closed."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from rlpanel.app import farewell


async def _forget(error: Exception) -> None:
    """A task that fails and that nobody asks."""

    async def fail() -> None:
        raise error

    farewell.expect()
    task = asyncio.ensure_future(fail())
    while not task.done():
        await asyncio.sleep(0)
    del task
    gc.collect()


@pytest.mark.parametrize("error", [WebSocketClosedError(), StreamClosedError()])
def test_a_closed_connection_is_not_told(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        asyncio.run(_forget(error))
    assert caplog.records == []


def test_any_other_error_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        asyncio.run(_forget(RuntimeError("a view is broken")))
    assert "a view is broken" in caplog.text


def test_a_handler_that_stands_is_kept() -> None:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(print_nothing)
        farewell.expect()
        return loop.get_exception_handler()

    def print_nothing(*_: object) -> None: ...

    assert asyncio.run(main()) is print_nothing
