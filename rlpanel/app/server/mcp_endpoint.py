"""``/mcp``: the tools for agents in the board's own server, over the runs that it follows.

The request guard has checked token, Host and Origin, as for every other route. A request is handed to the
SDK's session manager as an ASGI request. Each is answered on its own and keeps no session, so nothing has to
be ended when the server stops. Tools run on threads of the SDK; they do not delay pages.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from rlpanel.errors import install_command
from rlpanel.runtime import Runtime
from rlpanel.sources.files.file_access import AnyPath

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PATH = "/mcp"
#: Questions that are answered at the same time; further ones wait.
AT_ONCE = 4


def is_installed() -> bool:
    """Return whether the extra ``mcp`` is installed, without importing it."""
    return find_spec("mcp") is not None


class AgentDoor:
    """The server of the protocol, created at the first request, since its import takes a second.

    Parameters
    ----------
    runtime : Runtime
        The board's: its reader follows a run once for pages and agents.
    root : path
        The folder that holds runs.
    board : str
        Address of the board, for links.
    """

    def __init__(self, runtime: Runtime, root: AnyPath, board: str) -> None:
        self._runtime, self._root, self._board = runtime, root, board
        self._lock = threading.Lock()

    @cached_property
    def places(self) -> asyncio.Semaphore:
        """The places of questions that are answered at the same time."""
        return asyncio.Semaphore(AT_ONCE)

    def server(self) -> Server[Any]:
        """Return the server; call it on a thread, because the first call imports the SDK."""
        with self._lock:
            return self._server

    @cached_property
    def _server(self) -> Server[Any]:
        from rlpanel.mcp_server.answer import AnswerLimits
        from rlpanel.mcp_server.run_pool import RunPool
        from rlpanel.mcp_server.server_setup import create_server

        pool = RunPool(self._root, self._runtime)
        # The SDK sets up logging for the whole process, unless somebody has.
        kept = logging.NullHandler()
        logging.getLogger().addHandler(kept)
        try:
            codes = self._runtime.codes
            made = create_server(pool, AnswerLimits(), board=self._board, notes=False, shower=codes)
        finally:
            logging.getLogger().removeHandler(kept)
        made.streamable_http_app()
        return made.session_manager.app


class McpHandler(RequestHandler):
    """Answers requests of the protocol; other methods than POST get 405, since the server sends nothing."""

    def initialize(self, door: AgentDoor | None) -> None:
        """Take the door; None if the extra is not installed."""
        self._door = door
        self._left = asyncio.Event()

    def on_connection_close(self) -> None:
        """Note that the client left."""
        self._left.set()

    async def post(self) -> None:
        """Hand the request to the SDK, and send what it answers."""
        self.set_header("Cache-Control", "no-store")
        if self._door is None:
            self.set_status(501)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(f"This board does not answer agents: {install_command('mcp')}, and start it again.\n")
            return
        server = await asyncio.get_running_loop().run_in_executor(None, self._door.server)
        async with self._door.places:
            if not self._left.is_set():
                await self._answer(server)

    async def _answer(self, server: Server[Any]) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, security_settings=checked
        )
        with suppress(StreamClosedError):
            async with manager.run():
                await manager.handle_request(self._scope(), _Body(self.request.body, self._left), self._send)

    def _scope(self) -> dict[str, Any]:
        """Return the request as ASGI describes it; Tornado decodes headers as latin-1."""
        request = self.request
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in request.headers.get_all()
        ]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.protocol,
            "path": PATH,
            "raw_path": PATH.encode(),
            "root_path": "",
            "query_string": request.query.encode("latin-1", "replace"),
            "headers": headers,
            "client": None,
            "server": None,
        }

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.set_status(message["status"])
            for name, value in message.get("headers", []):
                self.set_header(name.decode("latin-1"), value.decode("latin-1"))
        elif message["type"] == "http.response.body":
            self.write(message.get("body", b""))
            if message.get("more_body"):
                await self.flush()


class _Body:
    """Receives the body of a request, and then that the client left."""

    def __init__(self, body: bytes, left: asyncio.Event) -> None:
        self._body: bytes | None = body
        self._left = left

    async def __call__(self) -> dict[str, Any]:
        if self._body is None:
            await self._left.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def mcp_routes(runtime: Runtime, root: AnyPath, board: str) -> list[Any]:
    """Return the route for agents."""
    door = AgentDoor(runtime, root, board) if is_installed() else None
    return [(PATH, McpHandler, {"door": door})]
