"""Serves the protocol over HTTP on this machine only, to those who have the token."""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING, Any

from rlpanel.errors import SettingError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

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
