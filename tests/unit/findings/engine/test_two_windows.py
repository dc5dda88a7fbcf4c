"""Sudden changes are told from trends, spikes and noise."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.findings.engine.two_windows import Jump, jumps, schedules, thresholds


def jumps_of(values: np.ndarray, least: float = 0.5, limit: float = 5.0) -> list[Jump]:
    rows = np.atleast_2d(values)
    return list(jumps(rows, np.zeros_like(rows), np.full(len(rows), least), np.full(len(rows), limit)))


def noise(steps: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.2, steps)


@pytest.mark.parametrize("size", [2.0, -2.0])
def test_a_jump_in_either_direction_is_found_at_its_step(size: float) -> None:
    (jump,) = jumps_of(noise() + size * (np.arange(60) >= 37))
    assert jump.at == 37
    assert jump.size == pytest.approx(size, abs=0.3)
    assert jump.z > 6


@pytest.mark.parametrize(
    "course",
    [
        np.zeros(60),
        0.1 * np.arange(60),  # a trend
        6 * (1 - np.exp(-np.arange(60) / 12)),  # a learning curve
        3 * np.minimum(np.arange(60) / 20, 1),  # a warm-up
        5.0 * (np.arange(60) == 37),  # one odd step
    ],
    ids=["constant", "trend", "learning", "warm-up", "spike"],
)
def test_what_is_usual_is_no_jump(course: np.ndarray) -> None:
    assert jumps_of(noise() + course) == []


def test_what_changed_as_much_before_is_no_jump() -> None:
    waves = 2.0 * (np.arange(120) // 15 % 2)
    found = jumps_of(noise(120) + waves)
    assert all(jump.at < 40 for jump in found)


@pytest.mark.parametrize(
    ("earlier", "at", "first", "expected"),
    [
        (2.0, 54, 0, 27),
        (2.0, 36, 0, None),  # and none at 54
        (2.0, 54, 7, None),  # the run has 7 steps before: not at equal distances from the first one
        (-2.0, 54, 0, None),
        (0.5, 54, 0, None),
        (0.0, 54, 0, None),
    ],
)
def test_jumps_as_large_at_equal_distances_are_a_schedule(
    earlier: float, at: int, first: int, expected: int | None
) -> None:
    values = noise(80) + earlier * (np.arange(80) >= at // 2) + 2.0 * (np.arange(80) >= at)
    assert next(iter(schedules(values, at, first)), None) == expected


def test_the_first_jump_of_a_schedule_is_of_it_too() -> None:
    saw = noise(80) * 0.1 + (np.arange(80) % 20) * 0.1
    assert schedules(saw, 20)[0] == schedules(saw, 40)[0] == 20


def test_a_schedule_skips_no_jump() -> None:
    """Jumps at 40 and 60 are 20 steps apart, but there was none at 20."""
    values = noise(80) + 2.0 * (np.arange(80) >= 40) + 2.0 * (np.arange(80) >= 60)
    assert schedules(values, 60) == []
    assert schedules(values + 2.0 * (np.arange(80) >= 20), 60)[0] == 20


def test_a_constant_that_becomes_another_is_found() -> None:
    (jump,) = jumps_of(np.where(np.arange(40) < 30, 0.0, 1.0))
    assert (jump.at, jump.before, jump.after) == (30, 0, 1)


def test_steps_without_a_value_are_left_out() -> None:
    values = np.where(np.arange(60) % 3 == 0, np.nan, noise() + 2.0 * (np.arange(60) >= 37))
    (jump,) = jumps_of(values)
    assert 36 <= jump.at <= 38


@pytest.mark.parametrize("steps", [0, 1, 12, 15])
def test_a_short_run_has_no_jump(steps: int) -> None:
    assert jumps_of(noise(steps)) == []


def test_the_budget_of_false_alarms_is_shared_out_by_weight() -> None:
    limits = thresholds(np.array([10.0, 1.0, 0.2]), 5000)
    assert list(limits) == sorted(limits)
    assert 3.5 < limits[0] < limits[2] < 6
    assert (thresholds(np.ones(50), 5000) > thresholds(np.ones(5), 5000)[0]).all()


def test_stationary_streams_seldom_jump() -> None:
    draw, alarms = np.random.default_rng(1), 0
    for _ in range(10):
        values = np.zeros((40, 500))
        for at in range(1, 500):
            values[:, at] = 0.5 * values[:, at - 1] + draw.normal(size=40)
        limit = thresholds(np.ones(40), 5000)
        alarms += len(list(jumps(values, np.zeros_like(values), np.zeros(40), limit)))
    assert alarms <= 5  # 5,000 steps


def test_a_schedule_counts_from_the_first_step_of_the_run() -> None:
    values = noise(75) + 2.0 * (np.arange(75) >= 20) + 2.0 * (np.arange(75) >= 47)
    assert schedules(values, 47, 7)[0] == 27
    assert schedules(values, 47) == []
