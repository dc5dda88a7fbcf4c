"""Runs on a common axis, and smoothed lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.board_url import SAMPLES, STEP, TIME
from rlpanel.display_settings import Display
from rlpanel.panels.curves import curve_points
from rlpanel.panels.plots.series import smooth
from rlpanel.store.snapshot.alignment import alignment_of, axis_of, chosen_axis
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run

HOUR = 3600.0


@pytest.fixture
def timed(tmp_path: Path) -> Snapshot:
    """Steps 10, 20 and 40 with 1, 3 and 2 samples, the last sample of each after 0, 2 and 3 hours."""
    run = tmp_path / "run"
    run.mkdir()
    hours = {10: [0.0], 20: [1.0, 2.0, 1.5], 40: [2.5, 3.0]}
    for step, after in hours.items():
        rows = [line(step, index=at, time=1e9 + hour * HOUR) for at, hour in enumerate(after)]
        append(run / "rollout_data_rank_0.jsonl", *rows)
    return rlpanel.open_run(run, follow=False).snapshot


@pytest.mark.parametrize(
    ("alignment", "places"), [(STEP, [10, 20, 40]), (SAMPLES, [1, 4, 6]), (TIME, [0, 2, 3])]
)
def test_steps_have_positions_on_each_axis(timed: Snapshot, alignment: str, places: list[float]) -> None:
    axis = chosen_axis(timed, alignment)
    np.testing.assert_allclose(axis.positions_of(np.array([10, 20, 40])), places)
    assert [axis.nearest(place + 0.1) for place in places] == [10, 20, 40]


def test_a_step_of_the_trainers_log_stands_where_the_step_before_does(timed: Snapshot) -> None:
    np.testing.assert_allclose(chosen_axis(timed, SAMPLES).positions_of(np.array([5, 25, 99])), [1, 4, 6])


def test_a_run_without_times_stands_on_its_steps_alone(tmp_path: Path) -> None:
    snapshot = rlpanel.open_run(write_run(tmp_path / "run", steps=2), follow=False).snapshot
    assert axis_of(snapshot, TIME) is None
    assert alignment_of(snapshot, TIME) == STEP
    assert chosen_axis(snapshot, TIME).positions_of(np.array([2])) == [2.0]


def test_the_moving_average_by_hand() -> None:
    """Weights 1/2 and 1/4 before it: 0, then (0·½ + 3·1)/(1½), then (0·¼ + 3·½ + 6)/(1¾)."""
    np.testing.assert_allclose(smooth(np.array([0.0, 3.0, 6.0]), 0.5), [0.0, 2.0, 7.5 / 1.75])


def test_a_missing_value_moves_nothing() -> None:
    np.testing.assert_allclose(smooth(np.array([0.0, np.nan, 3.0]), 0.5), [0.0, np.nan, 2.0])


def test_a_value_of_four_steps_weighs_as_four() -> None:
    values = np.array([1.0, 5.0, 2.0])
    np.testing.assert_allclose(smooth(values, 0.5, steps=4), smooth(values, 0.5**4))


def test_no_smoothing_is_the_values() -> None:
    values = np.array([1.0, 5.0])
    assert smooth(values, 0.0) is values


def test_points_are_smoothed_and_aligned_and_the_raw_ones_come_along(timed: Snapshot) -> None:
    found = curve_points.smoothed_points(
        RunView(timed), "reward", chosen_axis(timed, SAMPLES), Display(), 0.5
    )
    raw = timed.steps.mean("reward")
    np.testing.assert_allclose(found["x"], [1, 4, 6])
    np.testing.assert_allclose(found["raw"], raw)
    np.testing.assert_allclose(found["y"][1], (raw[0] / 2 + raw[1]) / 1.5)
