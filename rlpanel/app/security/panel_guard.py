"""Fixes three security problems of Panel's own server, for ``panel serve dashboards/board.py``.

`request_guard` is not active under ``panel serve``, so this module replaces three methods of the handlers.
It takes effect when the first page is built, because Bokeh runs the script only then; with ``--warm`` that is
at the start. On a shared machine use ``rlpanel serve``.
"""

from __future__ import annotations

import sys
from typing import Any

import param
from bokeh.server.views.session_handler import SessionHandler
from panel.io.server import ComponentResourceHandler, WSHandler
from tornado.web import HTTPError

from rlpanel.app.security.allowed_hosts import LOOPBACK_NAMES, host_name
from rlpanel.app.security.page_sessions import names_session


def install() -> None:
    """Replace the methods; a second call does nothing."""
    if ComponentResourceHandler.parse_url_path is not _parse_url_path:
        ComponentResourceHandler.parse_url_path = _parse_url_path  # type: ignore[method-assign]
        WSHandler.prepare = _prepare  # type: ignore[method-assign]
        SessionHandler.get_session = _get_session  # type: ignore[method-assign]


def is_imported_component(module: str, name: str) -> bool:
    """Return True if a module that is already imported defines a Panel component of this name."""
    component = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return isinstance(component, type) and issubclass(component, param.Parameterized)


_panel_parse_url_path = ComponentResourceHandler.parse_url_path
_panel_prepare = WSHandler.prepare
_bokeh_get_session: Any = SessionHandler.get_session


def _parse_url_path(self: ComponentResourceHandler, path: str) -> str:
    """Look up the file of a component as Panel does, but import nothing.

    Panel up to 1.10 imports the module that the address names; `unittest.__main__` then ends the process.
    """
    module, _, rest = path.partition("/")
    if not is_imported_component(module, rest.partition("/")[0]):
        raise HTTPError(404)
    return _panel_parse_url_path(self, path)


async def _get_session(self: SessionHandler) -> Any:
    """Refuse requests that choose their session: a link could put its viewer into that of somebody else."""
    if names_session(self.request):
        raise HTTPError(400, reason="The server chooses the session of a page")
    return await _bokeh_get_session(self)


async def _prepare(self: WSHandler) -> None:
    """Check the Host and Origin of a websocket against the server's list.

    Tornado 6.6 accepts an Origin that equals the Host header without asking Bokeh's list, so a name that an
    attacker resolves to this machine would be accepted.
    """
    if not (_host_is_allowed(self) and _origin_is_allowed(self)):
        self.set_status(403)
        self.finish("This Host or Origin is not allowed: see --allow-websocket-origin.\n")
        return
    await _panel_prepare(self)


def _host_is_allowed(handler: WSHandler) -> bool:
    application: Any = handler.application
    origins = application.websocket_origins
    names = LOOPBACK_NAMES.union(map(host_name, origins))
    return "*" in origins or host_name(handler.request.headers.get("Host", "")) in names


def _origin_is_allowed(handler: WSHandler) -> bool:
    headers = handler.request.headers
    origin = headers.get("Origin")
    if origin is None or origin.partition("://")[2].lower() == headers.get("Host", "").lower():
        return True
    return handler.check_origin(origin)
