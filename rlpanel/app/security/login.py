"""Login and logout: a form turns the token into a signed session cookie, and guesses are slowed down.

The cookie holds a random value, never the token. It is signed with a key derived from the token. So a session
survives a restart with the same token, and it ends when the token changes. A logout ends it at once, also for
a copy of the cookie; which sessions were ended is remembered until the server stops.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any, NamedTuple

from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler, create_signed_value, decode_signed_value

from rlpanel.app.security.bounded_server import network_of
from rlpanel.app.security.http_headers import POLICY_HEADER, after_login, form_policy
from rlpanel.errors import SettingError
from rlpanel.panels.language.labels import (
    LANGUAGE_COOKIE,
    current_language,
    marked,
    preferred_language,
    tr,
    using,
)

log = logging.getLogger(__name__)

#: Wrong tokens of one address that cost no wait; after them the wait doubles up to `MAX_WAIT` seconds.
FREE, MAX_WAIT = 5, 30.0
#: Wrong tokens of all addresses together within `WINDOW` seconds, after which every guess waits.
MAX_WRONG, WINDOW = 100, 60.0
#: Addresses that are remembered, and seconds after which one is forgotten.
REMEMBERED, FORGOTTEN = 10_000, 3600.0
#: Addresses that are logged one by one.
LOGGED = 100


@dataclass
class _Failures:
    count: int = 0
    last: float = 0.0


class LoginThrottle:
    """Counts wrong tokens per address and in total, and computes how long the next attempt must wait.

    Parameters
    ----------
    clock : callable
        Returns seconds; monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._recent: deque[float] = deque(maxlen=MAX_WRONG)
        self._logged = 0

    def wait(self, address: str) -> float:
        """Return the seconds before this address may try again; 0 if it may try now."""
        now = self._clock()
        failures = self._addresses.get(network_of(address), _Failures())
        over = failures.count - FREE
        own = failures.last + min(2.0 ** min(over, 10), MAX_WAIT) - now if over >= 0 else 0.0
        crowded = len(self._recent) == MAX_WRONG and now - self._recent[0] < WINDOW
        total = self._recent[0] + WINDOW - now if crowded else 0.0
        return max(own, total, 0.0)

    def failed(self, address: str) -> None:
        """Count a wrong token; the first one of an address is logged, the following ones are not."""
        now, key = self._clock(), network_of(address)
        failures = self._addresses.get(key)
        if failures is None or now - failures.last > FORGOTTEN:
            failures = self._addresses[key] = _Failures()
            self._log(key)
        failures.count += 1
        failures.last = now
        self._addresses.move_to_end(key)
        while len(self._addresses) > REMEMBERED:
            self._addresses.popitem(last=False)
        self._recent.append(now)

    def succeeded(self, address: str) -> None:
        """Forget the wrong tokens of an address that brought the right one."""
        self._addresses.pop(network_of(address), None)

    def _log(self, key: str) -> None:
        self._logged += 1
        if self._logged <= LOGGED:
            log.warning("wrong token from %s; further wrong tokens of this address are not logged", key)
        if self._logged == LOGGED:
            log.warning("wrong tokens came from %d addresses; further addresses are not logged", LOGGED)


#: Days that a browser stays signed in.
DAYS = 7
#: Fewest characters of a token.
MIN_TOKEN = 16


def new_token() -> str:
    """Return a random token of 192 bits."""
    return secrets.token_urlsafe(24)


def check_length(token: str) -> None:
    """Raise `SettingError` for a token that can be guessed; an empty one means that none is asked for."""
    if token and len(token) < MIN_TOKEN:
        raise SettingError(
            f"the token has {len(token)} characters and could be guessed; use at least {MIN_TOKEN}, "
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


PATH, LOGOUT_PATH = "/login", "/logout"


class _FormHandler(RequestHandler):
    """Shows a form in the language of the browser, or in the one chosen on the board."""

    def _language(self) -> AbstractContextManager[None]:
        accepted = self.request.headers.get("Accept-Language")
        return using(preferred_language(self.get_cookie(LANGUAGE_COOKIE), accepted))

    def _show(self, form: str, script: str = "") -> None:
        self.set_header("Cache-Control", "no-store")
        self.set_header(POLICY_HEADER, form_policy(_STYLE, script))
        page = _PAGE.substitute(language=current_language(), style=_STYLE, form=form)
        self.finish(f"{page}<script>{script}</script></html>" if script else f"{page}</html>")


class LoginHandler(_FormHandler):
    """Shows the form; a POST of the right token sets the session cookie and redirects to the board.

    The URL that the command prints carries the token behind ``#``. Browsers do not send that part to the
    server, so no access log contains the token. The page's script submits it.
    """

    def initialize(self, auth: TokenAuth) -> None:
        """Take the handler's parameters (called by Tornado)."""
        self._auth = auth

    def get(self) -> None:
        """Show the form."""
        with self._language():
            self._show_form("")

    def post(self) -> None:
        """Check the token."""
        with self._language():
            self._check()

    def _check(self) -> None:
        address = self.request.remote_ip or ""
        guess = self.get_body_argument("token", "").encode("utf-8", "replace")
        attempt = self._auth.attempt(address, guess)
        if attempt.wait:
            self.set_status(429)
            self.set_header("Retry-After", str(attempt.wait))
            self._show_form(tr("Too many wrong tokens. Try again in {seconds} s.", seconds=attempt.wait))
        elif not attempt.accepted:
            self.set_status(401)
            self._show_form(tr("Wrong token."))
        else:
            self._auth.throttle.succeeded(address)
            self._sign_in()

    def _sign_in(self) -> None:
        # Without a Path attribute the browser takes the folder of this page's address. Behind a proxy that is
        # the board's own folder, which this server does not know.
        self.set_cookie(
            self._auth.cookie,
            self._auth.new_session(),
            path="",
            expires_days=DAYS,
            httponly=True,
            samesite="Lax",
            secure=self.request.protocol == "https",
        )
        self.redirect(_safe_redirect(after_login(self.get_query_argument("next", "/"))), status=303)

    def _show_form(self, error: str) -> None:
        form = _LOGIN.substitute(
            explanation=escape(tr(_EXPLANATION)),
            token=escape(tr("token")),
            open=escape(tr("Open the board")),
            error=escape(error),
        )
        self._show(form, _SUBMIT_TOKEN)


class LogoutHandler(_FormHandler):
    """Shows a button; a POST ends the session, also for copies of its cookie, and closes its pages.

    A link from another site can open this page, but not press its button: the guard refuses requests of other
    origins, and browsers send a cookie with ``SameSite=Lax`` with no POST of another site.
    """

    def initialize(self, auth: TokenAuth, close_pages: Callable[[str], object]) -> None:
        """Take the handler's parameters (called by Tornado)."""
        self._auth, self._close_pages = auth, close_pages

    def get(self) -> None:
        """Show the button."""
        with self._language():
            self._show(_LOGOUT.substitute(explanation=escape(tr(_LEAVING)), end=escape(tr("Log out"))))

    def post(self) -> None:
        """End the session."""
        login = self._auth.login_of(self.request)
        if login is not None:
            self._auth.end_session(login)
            self._close_pages(login)
        self.set_cookie(self._auth.cookie, "", path="", expires_days=-1, httponly=True, samesite="Lax")
        self.redirect("./login", status=303)


def routes(auth: TokenAuth, close_pages: Callable[[str], object]) -> list[tuple[Any, ...]]:
    """Return the routes of login and logout; the latter closes the pages of a login."""
    return [
        (PATH, LoginHandler, {"auth": auth}),
        (LOGOUT_PATH, LogoutHandler, {"auth": auth, "close_pages": close_pages}),
    ]


def _safe_redirect(target: str) -> str:
    """Return the redirect target relative to this page; a target on another server becomes the board."""
    is_local = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return f".{target}" if is_local else "./"


_EXPLANATION = marked(
    "This board requires a token. It is printed in the terminal in which the board was started."
)
_LEAVING = marked("Logging out ends the session of this browser and closes its pages of the board.")
_STYLE = """
body { font: 14px system-ui, sans-serif; background: #0f1115; color: #d7dae0; display: grid;
  place-items: center; min-height: 90vh; margin: 0 }
form { background: #171a21; border: 1px solid #2a2f3a; border-radius: 10px; padding: 28px; width: 300px;
  max-width: calc(100vw - 40px); box-sizing: border-box }
h1 { font-size: 18px; margin: 0 0 12px } p { color: #9aa3b2; margin: 0 0 16px; line-height: 1.45 }
input { width: 100%; box-sizing: border-box; padding: 8px 10px; border-radius: 6px; color: inherit;
  border: 1px solid #3a4150; background: #0f1115; font: inherit }
button { margin-top: 14px; padding: 8px 14px; border: 0; border-radius: 6px; background: #4c8dff;
  color: #0f1115; font: inherit; font-weight: 600; cursor: pointer }
.error { color: #ff8f8f; margin: 12px 0 0 }
"""
_PAGE = Template("""<!doctype html><html lang="$language"><meta charset="utf-8"><title>rlpanel</title>
<meta name="viewport" content="width=device-width">
<style>$style</style>
<form method="post"><h1>rlpanel</h1>
$form</form>
""")
_LOGIN = Template("""<p>$explanation</p>
<input name="token" type="password" aria-label="$token" placeholder="$token"
  autocomplete="current-password" autofocus>
<button>$open</button>
<p class="error" role="alert">$error</p>""")
_LOGOUT = Template("""<p>$explanation</p>
<button>$end</button>""")
_SUBMIT_TOKEN = """
const token = new URLSearchParams(location.hash.slice(1)).get("token")
if (token) {
  history.replaceState({}, "", location.pathname + location.search)
  document.querySelector("input").value = token
  document.querySelector("form").submit()
}
"""
