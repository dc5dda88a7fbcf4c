"""A page that disconnects while the server writes to it is normal and leaves no message in the log."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlpanel.panel_fixes.closed_pages import CLOSED
from tests.factories import append, line
from tests.integration.server_process import ServerProcess
from tests.viewer import Viewer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

#: A response so long that data that a page does not read fills the buffers.
SIZE = 60_000
LONG = {"response_tokens": ["词"] * SIZE, "logprobs": [-0.5] * SIZE, "ref_logprobs": [-0.25] * SIZE}


async def come_and_go(url: str, log: Path) -> None:
    """A page reads nothing while steps arrive, and then disconnects; another page gets the last step."""
    other, leaver = Viewer(url), Viewer(url)
    for viewer in (other, leaver):
        await viewer.open()
    leaver.set_room(1)
    follow = asyncio.create_task(other.follow())
    for step in range(2, 10):
        append(log, line(step, **LONG))
        await asyncio.to_thread(wait_until, lambda step=step: other.has_seen(step), 60)
    leaver.break_off()
    append(log, line(10, **LONG))
    await asyncio.to_thread(wait_until, lambda: other.has_seen(10), 60)
    other.close()
    await follow


def test_a_closed_page_logs_no_error(tmp_path: Path) -> None:
    log = tmp_path / "root" / "run" / "rollout_data_rank_0.jsonl"
    log.parent.mkdir(parents=True)
    append(log, line(1, **LONG))
    with ServerProcess(tmp_path / "root") as server:
        # In a thread: this one may own the event loop of a browser that an earlier test opened.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, come_and_go(server.url, log)).result()
        assert [said for said in server.output if CLOSED in said] == []
