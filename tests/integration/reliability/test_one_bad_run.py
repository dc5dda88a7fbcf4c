"""A run that cannot be read stops no other run: pages go on, /health is well, and the log stays short."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.factories import append, line, write_run
from tests.fragile_adapter import FRAGILE, Fragile
from tests.integration.cli.command_line import run_in
from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess
from tests.viewer import Viewer
from tests.waiting import run_alone, wait_until

DAMAGED = Path(__file__).parents[2] / "data" / "damaged" / "completions_00001.parquet"
#: Lines of the log that a bad run may cause.
MAX_LINES = 20
NUMBER = f"1{'0' * 400}"
COLUMNS = '"gen_step": [0], "prompt": ["p"], "completion": ["c"], "Format": [NUMBER], "advantages": [0.1]'
#: File of the bad run, by case; a text, or a file to copy.
CASES: dict[str, tuple[str, str | Path]] = {
    "score": ("x.jsonl", '{"input_prompt": "a", "output_response": "b", "score": ["x"]}\n'),
    "columns": ("x.jsonl", f"{{{COLUMNS.replace('NUMBER', NUMBER)}}}\n"),
    "digits": ("x.jsonl", f'{{"step": 1, "prompt": "p", "x": {"9" * 5000}}}\n'),
    "toml": ("rlpanel.toml", "a = " + "[" * 100_000),
    "weights": ("run.json", f'{{"reward_weights": {{"a": {NUMBER}}}}}'),
    "constants": ("run.json", f'{{"gamma": {NUMBER}}}'),
    "state": ("trainer_state.json", '{"log_history": ' + "[" * 100_000),
    "parquet": (DAMAGED.name, DAMAGED),
}
#: Cases whose file is no log: the run has a good one beside it.
BESIDE_A_LOG = ("toml", "weights", "constants", "state")
QUICK = ("score", "toml", "parquet")


def plant(run: Path, case: str) -> None:
    """Create the bad run."""
    name, content = CASES[case]
    run.mkdir()
    if case in BESIDE_A_LOG:
        append(run / "rank_00000.jsonl", line(1))
    if isinstance(content, Path):
        shutil.copy(content, run / name)
    else:
        (run / name).write_text(content)


def health(url: str) -> dict[str, Any]:
    answer = ask(url, "/health")
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ServerProcess]:
    with ServerProcess(root, env={"RLPANEL_RESCAN_INTERVAL": "0.2"}) as made:
        yield made


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_a_bad_run_stops_no_other_run(root: Path, server: ServerProcess, case: str) -> None:
    good, bad = f"good-{case}", f"bad-{case}"
    log = next(write_run(root / good, steps=1, ranks=1, samples=4).iterdir())
    begun = len(server.output)

    async def look() -> None:
        viewers = [Viewer(f"{server.url}?run={name}") for name in (good, bad)]
        await viewers[0].open()
        following = asyncio.create_task(viewers[0].follow())
        rounds = health(server.url)["rounds"]
        plant(root / bad, case)
        await until(lambda: health(server.url)["rounds"] > rounds + 3)
        append(log, line(2))
        await until(lambda: viewers[0].has_seen(2))
        await viewers[1].open()
        append(log, line(3))
        await until(lambda: viewers[0].has_seen(3))
        rounds = health(server.url)["rounds"]
        await until(lambda: health(server.url)["rounds"] > rounds + 3)
        found = health(server.url)
        assert (found["well"], found["failure"], found["failing"]) == (True, "", {})
        for viewer in viewers:
            viewer.close()
        await following

    run_alone(look())
    assert len(server.output) - begun < MAX_LINES, server.output


@pytest.mark.parametrize("command", ["index", "steps", "check"])
def test_a_command_that_reads_a_run_once_names_the_error_and_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    Fragile.register(monkeypatch).fails_at = "read"
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    done = run_in(tmp_path, "rlpanel", command, ".")
    assert done.returncode == 3, done
    assert "not read: ./: the run cannot be read: not enough memory" in done.stderr
