"""Reaches the parts of Bokeh's server that know of pages before these are open.

Upstream: docs/upstream/bokeh-pages-being-built.md
Needed by: Panel 1.9 to 1.10, Bokeh 3.9 to 3.10
Delete when: Bokeh lists the sessions that are being built, and lets a handler act around building one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from panel.io.server import WSHandler


class BuildingSocket(WSHandler):
    """Websocket that may have to build its page again, and says when it does."""

    def building(self) -> AbstractContextManager[None]:
        """Return what surrounds the building of the page."""
        return nullcontext()

    async def _async_open(self, token: str) -> None:
        with self.building():
            await super()._async_open(token)


def tornado_application(server: Any) -> Any:
    """Return the Tornado application of a Bokeh server, with its routes and rules."""
    return server._tornado


def begun_pages(application: Any) -> list[str]:
    """Return the ids of pages that are open or being built; Bokeh does not publish the latter."""
    contexts = [application._applications[path] for path in application.app_paths]
    return [page for context in contexts for page in (*context._sessions, *context._pending_sessions)]
