"""Decides about every request before a handler of Panel, Bokeh or Tornado sees it.

Panel and Bokeh add routes of their own, and some of them trust every client: ``/components`` imports the
module that the address names. So each route has a decision in `ROUTES`. A route without one is closed.

Under ``panel serve dashboards/board.py`` the guard is not active. Three security problems of Panel's own
server are fixed there by `request_checks`, which changes the handlers. It takes effect when the first page is
built, because Bokeh runs the script only then; with ``--warm`` that is at the start. On a shared machine use
``rlpanel serve``.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from panel.io.server import WSHandler
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, PathMatches, Rule
from tornado.web import RequestHandler

from rlpanel.app.security import login
from rlpanel.app.security.http_headers import LOOPBACK_NAMES, AllowedHosts, host_name
from rlpanel.app.security.login import TokenAuth, bearer_of
from rlpanel.app.security.page_sessions import RETRY_AFTER, PageLimit, names_session
from rlpanel.panel_fixes.request_checks import check_requests

log = logging.getLogger(__name__)


class RouteAccess(Enum):
    """The clients that a route is for."""

    OPEN = "open to everybody who reaches the port"
    LOGIN = "behind the login"
    CLOSED = "closed: the answer is 404"


#: Route, as Tornado holds it → who may use it, and why.
ROUTES: dict[str, tuple[RouteAccess, str]] = {
    "/?$": (RouteAccess.LOGIN, "The board."),
    "/ws$": (RouteAccess.LOGIN, "The page's websocket; its Origin is checked as well."),
    "/static/(?!extensions/)(.*)$": (RouteAccess.LOGIN, "Bokeh's scripts and styles."),
    "/static/extensions/(.*)$": (RouteAccess.LOGIN, "Panel's scripts and styles."),
    "/static/(.*)$": (RouteAccess.LOGIN, "Bokeh's scripts and styles, under their second route."),
    "/media/([A-Za-z0-9_-]+)$": (
        RouteAccess.LOGIN,
        "Audio and video that an open page shows; the address is a random token of that page.",
    ),
    "/mcp$": (
        RouteAccess.LOGIN,
        "Tools of agents (Model Context Protocol), which only read; it answers 501 without the extra mcp.",
    ),
    "/show$": (
        RouteAccess.LOGIN,
        "Moves an open page by the code that its viewer gave away; it takes JSON only, and writes nothing.",
    ),
    "/metrics$": (RouteAccess.LOGIN, "Numbers for Prometheus."),
    "/health$": (
        RouteAccess.OPEN,
        "Proxies and containers probe it without a token; it then reveals only whether the reader works.",
    ),
    "/login$": (RouteAccess.OPEN, "The login form; the route exists only if a token is set."),
    "/logout$": (
        RouteAccess.LOGIN,
        "Ends the session of the browser; the route exists only if a token is set.",
    ),
    "/favicon.ico$": (RouteAccess.OPEN, "An icon that is the same everywhere; the login page shows it."),
    "/components/(.*)$": (
        RouteAccess.CLOSED,
        "Panel imports the module that the address names. No component of this page needs the route.",
    ),
    "/autoload.js$": (RouteAccess.CLOSED, "Embeds the page in other sites, which may not show it."),
    "/metadata$": (RouteAccess.CLOSED, "Nothing uses it."),
    "/liveness$": (RouteAccess.CLOSED, "It builds a page for every request; `/health` takes its place."),
}

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
#: Foreign host names that are logged one by one.
_LOGGED = 20


def _encode_query(request: HTTPServerRequest) -> None:
    """Encode question marks in a request's query: Panel expects a single one in an address."""
    if "?" in request.query and request.uri:
        request.query = request.query.replace("?", "%3F")
        request.uri = f"{request.path}?{request.query}"


@dataclass(frozen=True)
class Refusal:
    """An answer that ends a request before a handler sees it.

    Attributes
    ----------
    status : int
    text : str
    headers : dict
    """

    status: int
    text: str
    headers: dict[str, str]


class RequestGuard(Matcher):
    """Matches the requests that are refused; put its rule before all others.

    Parameters
    ----------
    rules : list of Rule
        The server's own routes, in the order in which Tornado tries them.
    hosts : AllowedHosts
    auth : TokenAuth or None
        None lets in everybody who reaches the port.
    limit : PageLimit
    embeddable : bool
        Whether pages of other origins may show the board in a frame; the content policy names them.
    """

    def __init__(
        self,
        rules: list[Rule],
        hosts: AllowedHosts,
        auth: TokenAuth | None,
        limit: PageLimit,
        embeddable: bool = False,
    ) -> None:
        self._routes = [(rule.matcher, access_of(rule)) for rule in rules]
        self._hosts, self._auth = hosts, auth
        self._limit = limit
        self._embedders = {"document", "iframe"} if embeddable else {"document"}
        self._logged: set[str] = set()

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return the parameters of `RefusalHandler`, or None if the request may pass."""
        refusal = self._refusal(request)
        _encode_query(request)
        return None if refusal is None else {"target_kwargs": {"refusal": refusal}}

    def _refusal(self, request: HTTPServerRequest) -> Refusal | None:
        if _CONTROL.search(unquote_to_bytes(request.path)):
            return _refuse(400, "The address holds a control character.")
        return (
            self._foreign_host(request)
            or self._foreign_page(request)
            or _chosen_session(request)
            or self._wrong_bearer(request)
            or self._no_access(request)
            or self._crowded(request)
        )

    def _foreign_host(self, request: HTTPServerRequest) -> Refusal | None:
        if self._hosts.allows_host(request):
            return None
        name = request.headers.get("Host", "")[:200]
        if name not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add(name)
            log.warning("refused a request for the host %r; allow it with --origin HOST:PORT", name)
        return _refuse(
            403, f"This server does not answer under the name {name!r}. Allow it with --origin HOST:PORT."
        )

    def _foreign_page(self, request: HTTPServerRequest) -> Refusal | None:
        """Refuse requests that a page of another origin makes; following a link from there is fine."""
        headers = request.headers
        if not self._hosts.allows_origin(request):
            return _refuse(403, "Pages of another origin may not use this server.")
        foreign = headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}
        if not foreign or "Origin" in headers:
            return None
        follows_link = headers.get("Sec-Fetch-Mode") == "navigate"
        if follows_link and headers.get("Sec-Fetch-Dest", "document") in self._embedders:
            return None
        return _refuse(403, "Pages of another origin may not load parts of this server.")

    def _wrong_bearer(self, request: HTTPServerRequest) -> Refusal | None:
        bearer = bearer_of(request.headers)
        if self._auth is None or bearer is None:
            return None
        attempt = self._auth.attempt(request.remote_ip or "", bearer)
        if attempt.wait:
            return _refuse(429, "Too many wrong tokens.", **{"Retry-After": str(attempt.wait)})
        if attempt.accepted:
            return None
        return _refuse(401, "Wrong token.", **{"WWW-Authenticate": "Bearer"})

    def _no_access(self, request: HTTPServerRequest) -> Refusal | None:
        access = next((access for route, access in self._routes if route.match(request) is not None), None)
        if access is None or access is RouteAccess.CLOSED:
            return _refuse(404, "Not found. The board is at /.")
        if access is RouteAccess.OPEN or self._auth is None or self._auth.may_read(request):
            return None
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return _refuse(403, "A login is required.")
        if request.path != "/" or request.method not in {"GET", "HEAD"}:
            return _refuse(
                401, "A token is required: Authorization: Bearer …", **{"WWW-Authenticate": "Bearer"}
            )
        query = urlencode({"next": request.uri or "/"})
        return _refuse(302, "", Location=f".{login.PATH}?{query}")

    def _crowded(self, request: HTTPServerRequest) -> Refusal | None:
        opens_page = request.path in ("", "/") and request.method == "GET"
        if not opens_page or self._limit.admit(request.remote_ip or ""):
            return None
        return _refuse(503, self._limit.sentence, **{"Retry-After": str(RETRY_AFTER)})


class RefusalHandler(RequestHandler):
    """Answers requests of any method with a `Refusal`."""

    def initialize(self, refusal: Refusal) -> None:
        """Take the handler's parameters (called by Tornado)."""
        self._refusal = refusal

    def prepare(self) -> None:
        """Answer and end the request."""
        self.set_status(self._refusal.status)
        for name, value in self._refusal.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(self._refusal.text)


def guard_rule(guard: RequestGuard) -> Rule:
    """Return the rule to put before all others of a server."""
    return Rule(guard, RefusalHandler)


def access_of(rule: Rule) -> RouteAccess:
    """Return who may use the route of a rule; a route that is not in `ROUTES` is closed."""
    pattern = rule.matcher.regex.pattern if isinstance(rule.matcher, PathMatches) else ""
    if pattern not in ROUTES:
        log.warning("the route %r is closed: rlpanel does not know it", pattern)
        return RouteAccess.CLOSED
    return ROUTES[pattern][0]


def _chosen_session(request: HTTPServerRequest) -> Refusal | None:
    """Refuse requests that choose their session: a link could put its viewer into that of somebody else."""
    if not names_session(request):
        return None
    return _refuse(
        400, "The server chooses the session of a page. Open the address without bokeh-session-id."
    )


def _refuse(status: int, text: str, **headers: str) -> Refusal:
    return Refusal(status, f"{text}\n" if text else "", headers)


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
