"""Spare pages: built while the server is idle, for the next visitor who opens the same address.

Building a page takes most of a second. A page that is ready needs only to be sent. A spare page belongs to a
session that no browser has connected to, and it is given away once, so viewers never share one. It is built
from the address, the language and the theme only: nothing else of a visitor's request enters it. A visitor of
another address gets a spare page, too: drawing its views for another run takes a fraction of building them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from bokeh.server.session import ServerSession
from bokeh.util.token import generate_session_id
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from rlpanel.app.page.page_template import THEME_COOKIE, last_theme
from rlpanel.app.page.served_page import ServedPage, page_of
from rlpanel.app.security.host_and_origin import SITE_HEADER, comes_from_elsewhere
from rlpanel.panel_fixes.prepared_document import serialize_ahead
from rlpanel.panel_fixes.server_pages import page_context
from rlpanel.panels.language.preference import LANGUAGE_COOKIE, preferred_language
from rlpanel.panels.session.redraw_queue import redraw_queue
from rlpanel.runtime import Runtime

log = logging.getLogger(__name__)

#: Longest time that building a page may take, in seconds; the next page is not begun before.
MAX_BUILD = 60.0
#: Longest query of a spare page, in characters.
MAX_QUERY = 2000


@dataclass(frozen=True)
class PageKey:
    """All that a page is built from: two requests with equal keys get equal pages.

    Attributes
    ----------
    query : str
        Query string of the address.
    language : str
    theme : str
        Theme of the last visit, or the default at a first visit.
    foreign : bool
        Whether another site led to the address.
    """

    query: str
    language: str
    theme: str
    foreign: bool = False

    @classmethod
    def of(cls, request: HTTPServerRequest) -> PageKey | None:
        """Return the key of a request; None if it asks for something else than a new page."""
        headers = request.headers
        if request.path not in ("", "/") or request.method != "GET" or len(request.query) > MAX_QUERY:
            return None
        cookies = {name: morsel.value for name, morsel in request.cookies.items()}
        language = preferred_language(cookies.get(LANGUAGE_COOKIE), headers.get("Accept-Language"))
        foreign = comes_from_elsewhere(headers, request.query)
        return cls(request.query, language, last_theme(cookies), foreign)

    def request(self) -> HTTPServerRequest:
        """Return a request for such a page, without anything else of the visitor's request."""
        cookies = {LANGUAGE_COOKIE: self.language, THEME_COOKIE: self.theme}
        header = "; ".join(f"{name}={value}" for name, value in cookies.items())
        uri = f"/?{self.query}" if self.query else "/"
        line = RequestStartLine("GET", uri, "HTTP/1.1")
        site = {SITE_HEADER: "cross-site"} if self.foreign else {}
        return HTTPServerRequest(
            headers=HTTPHeaders({"Host": "localhost", "Cookie": header} | site), start_line=line
        )


class SparePages:
    """Builds pages ahead, and gives each of them to one request.

    Parameters
    ----------
    application : BokehTornado
    most : int
        Most spare pages; 0 turns them off.
    linger : float
        Seconds within which the browser of a spare page must connect.
    runtime : Runtime

    Attributes
    ----------
    ids : set of str
        Sessions that no viewer was given: spare pages, also those being built and those thrown away.
    """

    def __init__(self, application: Any, most: int, linger: float, runtime: Runtime) -> None:
        self._application, self._most, self._linger = application, most, linger
        self._runtime, self._limits = runtime, runtime.limits.spare_pages
        self.ids: set[str] = set()
        self._spares: dict[PageKey, ServerSession] = {}
        self._complete: set[PageKey] = set()
        self._wanted: dict[PageKey, None] = {}  # the most recent one is last
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0.0
        self._timer: object = None

    @property
    def ready(self) -> int:
        """Number of spare pages that are complete."""
        return len(self._complete & self._spares.keys())

    def take(self, request: HTTPServerRequest) -> str:
        """Return the session of a spare page, which no other request gets; empty if there is none."""
        key = PageKey.of(request) if self._most else None
        if key is None:
            return ""
        session = self._take(key) or self._adapt(key)
        self._want(key)
        if session is None:
            return ""
        self.ids.discard(session.id)
        self._call_later(self._linger, session.unblock_expiration)
        return str(session.id)

    def _want(self, key: PageKey) -> None:
        """Let a page be built for this key when the server is idle."""
        self._asked = time.monotonic()
        self._wanted.pop(key, None)
        self._wanted[key] = None
        for forgotten in list(self._wanted)[: -self._most]:
            del self._wanted[forgotten]
        self._look_later(self._limits.quiet_seconds)

    def _take(self, key: PageKey) -> ServerSession | None:
        """Take the spare page that was built for this key, if it still shows what a new page would."""
        session, page = self._pop(key)
        if session is None or page is None:
            return None
        if not page.is_current:
            _discard(session)
            return None
        page.renew_first_view()
        return session

    def _pop(self, key: PageKey) -> tuple[ServerSession | None, ServedPage | None]:
        """Remove a spare page; return its session and its page, None for what does not exist any more."""
        session = self._spares.pop(key, None)
        if session is None or session.destroyed:
            return None, None
        return session, page_of(session.document)

    def _adapt(self, key: PageKey) -> ServerSession | None:
        """Take a spare page of another address, and let it show this one; the one asked for longest ago."""
        others = [each for each in self._wanted if each in self._complete and each in self._spares]
        for other in others:
            if (other.language, other.theme) != (key.language, key.theme):
                continue
            session, page = self._pop(other)
            if session is None or page is None:
                continue
            try:
                if page.adapt(key.query, foreign=key.foreign):
                    self._serialize_soon(session, page)
                    return session
            except Exception:
                log.exception("error while adapting a spare page")
            _discard(session)
        return None

    def _look_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._call_later(seconds, self._look)

    def _call_later(self, seconds: float, callback: Any) -> object:
        return self._application.io_loop.call_later(seconds, callback)

    def _look(self) -> None:
        """Prepare the next page if the server is idle; discard all if nobody has been there for long."""
        self._timer = None
        quiet = time.monotonic() - self._asked
        for key in [key for key in self._spares if key not in self._wanted]:
            _discard(self._spares.pop(key))
        if quiet > self._limits.kept_seconds and not self._runtime.hub.sessions:
            self._wanted.clear()
            while self._spares:
                _discard(self._spares.popitem()[1])
            return
        missing = [key for key in reversed(self._wanted) if key not in self._spares]
        if missing and not self._tasks and quiet >= self._limits.quiet_seconds and not len(redraw_queue()):
            task = asyncio.get_running_loop().create_task(self._prepare(missing[0]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._look_later(self._limits.quiet_seconds)

    async def _prepare(self, key: PageKey) -> None:
        """Build a spare page; log an error, and wait for the next request before another attempt."""
        try:
            await self._build(key)
        except Exception:
            log.exception("error while building a spare page")
            self._wanted.pop(key, None)

    async def _build(self, key: PageKey) -> None:
        """Create the session of a spare page, which builds the page step by step, and serialise it."""
        application = self._application
        context = page_context(application)
        name = generate_session_id(secret_key=application.secret_key, signed=application.sign_sessions)
        self.ids = {name, *(self.ids & {each.id for each in context.sessions})}
        # It gets a token when it is given away: tokens are valid for some minutes only.
        session: ServerSession = await context.create_session_if_needed(name, key.request(), None)
        session.block_expiration()
        page = page_of(session.document)
        if page is None:
            _discard(session)
            return
        complete = asyncio.Event()
        page.on_complete(partial(asyncio.get_running_loop().call_soon_threadsafe, complete.set))
        self._spares[key] = session
        self._complete.discard(key)
        with suppress(TimeoutError):
            await asyncio.wait_for(complete.wait(), MAX_BUILD)
        if self._spares.get(key) is session and complete.is_set():
            await _serialize(session)
            self._complete.add(key)

    def _serialize_soon(self, session: ServerSession, page: ServedPage) -> None:
        """Serialise a page when it is complete, if no browser has connected by then."""
        loop = self._application.io_loop

        async def serialize() -> None:
            if not session.destroyed and not session.connection_count:
                await _serialize(session)

        page.on_complete(partial(loop.add_callback, serialize))


async def _serialize(session: ServerSession) -> None:
    await session.with_document_locked(partial(asyncio.to_thread, serialize_ahead, session.document))


def _discard(session: ServerSession) -> None:
    """Let Bokeh end a session at its next check."""
    session.unblock_expiration()
    session.request_expiration()
