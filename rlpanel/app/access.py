"""Who may look: everybody on this machine, and beyond it whoever holds the token.

The command prints an address of the login page that brings the token; it can be typed there too. From then
on a signed cookie keeps it, and it stands in no address of the board.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable
from html import escape
from typing import Any

from bokeh.server.auth_provider import AuthProvider
from tornado.web import RequestHandler

_COOKIE = "rlpanel_token"
LOGIN = "/login"
#: Days that a browser is remembered.
_DAYS = 30


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address of this name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


class TokenAccess(AuthProvider):
    """Lets those in who bring the token.

    Parameters
    ----------
    token : str
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        super().__init__()

    def allows(self, handler: RequestHandler) -> bool:
        """Whether a request brings the token, in its cookie or a bearer header."""
        cookie = handler.get_signed_cookie(_COOKIE, max_age_days=_DAYS) or b""
        bearer = handler.request.headers.get("Authorization", "").removeprefix("Bearer ")
        # Tornado decodes headers as latin-1, which keeps their bytes.
        return self.is_token(cookie) or self.is_token(bearer.encode("latin-1"))

    def is_token(self, brought: bytes) -> bool:
        """Whether this is the token; takes as long for anything."""
        return hmac.compare_digest(brought, self._token)

    @property
    def get_user(self) -> Callable[[Any], Any]:
        """What bokeh asks at every request."""
        return lambda handler: "viewer" if self.allows(handler) else None

    @property
    def login_url(self) -> str:
        """Where those without a token are sent."""
        return LOGIN

    @property
    def login_handler(self) -> type[RequestHandler]:
        """The page that asks for the token."""
        return type("Login", (_Login,), {"access": self})


class _Login(RequestHandler):
    """Takes the token, from its address or its form, and turns it into a cookie."""

    access: TokenAccess

    def get(self) -> None:
        token = self.get_query_argument("token", None)
        if token is not None:
            self._take(token)
        else:
            self.finish(_page(""))

    def post(self) -> None:
        self._take(self.get_body_argument("token", ""))

    def _take(self, token: str) -> None:
        if not self.access.is_token(token.encode()):
            self.set_status(401)
            self.finish(_page("This is not the token."))
            return
        secure = self.request.protocol == "https"
        self.set_signed_cookie(
            _COOKIE, token, expires_days=_DAYS, httponly=True, samesite="Lax", secure=secure
        )
        self.redirect(self._next())

    def _next(self) -> str:
        """Where the viewer wanted to go; a path of this server, never another's.

        From here, not from the host's top: a proxy may have the board below another path.
        """
        wanted = self.get_query_argument("next", "/")
        return f".{wanted}" if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) else "./"


def _page(trouble: str) -> str:
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>rlpanel</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 14px system-ui, sans-serif; background: #0f1115; color: #d7dae0; display: grid;
  place-items: center; min-height: 90vh; margin: 0 }}
form {{ background: #171a21; border: 1px solid #2a2f3a; border-radius: 10px; padding: 28px; width: 300px }}
h1 {{ font-size: 18px; margin: 0 0 12px }} p {{ color: #9aa3b2; margin: 0 0 16px; line-height: 1.45 }}
input {{ width: 100%; box-sizing: border-box; padding: 8px 10px; border-radius: 6px; color: inherit;
  border: 1px solid #3a4150; background: #0f1115; font: inherit }}
button {{ margin-top: 14px; padding: 8px 14px; border: 0; border-radius: 6px; background: #4c8dff;
  color: #0f1115; font: inherit; font-weight: 600; cursor: pointer }}
.trouble {{ color: #ff8f8f; margin: 12px 0 0 }}
</style>
<form method="post"><h1>rlpanel</h1>
<p>This board asks for its token. Whoever started it finds it in the terminal.</p>
<input name="token" type="password" aria-label="token" placeholder="token" autofocus>
<button>Open the board</button>
<p class="trouble" role="alert">{escape(trouble)}</p></form></html>"""
