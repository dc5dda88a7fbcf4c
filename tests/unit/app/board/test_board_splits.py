"""A run with evaluations: the board shows one split, and another one can be chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.app.board.board import Board
from rlpanel.errors import SettingError
from rlpanel.findings.check import cached_findings
from rlpanel.panels.sidebar.run_badge import badge_html
from rlpanel.settings import FindingSettings
from rlpanel.store.columns.splits import MAX_SPLITS, REST
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.waiting import wait_until

LOG = "rollout_data_rank_0.jsonl"


def of(split: str | None, step: int, *rewards: float) -> list[bytes]:
    return [line(step, index=at, reward=reward, split=split) for at, reward in enumerate(rewards)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    append(tmp_path / "a" / LOG, *of(None, 1, 0.0, 1.0), *of("train", 2, 1.0), *of("train", 3, 2.0))
    append(tmp_path / "a" / LOG, *of("eval", 1, 5.0), *of("eval", 3, 7.0, 9.0))
    write_run(tmp_path / "plain", steps=2, samples=2)
    return tmp_path


@pytest.fixture
def run(root: Path) -> rlpanel.Run:
    return rlpanel.open_run(root / "a", follow=False)


@pytest.fixture
def board(root: Path) -> Iterator[Board]:
    made = Board(root)
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


def test_each_split_has_its_own_statistics(run: rlpanel.Run) -> None:
    means = {split: run.split(split).steps.set_index("step").reward_mean for split in run.splits}
    assert run.splits == {"train": 4, "eval": 3}
    pd.testing.assert_series_equal(means["train"], pd.Series({1: 0.5, 2: 1.0, 3: 2.0}), check_names=False)
    pd.testing.assert_series_equal(means["eval"], pd.Series({1: 5.0, 3: 8.0}), check_names=False)
    assert run.steps.reward_mean.tolist() == [0.5, 1.0, 2.0]


def test_a_split_has_its_own_samples_and_the_counts_of_the_run_have_all(run: rlpanel.Run) -> None:
    assert run.split("eval").samples(step=3).reward.tolist() == [7.0, 9.0]
    assert run.samples(step=3).reward.tolist() == [2.0]
    assert (run.stats().rows, run.split("eval").stats().rows) == (7, 3)


def test_a_split_that_is_not_there_is_refused_by_name(run: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match="no split 'test' in a; available: train, eval"):
        run.split("test")


def test_without_training_samples_the_largest_split_is_shown(tmp_path: Path) -> None:
    append(tmp_path / LOG, *of("dev", 1, 0.0), *of("test", 1, 1.0, 3.0))
    assert rlpanel.open_run(tmp_path, follow=False).steps.reward_mean.tolist() == [2.0]


def test_more_splits_than_there_is_memory_for_are_one(tmp_path: Path) -> None:
    names = [f"s{at}" for at in range(MAX_SPLITS + 5)]
    append(tmp_path / LOG, *(made for name in names for made in of(name, 1, 1.0)))
    run = rlpanel.open_run(tmp_path, follow=False)
    assert run.splits == {**dict.fromkeys(names[:MAX_SPLITS], 1), REST: 5}
    assert len(run.split(REST).samples()) == 5


def test_a_link_selects_a_split_and_overlays_another(board: Board) -> None:
    at(board, "?run=a&split=eval&beside=train")
    context = board.context
    assert (context.snapshot.split, context.view.step_values("reward").tolist()) == ("eval", [5.0, 8.0])
    assert context.selection.step == 3
    assert {other.label: other.view.step_values("reward").tolist() for other in context.overlays} == {
        "train": [0.5, 1.0, 2.0]
    }


def test_another_split_is_shown_at_the_nearest_step_that_it_has(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("rlpanel.app.board.board.notify", said.append)
    at(board, "?run=a&step=2&beside=eval")
    board.context.choose_split("eval")
    selection = board.context.selection
    assert (board.context.snapshot.split, selection.step, selection.follow, selection.overlay_splits) == (
        "eval",
        1,
        False,
        [],
    )
    assert said == []  # the viewer asked for another split, not for a step that is not there
    board.context.choose_split("train")
    assert board.context.view.step_values("reward").tolist() == [0.5, 1.0, 2.0]


def test_an_overlaid_split_grows_with_its_log(board: Board, root: Path) -> None:
    at(board, "?run=a&beside=eval")
    append(root / "a" / LOG, *of("eval", 4, 4.0))

    def grown() -> bool:
        board.apply_changes({board.context.index})
        return len(board.context.overlays[0].snapshot.steps.values) == 3

    assert wait_until(grown)
    assert board.context.snapshot.steps.values.tolist() == [1, 2, 3]


def test_a_link_to_a_split_that_is_not_there_shows_what_is(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("rlpanel.app.board.board.notify", said.append)
    at(board, "?run=a&split=dev")
    assert said == ["split dev is not in this run; train is shown"]
    board.context.selection.split = "test"  # as an address that is changed by hand
    assert said[1:] == ["split test is not in this run; train is shown"]
    assert (board.context.snapshot.split, board.context.selection.split) == ("train", "")


def test_a_run_without_splits_offers_none(board: Board) -> None:
    at(board, "?run=plain")
    snapshot = board.context.snapshot
    assert (snapshot.has_splits, snapshot.name, snapshot.splits) == (False, "plain", {"train": 4})


def test_the_badge_says_which_split_and_shows_its_name_as_text(tmp_path: Path) -> None:
    append(tmp_path / LOG, *of(None, 1, 0.0), *of("<b>x", 1, 1.0))
    snapshot = rlpanel.open_run(tmp_path, follow=False).split("<b>x").snapshot
    html = badge_html(snapshot, 0.0, "a")
    assert "<b>&lt;b&gt;x</b> 1 of 2 samples" in html


def test_findings_are_of_one_split(tmp_path: Path) -> None:
    lines = [made for step in range(1, 31) for made in of(None, step, *np.linspace(0, 1, 8))]
    cut = [line(step, index=at, split="eval", truncated=1) for step in range(1, 31) for at in range(8)]
    append(tmp_path / LOG, *lines, *cut)
    index = RunIndex(tmp_path, "run")
    index.rescan()
    while index.read():
        pass
    rules = {
        split: {
            finding.rule
            for finding in cached_findings(index, FindingSettings(), index.snapshot.newest_line + 5, split)
        }
        for split in ("train", "eval")
    }
    assert "truncated" in rules["eval"]
    assert "truncated" not in rules["train"]
