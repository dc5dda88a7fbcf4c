"""Lets the handlers of Panel's own server refuse requests, for ``panel serve``.

Panel imports the module that the address of a component's file names; `unittest.__main__` then ends the
process. Tornado 6.6 accepts an Origin that equals the Host header without asking Bokeh's list, so a name that
an attacker resolves to this machine would be accepted. Bokeh lets a client choose its session.

Upstream: https://github.com/holoviz/panel/pull/3284 introduced the import; to be reported in private
Needed by: Panel 1.9 to 1.10, Bokeh 3.9 to 3.10
Delete when: Panel imports no module of an address, Bokeh checks Host and Origin, and ignores a given session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import param
from bokeh.server.views.session_handler import SessionHandler
from panel.io.server import ComponentResourceHandler, WSHandler
from tornado.httputil import HTTPServerRequest
from tornado.web import HTTPError


def is_imported_component(module: str, name: str) -> bool:
    """Return True if a module that is already imported defines a Panel component of this name."""
    component = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return isinstance(component, type) and issubclass(component, param.Parameterized)


def check_requests(
    names_session: Callable[[HTTPServerRequest], bool], may_connect: Callable[[WSHandler], bool]
) -> None:
    """Replace three methods of the handlers; a second call does nothing.

    Parameters
    ----------
    names_session : callable
        Returns True if a request chooses its session; it is refused.
    may_connect : callable
        Returns False if the Host or Origin of a websocket is not allowed; it is refused.
    """
    if hasattr(ComponentResourceHandler.parse_url_path, "__wrapped__"):
        return
    parse_url_path: Any = ComponentResourceHandler.parse_url_path
    prepare: Any = WSHandler.prepare
    get_session: Any = SessionHandler.get_session

    def parse_imported(self: ComponentResourceHandler, path: str) -> str:
        """Look up the file of a component as Panel does, but import nothing."""
        module, _, rest = path.partition("/")
        if not is_imported_component(module, rest.partition("/")[0]):
            raise HTTPError(404)
        return str(parse_url_path(self, path))

    async def new_session(self: SessionHandler) -> Any:
        """Refuse requests that choose their session: a link could put its viewer into another's."""
        if names_session(self.request):
            raise HTTPError(400, reason="The server chooses the session of a page")
        return await get_session(self)

    async def checked_prepare(self: WSHandler) -> None:
        """Check the Host and Origin of a websocket against the server's list."""
        if not may_connect(self):
            self.set_status(403)
            self.finish("This Host or Origin is not allowed: see --allow-websocket-origin.\n")
            return
        await prepare(self)

    parse_imported.__wrapped__ = parse_url_path  # type: ignore[attr-defined]
    ComponentResourceHandler.parse_url_path = parse_imported  # type: ignore[method-assign]
    WSHandler.prepare = checked_prepare  # type: ignore[method-assign]
    SessionHandler.get_session = new_session  # type: ignore[method-assign]
