"""Handlers of a page and of its websocket: each page has a session that only its own viewer can use.

They also read and apply the messages of pages, and log those that fail. Bokeh would log a traceback for every
message that it cannot apply, and send it to the client.
"""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bokeh.protocol import Protocol
from bokeh.protocol.message import Message
from bokeh.server.connection import ServerConnection
from bokeh.server.session import ServerSession
from bokeh.util.token import (
    check_token_signature,
    generate_session_id,
    get_session_id,
    get_token_payload,
)
from panel.io.server import DocHandler, WSHandler

from rlpanel.app.page.page import set_nonce
from rlpanel.app.security.http_headers import POLICY_HEADER, page_policy
from rlpanel.app.security.page_sessions import SESSION_HEADER, PageLimit, PageSessions
from rlpanel.panel_fixes.server_pages import BuildingSocket

log = logging.getLogger(__name__)

#: Kinds of messages that a page sends.
_KINDS: dict[str, Any] = {"PULL-DOC-REQ": ServerSession.pull, "PATCH-DOC": ServerSession.patch}
#: Places of rlpanel's own code whose errors are logged for one page.
_MAX_PLACES = 10
_PACKAGE = str(Path(__file__).parents[2])
#: This module and its caller are in every traceback.
_HERE = {__file__, str(Path(__file__).with_name("page_handlers.py"))}


class WrongMessage(Exception):
    """A message that no page of the board sends."""


class MessageReader:
    """Puts messages together from their parts: header, metadata and content, each a text."""

    def __init__(self) -> None:
        self._protocol, self._parts = Protocol(), list[str]()

    def take(self, part: str | bytes) -> Message[Any] | None:
        """Return a message after its last part; else None.

        Raises
        ------
        WrongMessage
            If no page sends such a message. Bokeh raises other errors for what it cannot read.
        """
        if not isinstance(part, str):
            raise WrongMessage("a message in bytes; pages send text")
        self._parts.append(part)
        if len(self._parts) < 3:
            return None
        parts, self._parts = self._parts, []
        message: Message[Any] = self._protocol.assemble(*parts)
        if message.header.get("num_buffers"):
            raise WrongMessage("a message with buffers; pages send none")
        if message.msgtype not in _KINDS:
            raise WrongMessage("a message of a kind that pages do not send")
        return message


async def apply_message(
    message: Message[Any], connection: ServerConnection, failures: MessageFailures
) -> Message[Any] | None:
    """Apply a message to the page's document and return the answer, if it is not sent already."""
    try:
        answer: Message[Any] | None = await _KINDS[message.msgtype](message, connection)
    except Exception as error:
        failures.add(error)
    else:
        return answer
    # The client learns only that there was an error. In the block above, Bokeh would add the traceback.
    return connection.error(message, "the server could not apply this change")


class MessageFailures:
    """Logs messages of one page that failed: the first wrong one, and errors of rlpanel once for each place.

    Parameters
    ----------
    address : str
        Address of the page's client.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._logged: set[str] = set()
        self._silent = 0

    def add(self, error: Exception) -> None:
        """Log an error, or count it."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if each.filename.startswith(_PACKAGE) and each.filename not in _HERE]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
        if place in self._logged or len(self._logged) > _MAX_PLACES:
            self._silent += 1
            return
        self._logged.add(place)
        if own:
            log.error("error while handling a message of a page", exc_info=error)
        else:
            text = ascii(f"{type(error).__name__}: {error}"[:200])
            log.warning("a page of %s sent a message that cannot be applied: %s", self._address, text)

    def end(self) -> None:
        """Log how many messages failed without a message of their own."""
        if self._silent:
            log.warning("%d more messages of a page of %s failed", self._silent, self._address)


#: Largest message of a page in bytes. The longest ones carry a note, a search or an address.
MAX_MESSAGE = 1 << 20
#: Codes that close a websocket: a message against the protocol, and a request that is not allowed.
_WRONG_MESSAGE, _NOT_ALLOWED = 1007, 1008


def own_routes(rules: Iterable[Any], sessions: PageSessions, limit: PageLimit) -> None:
    """Let the page and its websocket be answered by the handlers of this module.

    Parameters
    ----------
    rules : iterable of tornado.routing.Rule
    sessions : PageSessions
    limit : PageLimit
    """
    for rule in rules:
        if rule.target is DocHandler:
            rule.target = PageHandler
            rule.target_kwargs = rule.target_kwargs | {"sessions": sessions, "limit": limit}
        elif rule.target is WSHandler:
            rule.target = PageSocket
            rule.target_kwargs = rule.target_kwargs | {"sessions": sessions, "limit": limit}


class PageHandler(DocHandler):
    """Sends a page with a new session. A client cannot choose it."""

    def initialize(self, sessions: PageSessions, limit: PageLimit, **others: Any) -> None:
        """Take the handler's parameters (called by Tornado)."""
        super().initialize(**others)
        self._sessions, self._limit = sessions, limit

    async def get_session(self) -> ServerSession:  # type: ignore[override]
        """Return the session of the page; called by Panel once for each request."""
        application: Any = self.application
        session_id = generate_session_id(secret_key=application.secret_key, signed=application.sign_sessions)
        self._sessions.give(session_id, self.request)
        # Bokeh reads the id from this header. The guard has refused requests that had it.
        self.request.headers[SESSION_HEADER] = session_id
        with self._sessions.building(session_id):
            self._limit.settle(self.request.remote_ip or "")
            session: ServerSession = await super().get_session()  # type: ignore[misc]
        nonce = secrets.token_urlsafe(16)
        set_nonce(session.document, nonce)
        self.set_header(POLICY_HEADER, page_policy(nonce))
        return session


class PageSocket(BuildingSocket):
    """Websocket of a page that this server gave to the same client; one at a time.

    It takes messages of text only. Bokeh would keep buffers that a client announces without a limit, and
    answer a wrong message with a traceback.
    """

    def initialize(  # type: ignore[override]
        self, sessions: PageSessions, limit: PageLimit, **others: Any
    ) -> None:
        """Take the handler's parameters (called by Tornado)."""
        super().initialize(**others)
        self._sessions, self._limit = sessions, limit
        self._session_id = ""
        self._messages, self._over = MessageReader(), False
        self._failures = MessageFailures(self.request.remote_ip or "")

    async def prepare(self) -> None:
        """Refuse the connection unless it belongs to a page of this client."""
        self._session_id = self._named_session()
        if not self._session_id or not self._sessions.may_connect(self._session_id, self.request):
            self._refuse(403, "This page was not opened by this browser, or it is connected already.")
        elif not self._has_room():
            self._refuse(503, self._limit.sentence)
        else:
            await super().prepare()

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Use the session, unless another websocket was faster."""
        if not self._sessions.connect(self._session_id, self):
            self.close(_NOT_ALLOWED, "this page is connected already")
            return
        super().open(*args, **kwargs)

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count the page while it is built again, if its session had ended."""
        with self._sessions.building(self._session_id):
            self._limit.settle(self.request.remote_ip or "")
            yield

    def on_close(self) -> None:
        """Let the page connect again."""
        self._sessions.disconnect(self._session_id, self)
        self._failures.end()
        super().on_close()

    async def on_message(self, message: str | bytes) -> None:
        """Apply a message of the page when all of its parts have arrived."""
        if self._over:
            return
        try:
            complete = self._messages.take(message)
            if self.connection is None:
                raise WrongMessage("a message before the page was ready")
        except Exception as error:
            self._failures.add(error)
            self._over = True
            self.close(_WRONG_MESSAGE)
            return
        answer = await apply_message(complete, self.connection, self._failures) if complete else None
        if answer is not None:
            await self.send_message(answer)

    def _named_session(self) -> str:
        """Return the session that the request's token names; empty if this server did not make the token."""
        application: Any = self.application
        try:
            protocol, token = self.request.headers.get("Sec-WebSocket-Protocol", "").split(",")
            token = token.strip()
            known = check_token_signature(
                token, secret_key=application.secret_key, signed=application.sign_sessions
            )
            if protocol.strip() != "bokeh" or not known:
                return ""
            ends = get_token_payload(token)["session_expiry"]
            return str(get_session_id(token)) if time.time() < ends else ""
        except Exception:  # whatever else a client sends as a token
            return ""

    def _has_room(self) -> bool:
        """Return True if the page exists, or may be built again."""
        return self._sessions.is_open(self._session_id) or self._limit.admit(self.request.remote_ip or "")

    def _refuse(self, status: int, reason: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{reason}\n")
