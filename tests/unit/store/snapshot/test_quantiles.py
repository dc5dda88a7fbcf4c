"""Quantiles are exact, and only changed steps are computed again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot import quantiles
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append, line, write_run

Q = (0.25, 0.5, 0.75)


def follow(index: RunIndex) -> RunIndex:
    index.rescan()
    while index.read():
        pass
    return index


def test_they_equal_pandas(tmp_path: Path) -> None:
    snapshot = follow(RunIndex(write_run(tmp_path, steps=5, samples=11), "run")).snapshot
    frame = RunView(snapshot).frame(snapshot.alive_rows)
    truth = frame.groupby("step")["reward"].quantile(list(Q)).unstack().T
    np.testing.assert_allclose(RunView(snapshot).quantiles("reward", Q), truth)


def test_a_step_without_values_has_none(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", line(1, reward=None), line(2, reward=1.0))
    snapshot = follow(RunIndex(tmp_path, "run")).snapshot
    np.testing.assert_array_equal(RunView(snapshot).quantiles("reward", (0.5,)), [[np.nan, 1]])


def test_only_the_steps_that_changed_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=5), "run"))
    index.view.quantiles("reward", Q)
    append(tmp_path / "rollout_data_rank_0.jsonl", line(3, reward=100.0), line(9, reward=5.0))
    made: list[list[int]] = []
    really = quantiles.quantiles
    monkeypatch.setattr(quantiles, "quantiles", lambda *a: (made.append(a[2].tolist()), really(*a))[1])
    found = follow(index).view.quantiles("reward", Q)
    again = follow(RunIndex(tmp_path, "run")).view.quantiles("reward", Q)
    np.testing.assert_array_equal(found, again)
    assert made[0] == [3, 9]


def test_an_older_snapshot_still_gets_its_own(tmp_path: Path) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=2), "run"))
    old = index.snapshot
    before = RunView(old).quantiles("reward", Q)
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1, reward=100.0))
    follow(index).view.quantiles("reward", Q)
    np.testing.assert_array_equal(RunView(old).quantiles("reward", Q), before)


def test_infinite_values_are_left_out() -> None:
    step, values = np.array([1, 1, 1]), np.array([1.0, np.inf, 3.0])
    found = quantiles.quantiles(step, values, np.array([1]), (0.5,))
    assert found.tolist() == pd.Series([1.0, 3.0]).quantile([0.5]).to_numpy()[None].tolist()


def test_several_steps_have_the_quantiles_of_their_samples_together(tmp_path: Path) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=[1, 2, 4, 7, 9], samples=11), "run"))
    frame = index.view.frame(index.snapshot.alive_rows)
    point = frame["step"].map({1: 0, 2: 0, 4: 1, 7: 1, 9: 2})
    truth = frame.groupby(point)["reward"].quantile(list(Q)).unstack().T
    np.testing.assert_allclose(index.view.quantiles("reward", Q, size=2), truth)


@pytest.mark.parametrize("step", [9, 10, 3, 0])
def test_points_of_several_steps_follow_the_run(tmp_path: Path, step: int) -> None:
    index = follow(RunIndex(write_run(tmp_path, steps=[1, 2, 4, 7, 9]), "run"))
    index.view.quantiles("reward", Q, size=2)
    append(tmp_path / "rollout_data_rank_0.jsonl", line(step, index=77, reward=100.0))
    found = follow(index).view.quantiles("reward", Q, size=2)
    again = follow(RunIndex(tmp_path, "run")).view.quantiles("reward", Q, size=2)
    np.testing.assert_array_equal(found, again)


def test_a_part_of_many_samples_is_enough_for_a_curve(tmp_path: Path) -> None:
    view = follow(RunIndex(write_run(tmp_path, steps=2, samples=40), "run")).view
    rewards = view.number("reward").reshape(2, 40)
    np.testing.assert_allclose(view.quantiles("reward", Q, most=80), np.quantile(rewards, Q, axis=1))
    np.testing.assert_allclose(view.quantiles("reward", Q, most=79), np.quantile(rewards[:, ::2], Q, axis=1))
