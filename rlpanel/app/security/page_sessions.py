"""The sessions of pages: who was given each, which of them a websocket uses, and how many may be open.

A session is the state of one page on the server. Whoever connects to it sees that page and can run scripts in
it. Bokeh lets a client choose a session's id, so that a link could put a viewer into a session that somebody
else knows. Here only the server chooses ids, one for each request of a page. Open pages are limited, because
a server that strangers reach must not be filled with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tornado.httputil import HTTPServerRequest

from rlpanel.app.security.bounded_server import network_of
from rlpanel.app.security.login import TokenAuth

#: Seconds after which a refused browser may try again; a page that was closed is gone by then.
RETRY_AFTER = 30
#: Seconds for which an admitted page counts although it is not among the open ones: it may never be.
HELD = 5.0


class PageLimit:
    """Decides whether one more page may be opened.

    Parameters
    ----------
    most : int
        Most pages that are open at once; 0 means without a limit.
    addresses : callable
        Returns the address of the client of each page that is open or being built.
    shared : bool
        Whether one address may have half of the pages only. The addresses must not be those of a proxy.
    held : float
        Seconds for which an admitted page counts although it is not among the open ones.
    """

    def __init__(
        self, most: int, addresses: Callable[[], Collection[str]], shared: bool = False, held: float = HELD
    ) -> None:
        self._most, self._addresses = most, addresses
        self._share = max(1, most // 2) if shared else most
        self._hold = held
        self._held: list[tuple[float, str]] = []

    def admit(self, address: str) -> bool:
        """Return True, and hold a place for the page, if one more may be opened for an address."""
        if not self._most:
            return True
        now, network = time.monotonic(), network_of(address)
        self._held = [(since, of) for since, of in self._held if now - since <= self._hold]
        taken = [*map(network_of, self._addresses()), *(of for _, of in self._held)]
        if len(taken) >= self._most or taken.count(network) >= self._share:
            return False
        self._held.append((now, network))
        return True

    def settle(self, address: str) -> None:
        """Give up the place held for a page of an address, which is among the open ones from now on."""
        network = network_of(address)
        place = next((held for held in self._held if held[1] == network), None)
        if place is not None:
            self._held.remove(place)

    @property
    def sentence(self) -> str:
        """Text for a viewer whose page was refused."""
        return f"This board has {self._most} open pages, which is its limit. Try again in a minute."


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
