"""A client of the server's websocket, which may send anything, with the session of a page or without."""

from __future__ import annotations

import json
from typing import Any

from bokeh.protocol import Protocol
from tornado.httpclient import HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.integration.http_client import ask
from tests.viewer import TOKEN


def page_token(url: str, path: str = "/", headers: dict[str, str] | None = None) -> str:
    """Open a page and return the token of its session."""
    found = TOKEN.search(ask(url, path, headers=headers).body.decode())
    assert found, "the page has no session token"
    return found[1]


async def connect(url: str, token: str, headers: dict[str, str] | None = None) -> WebSocketClientConnection:
    """Return a websocket; an HTTPError of Tornado says that the server refused it."""
    request = HTTPRequest(url.replace("http", "ws", 1) + "ws", headers=HTTPHeaders(headers or {}))
    return await websocket_connect(request, subprotocols=["bokeh", token], max_message_size=1 << 30)


async def until(socket: WebSocketClientConnection, kind: str) -> str:
    """Read up to the header of a kind, and return the content of that message; empty if the socket closed."""
    while (part := await socket.read_message()) is not None:
        if isinstance(part, str) and f'"msgtype":"{kind}"' in part.replace(" ", ""):
            await socket.read_message()
            return str(await socket.read_message())
    return ""


async def send(socket: WebSocketClientConnection, kind: str, content: Any, **header: Any) -> None:
    """Send a message of three parts."""
    head = json.loads(Protocol().create("PULL-DOC-REQ").header_json) | {"msgtype": kind} | header
    for part in (json.dumps(head), "{}", json.dumps(content)):
        await socket.write_message(part)


async def leave(socket: WebSocketClientConnection) -> None:
    """Close a websocket, and wait until it is closed."""
    ended_by_server = socket.close_code is not None
    socket.close()
    while not ended_by_server and await socket.read_message() is not None:
        pass
