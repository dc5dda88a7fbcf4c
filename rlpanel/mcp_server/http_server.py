"""Serves the protocol over HTTP on this machine only, and moves a page of the board's server."""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rlpanel.errors import SettingError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


# -- http server ---------------------------------------------------------------------------------------
# Serves the protocol over HTTP on this machine only, to those who have the token.


#: Path of the endpoint.
PATH = "/mcp"


class TokenGate:
    """ASGI application that passes requests with the token on, and refuses others.

    Parameters
    ----------
    app : ASGI application
    token : str
    """

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._wanted = app, token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self._has_token(scope)):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"a token is needed\n"})

    def _has_token(self, scope: Any) -> bool:
        """Compare in constant time."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._wanted)


def http_app(server: MCPServer, host: str, port: int, token: str) -> TokenGate:
    """Return the application: the token is checked first, then the headers Host and Origin.

    Raises
    ------
    SettingError
        If the host is not a loopback address.
    """
    check_loopback(host)
    from mcp.server.transport_security import TransportSecuritySettings

    name = f"[{host}]" if ":" in host else host
    hosts = [f"{known}:{port}" for known in (name, "localhost")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{known}" for known in hosts],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, transport_security=security, host=host
    )
    return TokenGate(app, token)


def check_loopback(host: str) -> None:
    """Raise `SettingError` unless the host is a loopback address, which other machines cannot reach."""
    try:
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise SettingError(f"the server listens on this machine only, as 127.0.0.1; {host!r} is not allowed")


def serve_http(server: MCPServer, host: str, port: int, token: str) -> None:
    """Serve until the process is stopped."""
    import uvicorn

    uvicorn.run(http_app(server, host, port, token), host=host, port=port, log_level="warning", ws="none")


# -- board client --------------------------------------------------------------------------------------
# Client of a board's server, by which tools of another process move an open page.


#: Path of the board's endpoint, seconds to wait for it, and most bytes of its answer.
SHOW_PATH, _SECONDS, _MAX_ANSWER = "/show", 10.0, 4096


class BoardClient:
    """Sends requests to one board, and follows no redirect.

    Parameters
    ----------
    url : str
        Address of the board.
    token : str
        The board's token; empty if it asks for none.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self._url, self._token = url.rstrip("/"), token

    def show(self, address: str, code: str) -> str:
        """Move the page of a code to an address, and return the address.

        Raises
        ------
        SettingError
            If the board cannot be reached, or refuses; the message is the board's.
        """
        try:
            parts = urlsplit(self._url)
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            connection = kinds[parts.scheme](parts.hostname or "", parts.port, timeout=_SECONDS)
        except (KeyError, ValueError) as error:
            raise SettingError(f"{self._url[:200]!r} is no address of a board; give --board") from error
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        body = json.dumps({"view": address, "code": code})
        try:
            connection.request("POST", f"{parts.path}{SHOW_PATH}", body, headers)
            response = connection.getresponse()
            said = response.read(_MAX_ANSWER).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise SettingError(f"the board at {self._url} cannot be reached: {error}") from error
        finally:
            connection.close()
        if response.status == 401:
            raise SettingError("the board asks for its token: set RLPANEL_TOKEN for rlpanel mcp")
        if response.status != 200:
            raise SettingError(f"the board refused: {said.strip()[:300] or response.status}")
        try:
            return str(json.loads(said)["shown"])
        except (ValueError, KeyError, TypeError) as error:
            raise SettingError(f"{self._url} did not answer as a board does") from error
