"""A simulated browser for server tests: page, websocket, document, and the message that the page is ready."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import time
from typing import Any

from bokeh.document import Document
from bokeh.document.events import MessageSentEvent
from bokeh.events import DocumentReady
from bokeh.protocol import Protocol
from bokeh.util.token import get_session_id
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.websocket import websocket_connect

TOKEN = re.compile(r'"token":"([^"]+)"')
#: The property that tells the browser that all views were sent, in a change or in the document.
WHOLE = re.compile(r"\"attr\": ?\"whole\"|\\?\"whole\\?\": ?true")
STEP = re.compile(r"Step (?:<b>)?(\d+)")


class Viewer:
    """A page and its websocket.

    Parameters
    ----------
    url : str
    headers : dict of str to str, optional
        Headers of the requests for the page and for its websocket.

    Attributes
    ----------
    session_id : str
        Bokeh's session of the page; empty until the page is opened.
    seen : dict of int to float
        Time at which each step was first received as the newest, on the monotonic clock.
    received : int
        Number of bytes received.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.session_id = ""
        self._headers = headers or {}
        self.seen: dict[int, float] = {}
        self.received = 0
        self._url = url
        self._socket: Any = None
        self._whole = asyncio.Event()

    async def open(self) -> None:
        """Open the page like a browser; returns when the server knows that the page is ready."""
        await self.load()
        await self.report_ready()

    async def load(self) -> None:
        """Receive the page and its document, as a browser has it that is still drawing it."""
        page = await AsyncHTTPClient().fetch(self._url, headers=self._headers, request_timeout=120)
        found = TOKEN.search(page.body.decode())
        assert found, "the page has no session token"
        self.session_id = get_session_id(found.group(1))
        address = self._url.split("?")[0].replace("http", "ws") + "ws"
        self._socket = await websocket_connect(
            HTTPRequest(address, headers=HTTPHeaders(self._headers)),
            subprotocols=["bokeh", found.group(1)],
            max_message_size=1 << 30,
        )
        await self._until("ACK")
        await self._send(Protocol().create("PULL-DOC-REQ"))
        await self._until("PULL-DOC-REPLY")

    async def report_ready(self) -> None:
        """Tell the server that the document is drawn."""
        ready = MessageSentEvent(Document(), "bokeh_event", DocumentReady())
        await self._send(Protocol().create("PATCH-DOC", [ready]))

    def set_room(self, size: int) -> None:
        """Set roughly how many bytes the system buffers for this page."""
        self._socket.protocol.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    async def follow(self) -> None:
        """Read messages until the socket closes."""
        while (part := await self._socket.read_message()) is not None:
            self._take(part)

    async def wait_until_whole(self) -> None:
        """Wait until all views of the page were received; `follow` must be running."""
        await self._whole.wait()

    def has_seen(self, step: int) -> bool:
        """Return whether a step, or a later one, was received as the newest."""
        return max(self.seen, default=-1) >= step

    def close(self) -> None:
        """Close the page."""
        self._socket.close()

    def break_off(self) -> None:
        """Drop the connection without a closing message, like a machine that is switched off."""
        stream = self._socket.protocol.stream
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()
        self.close()

    def _take(self, part: str | bytes) -> None:
        self.received += len(part)
        if isinstance(part, str):
            if WHOLE.search(part):
                self._whole.set()
            for step in STEP.findall(part):
                self.seen.setdefault(int(step), time.monotonic())

    async def _send(self, message: Any) -> None:
        for part in (message.header_json, message.metadata_json, message.content_json):
            await self._socket.write_message(part)

    async def _until(self, kind: str) -> None:
        """Read messages up to and including the first of a kind."""
        while True:
            header = json.loads(await self._socket.read_message())
            for _ in range(2 + 2 * header.get("num_buffers", 0)):
                self._take(await self._socket.read_message())
            if header["msgtype"] == kind:
                return
