"""The shown step and sample, and the actions that end following."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rlpanel
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from tests.factories import append, line, write_run


@pytest.fixture
def context(tmp_path: Path) -> Context:
    run = rlpanel.open_run(write_run(tmp_path / "run", steps=[0, 100, 200], samples=4), follow=False)
    made = Context(index=run.index)
    made.view = run.view
    return made


def test_following_rides_on_the_newest_step(context: Context) -> None:
    assert context.selection.step == 200


def test_choosing_a_step_ends_following_and_lets_the_sample_go(context: Context) -> None:
    context.selection.uid = "x:0"
    context.choose_step(100)
    assert (context.selection.step, context.selection.follow, context.selection.uid) == (100, False, "")


@pytest.mark.parametrize(("by", "step"), [(-1, 100), (-5, 0), (1, 200)])
def test_steps_of_any_spacing_are_one_move_apart(context: Context, by: int, step: int) -> None:
    context.move_step(by)
    assert context.selection.step == step


def test_the_nearest_step(context: Context) -> None:
    assert [context.nearest_step(x) for x in (-5.0, 49.0, 151.0)] == [0, 0, 200]


def test_choosing_a_sample_shows_it_and_stays(context: Context) -> None:
    uid = context.snapshot.uid(2)
    context.choose_sample(uid)
    assert context.sample is not None
    assert (context.sample.uid, context.selection.follow) == (uid, False)


def test_a_sample_that_is_gone_says_so(context: Context) -> None:
    context.choose_sample("nowhere.jsonl:0")
    assert context.sample is None
    assert "holds no sample" in context.message


def test_a_step_still_being_written_waits(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=4)
    append(folder / "rollout_data_rank_0.jsonl", line(4, index=0))
    snapshot = rlpanel.open_run(folder, follow=False).snapshot
    written = snapshot.newest_line
    assert newest_complete_step(snapshot, written + 0.1) == 3
    assert newest_complete_step(snapshot, written + 5) == 4


def test_a_run_without_steps_has_no_newest() -> None:
    assert newest_complete_step(Snapshot(""), time.time()) is None


def test_collected_draws_run_once_and_a_viewers_choice_draws_immediately(context: Context) -> None:
    drawn: list[int | None] = []

    def draw(*_: object) -> None:
        drawn.append(context.selection.step)

    watch_step(context, draw)
    with context.collect_draws() as parts:
        context.choose_step(0)
        context.choose_step(100)
    assert drawn == []
    assert len(parts) == 1
    parts[0]()
    context.choose_step(200)
    assert drawn == [100, 200]
