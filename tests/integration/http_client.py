"""A plain HTTP client for tests: it follows no redirects and can send any header."""

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
        """Return ``name=value`` of the cookie that the answer sets; empty if there is none."""
        return (self.headers.get("Set-Cookie") or "").partition(";")[0]


def ask(
    url: str,
    path: str = "/",
    method: str = "GET",
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request on its own connection."""
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


def upgrade(url: str, headers: dict[str, str] | None = None, path: str = "/ws", token: str = "none") -> int:
    """Request a websocket with the token of a page, and return the status, 101 if the server agrees."""
    needed = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": f"bokeh, {token}",
    }
    return ask(url, path, headers=needed | (headers or {})).status
