"""A document of a real Bokeh session, on the running event loop, without a server or a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.core.types import ID
from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
from panel.io.state import set_curdoc
from tornado.ioloop import IOLoop

from tests.waiting import let_loop_run_until


@asynccontextmanager
async def served_document(
    build: Callable[[Document], None] = lambda document: None,
) -> AsyncIterator[Document]:
    """Start a session whose page ``build`` makes, give its document, and end the session."""

    def build_as_panel_does(document: Document) -> None:
        with set_curdoc(document):
            build(document)

    before = asyncio.all_tasks()
    application = Application(FunctionHandler(build_as_panel_does))
    context = ApplicationContext(application, io_loop=IOLoop.current())
    session = await context.create_session_if_needed(ID("test"))
    yield session.document
    await session.with_document_locked(session.destroy)
    # asyncio.run would cancel a callback between its thread and the loop, and nobody awaits the coroutine.
    await let_loop_run_until(lambda: asyncio.all_tasks() <= before)
