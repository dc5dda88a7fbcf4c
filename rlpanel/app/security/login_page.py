"""Login and logout: a form that asks for the token, one that ends the session, and their handlers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from html import escape
from string import Template
from typing import Any

from tornado.web import RequestHandler

from rlpanel.app.security.link_origin import after_login
from rlpanel.app.security.security_headers import POLICY_HEADER, form_policy
from rlpanel.app.security.token_auth import DAYS, TokenAuth
from rlpanel.panels.language.labels import current_language, marked, tr, using
from rlpanel.panels.language.preference import LANGUAGE_COOKIE, preferred_language

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
