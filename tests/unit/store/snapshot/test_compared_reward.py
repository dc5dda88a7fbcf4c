"""The number by which two runs are compared, for runs with different reward functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.store.snapshot.alignment import ComparedReward, compared_reward
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line

Scores = Mapping[str, float | None]


def write(folder: Path, *samples: Scores, weights: object = None) -> Snapshot:
    """Write a run whose samples have these reward functions; its reward is always 5."""
    folder.mkdir()
    rows = [line(1, index=at, reward=5.0, rewards=dict(scores)) for at, scores in enumerate(samples)]
    append(folder / "rollout_data_rank_0.jsonl", *rows)
    if weights is not None:
        (folder / "run.json").write_text(json.dumps({"reward_weights": weights}))
    return rlpanel.open_run(folder, follow=False).snapshot


def test_the_shared_functions_are_summed_and_the_others_named(tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"rhyme": 1.0, "bonus": 0.2, "form": 0.5})
    there = write(tmp_path / "there", {"form": 0.25, "rhyme": 0.0, "length": 3.0})
    found = compared_reward(here, there)
    assert found == ComparedReward(("rhyme", "form"), (1.0, 1.0), "unknown", ("bonus",), ("length",))
    assert (found.values(here).tolist(), found.values(there).tolist()) == ([1.5], [0.25])
    assert not found.doubtful


def test_a_function_without_a_score_is_left_out_of_its_sample(tmp_path: Path) -> None:
    """As torch.nansum in TRL; a sample without any score has no reward, where TRL would have 0."""
    samples: list[Scores] = [
        {"a": 1.0, "b": None, "c": 0},
        {"a": None, "b": None, "c": 1},
        {"a": 1.0, "b": 2.0},
    ]
    here, there = write(tmp_path / "here", *samples), write(tmp_path / "there", {"a": 0.0, "b": 0.0})
    np.testing.assert_array_equal(compared_reward(here, there).values(here), [1.0, np.nan, 3.0])


def test_equal_functions_leave_the_logged_reward(tmp_path: Path) -> None:
    here, there = write(tmp_path / "here", {"a": 1.0}), write(tmp_path / "there", {"a": 0.0})
    found = compared_reward(here, there)
    assert found == ComparedReward()
    assert found.values(here).tolist() == [5.0]
    assert not found.doubtful


@pytest.mark.parametrize(("other", "only_there"), [({}, ()), ({"b": 1.0}, ("b",))])
def test_without_a_shared_function_the_rewards_are_doubtful(
    tmp_path: Path, other: Scores, only_there: tuple[str, ...]
) -> None:
    here, there = write(tmp_path / "here", {"a": 1.0}), write(tmp_path / "there", other)
    found = compared_reward(here, there)
    assert found == ComparedReward(only_here=("a",), only_there=only_there)
    assert found.doubtful
    assert found.values(there).tolist() == [5.0]


def test_a_function_that_never_gave_a_score_is_not_shared(tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": 1.0, "b": None})
    there = write(tmp_path / "there", {"a": 1.0, "b": 1.0})
    assert compared_reward(here, there).only_there == ("b",)


@pytest.mark.parametrize(
    ("mine", "theirs", "weighting", "value"),
    [
        ({"a": 2.0, "b": 0.5, "c": 1.0}, {"a": 2.0, "b": 0.5}, "same", 2.5),
        ({"a": 2.0, "b": 0.5, "c": 1.0}, {"a": 1.0, "b": 0.5}, "different", 2.0),
        ({"a": 2.0, "b": 0.5, "c": 1.0}, None, "unknown", 2.0),
        ({"a": 2.0, "c": 1.0}, {"a": 2.0, "b": 0.5}, "unknown", 2.0),
        ([2.0, 0.5, 1.0], [2.0, 0.5], "unknown", 2.0),
    ],
)
def test_weights_count_if_both_runs_give_the_same(
    tmp_path: Path, mine: object, theirs: object, weighting: str, value: float
) -> None:
    here = write(tmp_path / "here", {"a": 1.0, "b": 1.0, "c": 9.0}, weights=mine)
    there = write(tmp_path / "there", {"a": 0.0, "b": 0.0}, weights=theirs)
    found = compared_reward(here, there)
    assert (found.weighting, found.values(here).tolist()) == (weighting, [value])


def test_equal_functions_with_other_weights_are_summed_without_weights(tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": 1.0, "b": 1.0}, weights={"a": 1.0, "b": 0.5})
    there = write(tmp_path / "there", {"a": 0.0, "b": 0.0}, weights={"a": 1.0, "b": 1.0})
    found = compared_reward(here, there)
    assert found == ComparedReward(("a", "b"), (1.0, 1.0), "different")
    assert found.values(here).tolist() == [2.0]


def test_a_run_without_rewards_has_no_number(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", line(1, reward=None))
    snapshot = rlpanel.open_run(folder, follow=False).snapshot
    assert np.isnan(compared_reward(snapshot, snapshot).values(snapshot)).all()
