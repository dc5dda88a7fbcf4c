"""The board counts rewards by episodes; a setting shows what the rows give, in all cards and overlays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel
from rlpanel.app.board.board import Board
from rlpanel.panels.plots.density_plot import density
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.sidebar.run_badge import badge_html
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.panels.step.reward_distribution import RewardDistribution
from rlpanel.panels.step.step_bar import StepBar
from rlpanel.store.columns.step_stats import COUNT
from tests.factories import append, write_run
from tests.waiting import wait_until


def session(step: int, number: int, outputs: int, score: float, split: str) -> bytes:
    """The outputs of a session of verl, each with the final score."""
    rows = [
        {"step": step, "input": "q", "output": f"{number}{turn}", "score": score, "uid": f"q_{number}_{turn}"}
        | {"split": split}
        for turn in range(outputs)
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for step in (1, 2):
            for split in ("train", "eval"):
                path = tmp_path / name / f"{split}.jsonl"
                append(path, session(step, 0, 3, 1.0, split), session(step, 1, 1, 0.0, split))
    write_run(tmp_path / "plain", steps=2, samples=2)
    made = Board(tmp_path)
    yield made
    made.close()


def at(board: Board, query: str) -> None:
    """The board at an address, with all read that it names."""
    board.read_url(query)

    def caught_up() -> bool:
        board.apply_changes({None, board.context.index, *(other.index for other in board.context.overlays)})
        shown = [board.context.snapshot, *(other.snapshot for other in board.context.overlays)]
        return all(snapshot.version and snapshot.progress.caught_up for snapshot in shown)

    assert wait_until(caught_up)


def means(board: Board) -> list[list[float]]:
    context = board.context
    return [
        view.step_values("reward").tolist() for view in (context.view, *(o.view for o in context.overlays))
    ]


def test_the_setting_counts_rows_in_the_run_and_in_what_lies_over_it(board: Board) -> None:
    at(board, "?run=a&beside=eval&over=b")
    assert means(board) == [[0.5, 0.5]] * 3
    board.context.display.count_rewards = "rows"
    assert means(board) == [[0.75, 0.75]] * 3
    at(board, "?run=a&split=eval")
    assert means(board)[0] == [0.75, 0.75]
    board.context.display.count_rewards = "episodes"
    assert means(board)[0] == [0.5, 0.5]


def test_cards_of_the_step_are_drawn_again(board: Board) -> None:
    at(board, "?run=a")
    drawn: list[bool] = []
    watch_step(board.context, lambda *_: drawn.append(board.context.snapshot.counts_rows))
    board.context.display.count_rewards = "rows"
    assert drawn == [True]


def test_the_rewards_of_a_step_are_those_of_its_episodes(board: Board) -> None:
    at(board, "?run=a")
    notes = RewardDistribution(board.context).head["notes"]
    assert notes == [["step 2, n = 2", ""]]


def test_the_mean_of_a_step_is_complete_if_each_episode_has_a_reward(board: Board) -> None:
    """Only then it is compared with the trainer's own log."""
    at(board, "?run=a")
    for snapshot, expected in ((board.context.snapshot, [2, 2]), (board.context.snapshot.by_rows, [4, 4])):
        assert snapshot.steps.expected("reward").tolist() == expected
        assert snapshot.steps.stat("reward", COUNT).tolist() == expected
    assert board.context.snapshot.steps.expected("prompt_chars").tolist() == [4, 4]


def test_a_density_of_episodes_is_not_continued_with_rows(board: Board) -> None:
    at(board, "?run=a")
    before = density(board.context.snapshot, "reward", log=False)
    by_rows = density(board.context.snapshot.by_rows, "reward", log=False, before=before)
    assert before is not None
    assert by_rows is not None
    assert (before.counts.sum(), by_rows.counts.sum()) == (4, 8)


def test_the_field_is_there_where_it_matters(board: Board) -> None:
    def names() -> set[str]:
        return {field["name"] for group in SettingsForm(board.context).groups for field in group["fields"]}

    at(board, "?run=a")
    assert "count_rewards" in names()
    at(board, "?run=plain")
    assert "count_rewards" not in names()


def test_the_number_of_episodes_is_beside_that_of_samples(board: Board) -> None:
    at(board, "?run=a")
    assert "8 of 16 samples, 4 episodes" in re.sub("<.*?>", "", badge_html(board.context.snapshot, 0.0, "a"))
    assert StepBar(board.context).note == "of 2, 4 samples, 2 episodes"
    at(board, "?run=plain")
    assert StepBar(board.context).note == "of 2, 2 samples"


def test_a_single_episode_is_counted_as_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    append(tmp_path / "one" / "train.jsonl", session(1, 0, 2, 1.0, "train"))
    context = Context(view=rlpanel.open_run(tmp_path / "one", follow=False).view)
    context.selection.step = 1
    assert StepBar(context).note == "· the only one, 2 samples, 1 episode"
    text = re.sub("<.*?>", "", badge_html(context.snapshot, 0.0, "one"))
    assert "2 samples, 1 episode · step 1" in text
