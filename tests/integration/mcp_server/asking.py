"""Starts a real ``rlpanel mcp`` process, and asks it with the SDK's own client."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpanel.mcp_server.tool_server import WRITING
from tests.ui.board import free_port
from tests.waiting import run_alone, wait_until

if TYPE_CHECKING:
    from mcp import Client

#: The checkout, so that the child imports the code under test and not another installation.
CHECKOUT = Path(__file__).parents[3]
COMMAND = ("-m", "rlpanel", "mcp")


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an answer by the names of the columns."""
    found = document["untrusted"]
    return [dict(zip(found["columns"], row, strict=True)) | found.get("same", {}) for row in found["rows"]]


class Answers:
    """Calls tools and returns what they answer."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def text(self, tool: str, **arguments: Any) -> str:
        """Return the text of an answer; AssertionError if the tool failed."""
        result = await self.client.call_tool(tool, arguments)
        text: str = result.content[0].text  # type: ignore[union-attr]
        assert not result.is_error, text
        return text

    async def document(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the whole answer."""
        return dict(json.loads(await self.text(tool, **arguments)))

    async def rows(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the rows of a full answer by the names of the columns."""
        return rows_of(
            await self.document(tool, **({} if tool in WRITING else {"detail": "full"}) | arguments)
        )

    async def error(self, tool: str, **arguments: Any) -> str:
        """Return the message of a tool that fails."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result
        return str(result.content[0].text)  # type: ignore[union-attr]


Script = Callable[[Answers], Awaitable[None]]


def ask(root: Path, script: Script, *options: str) -> None:
    """Run a script against a server over its standard input and output."""
    from mcp import Client, StdioServerParameters  # takes a second, also of tests that are left out

    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(root.parent / "cache")}
    server = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, str(root), *options], env=environment, cwd=root.parent
    )

    async def run() -> None:
        async with Client(server) as client:
            await script(Answers(client))

    run_alone(run())


@contextmanager
def http_server(root: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Start a server over HTTP; yield its port and its token."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(root.parent / "cache")}
    command = [sys.executable, *COMMAND, str(root), "--http", str(port), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            token = re.search(r"Bearer (\S+)", said)
            assert token, said + process.stderr.read()
            wait_until(lambda: _listens(port))
            yield port, token.group(1)
        finally:
            process.terminate()
            process.communicate()


def ask_http(port: int, token: str, script: Script) -> None:
    """Run a script against a server over HTTP; an empty token is not sent."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(transport) as client:
                await script(Answers(client))

    run_alone(run())


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
