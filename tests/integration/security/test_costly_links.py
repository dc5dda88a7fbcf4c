"""A link with an explosive regular expression: everybody is answered, and memory stays the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess
from tests.viewer import Viewer

#: Takes 3 s and 1 GB if it is compiled; one repeat more takes 10 GB.
EXPLOSIVE = "(((a?){98}){99}){99}"


@pytest.fixture
def server(root: Path) -> Iterator[ServerProcess]:
    with ServerProcess(root) as running:
        yield running


def most_memory(server: ServerProcess) -> int:
    """Return the most memory that the server has had so far, in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


def test_no_link_makes_the_server_compile_an_explosive_expression(server: ServerProcess) -> None:
    # The browser of other tests has an event loop on this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, visit(server)).result()


async def visit(server: ServerProcess) -> None:
    """Open the links while somebody else looks at the run."""
    other = Viewer(f"{server.url}?run=run")
    await other.open()
    following = asyncio.create_task(other.follow())
    await other.wait_until_whole()
    before = most_memory(server)
    for query in (f"search=/{quote(EXPLOSIVE)}/", "filter=" + quote(f'response matches "{EXPLOSIVE}"')):
        page = Viewer(f"{server.url}?run=run&{query}")
        page_seen = asyncio.create_task(follow(page))
        started = time.monotonic()
        assert (await asyncio.to_thread(ask, server.url, "/health")).status == 200
        assert time.monotonic() - started < 10
        await asyncio.wait_for(page_seen, 60)
    assert most_memory(server) - before < 300
    other.close()
    await following


async def follow(page: Viewer) -> None:
    """Open a page and wait until all its views were drawn."""
    await page.load()
    following = asyncio.create_task(page.follow())
    await page.report_ready()
    await page.wait_until_whole()
    page.close()
    await following
