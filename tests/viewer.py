"""What a browser is to the server, without one: a page, its websocket, its document, word that it stands."""

from __future__ import annotations

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
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import websocket_connect

TOKEN = re.compile(r'"token":"([^"]+)"')
STEP = re.compile(r"Step (?:<b>)?(\d+)")


class Viewer:
    """One page and its websocket.

    Attributes
    ----------
    seen : dict of int to float
        When each step was first told as the newest, on the monotonic clock.
    received : int
        Bytes.
    """

    def __init__(self, url: str) -> None:
        self.seen: dict[int, float] = {}
        self.received = 0
        self._url = url
        self._socket: Any = None

    async def open(self) -> None:
        """As a browser does; returns when the server knows that the page stands."""
        page = await AsyncHTTPClient().fetch(self._url, request_timeout=120)
        found = TOKEN.search(page.body.decode())
        assert found, "the page has no session token"
        address = self._url.split("?")[0].replace("http", "ws") + "ws"
        self._socket = await websocket_connect(
            address, subprotocols=["bokeh", found.group(1)], max_message_size=1 << 30
        )
        await self._until("ACK")
        await self._send(Protocol().create("PULL-DOC-REQ"))
        await self._until("PULL-DOC-REPLY")
        ready = MessageSentEvent(Document(), "bokeh_event", DocumentReady())
        await self._send(Protocol().create("PATCH-DOC", [ready]))

    def set_room(self, size: int) -> None:
        """How many bytes, about, the system keeps of what this page has not taken."""
        self._socket.protocol.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    async def follow(self) -> None:
        """Take what comes until the socket closes."""
        while (part := await self._socket.read_message()) is not None:
            self._take(part)

    def has_seen(self, step: int) -> bool:
        """Whether a step, or a later one, was told as the newest."""
        return max(self.seen, default=-1) >= step

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def break_off(self) -> None:
        """Leave without a word, as a machine that is switched off."""
        stream = self._socket.protocol.stream
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()
        self.close()

    def _take(self, part: str | bytes) -> None:
        self.received += len(part)
        if isinstance(part, str):
            for step in STEP.findall(part):
                self.seen.setdefault(int(step), time.monotonic())

    async def _send(self, message: Any) -> None:
        for part in (message.header_json, message.metadata_json, message.content_json):
            await self._socket.write_message(part)

    async def _until(self, kind: str) -> None:
        """Read messages up to the first of a kind, and that one whole."""
        while True:
            header = json.loads(await self._socket.read_message())
            for _ in range(2 + 2 * header.get("num_buffers", 0)):
                self._take(await self._socket.read_message())
            if header["msgtype"] == kind:
                return
