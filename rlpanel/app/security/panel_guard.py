"""Fixes three security problems of Panel's own server, for ``panel serve dashboards/board.py``.

`request_guard` is not active under ``panel serve``, so `request_checks` changes the handlers.
It takes effect when the first page is built, because Bokeh runs the script only then; with ``--warm`` that is
at the start. On a shared machine use ``rlpanel serve``.
"""

from __future__ import annotations

from typing import Any

from panel.io.server import WSHandler

from rlpanel.app.security.allowed_hosts import LOOPBACK_NAMES, host_name
from rlpanel.app.security.page_sessions import names_session
from rlpanel.panel_fixes.request_checks import check_requests


def install() -> None:
    """Let the handlers refuse what `request_guard` refuses; a second call does nothing."""
    check_requests(names_session, lambda handler: _host_is_allowed(handler) and _origin_is_allowed(handler))


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
