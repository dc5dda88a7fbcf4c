"""Token authentication: a login turns the token into a signed session cookie.

The cookie holds a random value, never the token. It is signed with a key derived from the token. So a session
survives a restart with the same token, and it ends when the token changes. A logout ends it at once, also for
a copy of the cookie; which sessions were ended is remembered until the server stops.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections.abc import Mapping
from typing import NamedTuple

from tornado.httputil import HTTPServerRequest
from tornado.web import create_signed_value, decode_signed_value

from rlpanel.app.security.login_throttle import LoginThrottle
from rlpanel.errors import SettingError

#: Days that a browser stays signed in.
DAYS = 7
#: Fewest characters of a token.
SHORTEST = 16


def new_token() -> str:
    """Return a random token of 192 bits."""
    return secrets.token_urlsafe(24)


def check_length(token: str) -> None:
    """Raise `SettingError` for a token that can be guessed; an empty one means that none is asked for."""
    if token and len(token) < SHORTEST:
        raise SettingError(
            f"the token has {len(token)} characters and could be guessed; use at least {SHORTEST}, "
            f"for example RLPANEL_TOKEN={new_token()}"
        )


class Attempt(NamedTuple):
    """The result of checking a token.

    Attributes
    ----------
    accepted : bool
    wait : int
        Seconds before the address may try again; 0 if the token was compared.
    """

    accepted: bool
    wait: int


class TokenAuth:
    """Checks the token and the session cookies made from it.

    Parameters
    ----------
    token : str
    port : int
        The server's port. It is part of the cookie's name, so that two boards on one host have two cookies.

    Attributes
    ----------
    cookie : str
        Name of the session cookie.
    throttle : LoginThrottle
    """

    def __init__(self, token: str, port: int) -> None:
        self._token = token.encode()
        self._key = hashlib.scrypt(self._token, salt=b"rlpanel session", n=2**14, r=8, p=1).hex()
        self.cookie = f"rlpanel_session_{port}"
        self.throttle = LoginThrottle()
        self._ended: dict[str, float] = {}

    def is_token(self, guess: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(guess, self._token)

    def attempt(self, address: str, guess: bytes) -> Attempt:
        """Check a token that a client sent; a wrong one counts against its address.

        The token is not compared while the address must wait.
        """
        wait = math.ceil(self.throttle.wait(address))
        if wait > 0:
            return Attempt(False, wait)
        accepted = self.is_token(guess)
        if not accepted:
            self.throttle.failed(address)
        return Attempt(accepted, 0)

    def new_session(self) -> bytes:
        """Return the value of a new session cookie."""
        return create_signed_value(self._key, self.cookie, secrets.token_urlsafe(24))

    def login_of(self, request: HTTPServerRequest) -> str | None:
        """Return what identifies the login of a request: its session or the token; None without a login."""
        cookie = request.cookies.get(self.cookie)
        value = cookie.value if cookie is not None else None
        session = decode_signed_value(self._key, self.cookie, value, max_age_days=DAYS)
        if session is not None and session.decode() not in self._ended:
            return session.decode()
        bearer = bearer_of(request.headers)
        return "token" if bearer is not None and self.is_token(bearer) else None

    def may_read(self, request: HTTPServerRequest) -> bool:
        """Return True if the request carries a session cookie or the token as a bearer header."""
        return self.login_of(request) is not None

    def end_session(self, login: str) -> None:
        """Refuse the session of a login from now on."""
        now = time.time()
        self._ended = {each: at for each, at in self._ended.items() if now - at < DAYS * 86400}
        self._ended[login] = now


def bearer_of(headers: Mapping[str, str]) -> bytes | None:
    """Return the token of an ``Authorization`` header; None if there is no such header."""
    value = headers.get("Authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    # Tornado decodes headers as latin-1, which keeps their bytes.
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""
