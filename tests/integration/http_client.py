"""Plain HTTP requests for tests: redirects are not followed, and any header may be sent."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.ui.board import PATIENCE


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of an answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def cookie(self) -> str:
        """``name=value`` of the cookie that the answer sets; empty if none."""
        return (self.headers.get("Set-Cookie") or "").partition(";")[0]


def ask(
    url: str,
    path: str = "/",
    method: str = "GET",
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send one request on a connection of its own."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    named = dict(headers or {})
    if body is not None:
        named.setdefault("Content-Type", "application/x-www-form-urlencoded")
    try:
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def upgrade(url: str, headers: dict[str, str] | None = None, path: str = "/ws") -> int:
    """Ask for a websocket; returns the status, 101 where the server agrees."""
    needed = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "bokeh, none",
    }
    return ask(url, path, headers=needed | (headers or {})).status
