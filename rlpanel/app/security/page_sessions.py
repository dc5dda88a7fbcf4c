"""The sessions of pages: who was given each of them, and which of them a websocket uses.

A session is the state of one page on the server. Whoever connects to it sees that page and can run scripts in
it. Bokeh lets a client choose a session's id, so that a link could put a viewer into a session that somebody
else knows. Here only the server chooses ids, one for each request of a page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tornado.httputil import HTTPServerRequest

from rlpanel.app.security.token_auth import TokenAuth

#: Name of the header, and of the arguments, by which Bokeh lets a client choose its session.
SESSION_HEADER, SESSION_ARGUMENTS = "Bokeh-Session-Id", frozenset({"bokeh-session-id", "bokeh-token"})
#: Seconds within which the browser of a new page must connect, even if its session has ended: on a slow
#: network the scripts may take as long. The page is then built again.
CONNECT_WITHIN = 300.0


class PageConnection(Protocol):
    """A websocket that can be closed."""

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        """Close the websocket with a code and a reason."""


@dataclass
class _GivenPage:
    login: str
    address: str
    given: float = field(default_factory=time.monotonic)
    connection: PageConnection | None = None


class PageSessions:
    """Remembers which client each session was given to.

    Parameters
    ----------
    auth : TokenAuth or None
        With a token, only the login that asked for a page may connect to it.
    open_pages : callable
        Returns the ids of the sessions that exist or are being built.
    """

    def __init__(self, auth: TokenAuth | None, open_pages: Callable[[], Collection[str]]) -> None:
        self._auth, self._open_pages = auth, open_pages
        self._given: dict[str, _GivenPage] = {}
        self._building: set[str] = set()

    def give(self, session: str, request: HTTPServerRequest) -> None:
        """Let the client of a request have a session that nobody was given before."""
        self._forget_ended()
        self._given[session] = _GivenPage(self._login(request), request.remote_ip or "")

    @contextmanager
    def building(self, session: str) -> Iterator[None]:
        """Count a page as open in a block that builds it; the server may know its session only later."""
        self._building.add(session)
        try:
            yield
        finally:
            self._building.discard(session)

    def may_connect(self, session: str, request: HTTPServerRequest) -> bool:
        """Return True if the websocket of a request may use a session."""
        page = self._given.get(session)
        return page is not None and page.connection is None and page.login == self._login(request)

    def connect(self, session: str, connection: PageConnection) -> bool:
        """Let a websocket use a session; False if another one does."""
        page = self._given.get(session)
        if page is None or page.connection is not None:
            return False
        page.connection = connection
        return True

    def disconnect(self, session: str, connection: PageConnection) -> None:
        """Forget a websocket that closed; its page may connect again."""
        page = self._given.get(session)
        if page is not None and page.connection is connection:
            page.connection = None

    def end(self, login: str) -> None:
        """Close the websockets of a login, whose pages can then not connect any more."""
        for session, page in list(self._given.items()):
            if page.login == login:
                del self._given[session]
                if page.connection is not None:
                    page.connection.close(1008, "logged out")

    def addresses(self) -> list[str]:
        """Return the address of the client of each open page."""
        pages = {*self._open_pages(), *self._building}
        return [page.address if (page := self._given.get(each)) else "" for each in pages]

    def is_open(self, session: str) -> bool:
        """Return True if a session exists or is being built."""
        return session in self._building or session in self._open_pages()

    def _login(self, request: HTTPServerRequest) -> str:
        return self._auth.login_of(request) or "" if self._auth else ""

    def _forget_ended(self) -> None:
        """Forget the sessions that ended and cannot be connected to any more."""
        exist, before = set(self._open_pages()), time.monotonic() - CONNECT_WITHIN
        for session, page in list(self._given.items()):
            if session not in exist and page.connection is None and page.given < before:
                del self._given[session]


def names_session(request: HTTPServerRequest) -> bool:
    """Return True if a client tries to choose its session."""
    return SESSION_HEADER in request.headers or bool(SESSION_ARGUMENTS & request.arguments.keys())
