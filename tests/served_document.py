"""A document of a real Bokeh session, on the running event loop, without a server or a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.core.types import ID
from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
from panel.io.state import set_curdoc
from tornado.ioloop import IOLoop


@asynccontextmanager
async def served_document(
    build: Callable[[Document], None] = lambda document: None,
) -> AsyncIterator[Document]:
    """Start a session whose page ``build`` makes, give its document, and end the session."""

    def build_as_panel_does(document: Document) -> None:
        with set_curdoc(document):
            build(document)

    application = Application(FunctionHandler(build_as_panel_does))
    context = ApplicationContext(application, io_loop=IOLoop.current())
    session = await context.create_session_if_needed(ID("test"))
    yield session.document
    session.destroy()
