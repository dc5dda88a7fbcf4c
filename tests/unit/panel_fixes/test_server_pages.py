"""The parts of Bokeh's server that know of pages before these are open."""

from __future__ import annotations

import asyncio

import pytest
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.core.types import ID
from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
from tornado.ioloop import IOLoop


@pytest.mark.upstream_fault
def test_bokeh_still_does_not_list_a_session_that_is_being_built() -> None:
    listed: list[list[str]] = []

    async def serve() -> list[str]:
        def build(_: Document) -> None:
            listed.append([session.id for session in context.sessions])

        context = ApplicationContext(Application(FunctionHandler(build)), io_loop=IOLoop.current())
        session = await context.create_session_if_needed(ID("a"))
        complete = [session.id for session in context.sessions]
        await session.with_document_locked(session.destroy)
        return complete

    assert asyncio.run(serve()) == ["a"]
    assert listed == [[]]
