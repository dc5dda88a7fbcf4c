"""The event loop's log messages about closed connections."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging

import pytest
from bokeh.server.views import ws
from panel.io import document
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from rlpanel.panel_fixes import closed_pages
from rlpanel.panels.session.event_loop import SessionLoop

#: The loggers. Tests set their level, because importing dask.distributed silences Bokeh's.
BOKEH, PANEL = "bokeh.server.views.ws", "panel.io.document"


async def _ignore_closed_connections() -> None:
    """Call the function as a page does that is built on a thread, and wait until the loop has run."""
    loop = SessionLoop(asyncio.get_running_loop())
    await asyncio.to_thread(closed_pages.ignore_closed_connections, loop.on_loop)
    await asyncio.sleep(0)


async def _forget(error: Exception) -> None:
    """Run a task that fails and whose result is never retrieved."""

    async def fail() -> None:
        raise error

    await _ignore_closed_connections()
    task = asyncio.ensure_future(fail())
    while not task.done():
        await asyncio.sleep(0)
    del task
    gc.collect()


@pytest.mark.parametrize("error", [WebSocketClosedError(), StreamClosedError()])
def test_errors_of_a_closed_connection_are_not_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        asyncio.run(_forget(error))
    assert caplog.records == []


def test_any_other_error_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        asyncio.run(_forget(RuntimeError("a view is broken")))
    assert "a view is broken" in caplog.text


def test_an_existing_exception_handler_is_not_replaced() -> None:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(print_nothing)
        await _ignore_closed_connections()
        return loop.get_exception_handler()

    def print_nothing(*_: object) -> None: ...

    assert asyncio.run(main()) is print_nothing


class Handler:
    """Says what Bokeh's handler says when its page has left."""

    def send_message(self) -> None:
        logging.getLogger(BOKEH).warning(closed_pages.CLOSED)


async def _leave(*handlers: Handler) -> None:
    await _ignore_closed_connections()
    for _ in range(60):
        for handler in handlers:
            handler.send_message()


def test_a_page_that_left_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, BOKEH):
        asyncio.run(_leave(Handler()))
    assert caplog.records == []


def test_a_page_that_left_is_logged_when_debugging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, BOKEH):
        asyncio.run(_leave(Handler(), Handler()))
    said = [record for record in caplog.records if record.getMessage() == closed_pages.CLOSED]
    assert {record.levelname for record in said} == {"DEBUG"}


@pytest.mark.parametrize("name", [BOKEH, PANEL])
def test_other_warnings_of_the_same_place_are_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_leave())
    with caplog.at_level(logging.WARNING, name):
        logging.getLogger(name).warning("Failed sending message due to following error: x")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_text_is_still_that_of_bokeh_and_panel() -> None:
    for module in (ws, document):
        assert closed_pages.CLOSED in inspect.getsource(module)


@pytest.mark.upstream_fault
def test_bokeh_still_warns_of_each_message_to_a_closed_page() -> None:
    assert f'log.warning("{closed_pages.CLOSED}")' in inspect.getsource(ws)
