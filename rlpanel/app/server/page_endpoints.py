"""Endpoints of open pages: the media that a page shows, and the moves that an agent asks for."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack
from functools import partial
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from rlpanel.app.security.http_headers import MEDIA_HEADERS
from rlpanel.errors import SettingError
from rlpanel.panels.session.page_addresses import PATH, WINDOW, PageCodes, TooManyCodes, WrongCode
from rlpanel.runtime import Runtime
from rlpanel.store.query.sample_media import MediumUnavailable, OpenMedium

# -- media endpoint ------------------------------------------------------------------------------------
# ``/media/TOKEN``: audio and video that a page of this server shows, in byte ranges.
#
# A token stands for one medium of one page, see `rlpanel.panels.session.page_addresses`. Bytes are read on
# threads of their own: a disk that does not answer delays neither pages nor the reader.


#: Bytes that are read and sent at a time.
CHUNK = 256 << 10
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


class MediaHandler(RequestHandler):
    """Sends a medium or a range of its bytes.

    The status is 404 if the token names no medium, and 416 if the medium does not have the range.
    """

    def initialize(self, runtime: Runtime) -> None:
        """Take the runtime, which has the addresses and the threads."""
        self._runtime = runtime

    async def get(self, token: str) -> None:
        """Send the bytes."""
        await self._send(token)

    async def head(self, token: str) -> None:
        """Send the headers alone."""
        await self._send(token)

    async def _send(self, token: str) -> None:
        for name, value in MEDIA_HEADERS.items():
            self.set_header(name, value)
        medium = self._runtime.media.find(token)
        if medium is None:
            self._refuse(404, "This page shows no such medium.")
            return
        with ExitStack() as stack:
            try:
                opened = await self._on_thread(stack.enter_context, medium.opened())
                await self._send_part(opened, medium.content_type)
            except MediumUnavailable as error:
                self._refuse(404, str(error))
            except (StreamClosedError, OSError):  # the viewer left, or the file broke off
                self._close_connection()

    async def _send_part(self, opened: OpenMedium, content_type: str) -> None:
        wanted = self.request.headers.get("Range")
        part = byte_range(wanted, opened.size)
        if part is None:
            self.set_header("Content-Range", f"bytes */{opened.size}")
            self._refuse(416, "There is no such part.")
            return
        first, end = part
        if wanted is not None and _RANGE.fullmatch(wanted):
            self.set_status(206)
            self.set_header("Content-Range", f"bytes {first}-{end - 1}/{opened.size}")
        self.set_header("Content-Type", content_type)
        self.set_header("Content-Length", end - first)
        if self.request.method == "HEAD":
            return
        while first < end:
            data = await self._on_thread(opened.read, min(CHUNK, end - first), first)
            if not data:
                raise OSError("the file has become shorter")
            first += len(data)
            self.write(data)
            await self.flush()

    def _refuse(self, status: int, reason: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{reason}\n")

    async def _on_thread(self, function: Any, *arguments: Any) -> Any:
        pool = self._runtime.threads.media
        return await asyncio.get_running_loop().run_in_executor(pool, partial(function, *arguments))

    def _close_connection(self) -> None:
        """End an answer that broke off, so that the browser does not take it for complete."""
        connection: Any = self.request.connection
        connection.stream.close()


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end of the bytes that a Range header asks for; None if the file does not have them.

    Without a valid header, that is the whole file. The end is exclusive.
    """
    found = _RANGE.fullmatch(header or "")
    if found is None:
        return 0, size
    if found[3]:
        first, end = max(0, size - int(found[3])), size
    else:
        first, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    return (first, end) if first < end else None


def media_routes(runtime: Runtime) -> list[Any]:
    """Return the route of media."""
    return [(f"/{PATH}/([A-Za-z0-9_-]+)", MediaHandler, {"runtime": runtime})]


# -- show endpoint -------------------------------------------------------------------------------------
# ``/show``: moves the open page of the viewer who gave an agent its code.
#
# The request guard has checked Host, Origin and the token before. A page of another origin cannot send JSON
# without a question in advance, which no route answers.


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
