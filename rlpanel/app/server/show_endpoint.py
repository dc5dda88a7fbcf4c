"""``/show``: moves the open page of the viewer who gave an agent its code.

The request guard has checked Host, Origin and the token before. A page of another origin cannot send JSON
without a question in advance, which no route answers.
"""

from __future__ import annotations

import json
from typing import Any

from tornado.web import RequestHandler

from rlpanel.errors import SettingError
from rlpanel.panels.session.page_codes import WINDOW, PageCodes, TooManyCodes, WrongCode
from rlpanel.runtime import Runtime


class ShowHandler(RequestHandler):
    """A POST of a JSON object with ``view``, a part of the board's address, and ``code``."""

    def initialize(self, codes: PageCodes) -> None:
        """Take the codes of the open pages."""
        self._codes = codes

    def post(self) -> None:
        """Move the page; status 403 for a wrong code, 429 after too many, 400 for a wrong view."""
        self.set_header("Cache-Control", "no-store")
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            self._refuse(415, "send JSON: Content-Type application/json")
            return
        try:
            given = json.loads(self.request.body)
        except (ValueError, RecursionError):
            given = None
        is_valid = isinstance(given, dict) and given.keys() == {"view", "code"}
        if not is_valid or not all(isinstance(value, str) for value in given.values()):
            self._refuse(400, "send a JSON object with the texts view and code")
            return
        try:
            shown = self._codes.show(given["view"], given["code"])
        except TooManyCodes as error:
            self.set_header("Retry-After", f"{WINDOW:.0f}")
            self._refuse(429, str(error))
        except WrongCode as error:
            self._refuse(403, str(error))
        except SettingError as error:
            self._refuse(400, str(error))
        else:
            self.write({"shown": shown})

    def _refuse(self, status: int, reason: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{reason}\n")


def show_routes(runtime: Runtime) -> list[Any]:
    """Return the route."""
    return [("/show", ShowHandler, {"codes": runtime.codes})]
