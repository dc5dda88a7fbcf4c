"""Errors of tools: the log is quoted below ``untrusted`` only; arguments that a tool does not have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client

from rlpanel.mcp_server.answer import AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.server_setup import create_server
from rlpanel.mcp_server.tool_server import WRITING
from rlpanel.runtime import default_runtime
from tests.integration.mcp_server.asking import Answers
from tests.integration.mcp_server.hostile_names import CALLS, ORDER, check_refusal, write_hostile
from tests.mcp_tools import READING

Script = Callable[[Answers], Awaitable[None]]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[[Script], None]]:
    """Run a script against a server in this process."""
    write_hostile(tmp_path / "runs")
    pool = RunPool(tmp_path / "runs")
    server = create_server(pool, AnswerLimits(), board="http://board:1", notes=True)

    async def run(script: Script) -> None:
        async with Client(server) as client:
            await script(Answers(client))

    yield lambda script: asyncio.run(run(script))
    pool.close()
    default_runtime().close()


def test_an_error_of_each_tool_quotes_the_log_as_untrusted(ask: Callable[[Script], None]) -> None:
    pytest.importorskip("duckdb")

    async def script(answers: Answers) -> None:
        quoting = 0
        for tool, arguments in CALLS:
            quoting += "IGNORE" in check_refusal(await answers.error(tool, **arguments))
        assert quoting >= 15, "few of these errors quote the log: the test shows little"

    ask(script)
    assert {*READING, *WRITING, ORDER} == {tool for tool, _ in CALLS}


def test_an_argument_that_a_tool_does_not_have_is_refused(ask: Callable[[Script], None]) -> None:
    async def script(answers: Answers) -> None:
        text = await answers.error("samples", run=ORDER, steps=1)
        assert "no such argument; the nearest is step; it has run, filter, step" in json.loads(text)["error"]
        assert check_refusal(text) == "unknown: 'steps'"
        guessed = json.loads(
            await answers.error("samples", run=ORDER, where="reward < 0", order_by="-reward")
        )
        assert "the nearest is filter and sort" in guessed["error"]
        assert "it has run, split" in await answers.error("findings", run=ORDER, zzzz=1)

    ask(script)


def test_a_wrong_value_is_refused(ask: Callable[[Script], None]) -> None:
    async def script(answers: Answers) -> None:
        said = check_refusal(await answers.error("samples", run=ORDER, limit=501))
        assert said == "limit: Input should be less than or equal to 500"
        assert "Unknown tool" in check_refusal(await answers.error("nosuch"))

    ask(script)


def test_a_long_name_is_cut(ask: Callable[[Script], None]) -> None:
    async def script(answers: Answers) -> None:
        text = await answers.error("samples", run=ORDER, columns=["語" * 100_000])
        assert len(text) < 4000

    ask(script)
