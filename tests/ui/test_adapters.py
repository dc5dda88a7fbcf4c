"""Logs of other trainers on a live board, while they change the way each trainer changes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.factories import append
from tests.ui.board import Served
from tests.ui.conftest import OpenBoard

pytestmark = pytest.mark.slow

TRL = Path(__file__).parents[1] / "data" / "trl"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "root" / "exp").mkdir(parents=True)
    with Served(tmp_path / "root") as made:
        yield made


def lines(*documents: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def test_a_folder_of_odd_logs_says_what_it_saw_and_a_mapping_beside_them_opens_it(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    odd = {"ask": "<img src=x>?", "said": "4", "mark": 0.5, "at": 3}
    append(tmp_path / "root" / "exp" / "log.jsonl", lines(odd))
    board = open_board(server=server)
    expect(board.stage).to_contain_text("No rollout log here")
    expect(board.stage.locator(".rl-seen li")).to_have_text(
        "exp/log.jsonl lines with 'ask', 'said', 'mark', 'at'"
    )
    mapping = '[map]\nprompt = "ask"\nresponse = "said"\nreward = "mark"\nstep = "at"'
    (tmp_path / "root" / "exp" / "rlpanel.toml").write_text(mapping)
    board.settled(3)
    expect(board.rows.first).to_contain_text("<img src=x>?")


def test_trls_parquet_comes_step_by_step_and_a_file_half_written_waits(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    folder = tmp_path / "root" / "exp" / "completions"
    folder.mkdir()
    first, second = (path.read_bytes() for path in sorted(TRL.glob("*.parquet")))
    (folder / "completions_00001.parquet").write_bytes(first)
    board = open_board(server=server).settled(1)
    board.head_says("Reward", "0.883")
    (folder / "completions_00002.parquet").write_bytes(second[:4000])
    expect(board.badge).to_contain_text("1 problem")
    (folder / "completions_00002.parquet").write_bytes(second)
    board.at_step(2)
    board.head_says("Reward", "0.581")
    expect(board.badge).to_contain_text("128 samples")
    assert "1 problem" not in board.badge.inner_text()


def test_a_step_that_verl_writes_again_replaces_its_samples(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    def write(step: int, *scores: float) -> None:
        rows = [
            {"input": f"q{at}", "output": f"a{at}", "score": score, "step": step}
            for at, score in enumerate(scores)
        ]
        (tmp_path / "root" / "exp" / f"{step}.jsonl").write_bytes(lines(*rows))

    write(1, 0.0, 0.0)
    write(2, 0.0, 0.0, 0.0)
    board = open_board(server=server).settled(2)
    expect(board.count).to_have_text("3 of step 2")
    write(2, 1.0, 0.5)
    expect(board.count).to_have_text("2 of step 2")
    board.head_says("Reward", "0.75")
    expect(board.badge).to_contain_text("4 samples")
