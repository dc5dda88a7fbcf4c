"""Two windows: levels, errors and onsets against plain loops and planted changes."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.findings.engine.change_statistic import Base, Rise, base_width, scored, step_errors

ERROR = 0.05


def rise_of(values: np.ndarray, least: float = 0.2, base: Base = "lowest") -> Rise | None:
    row = values[None]
    error = step_errors(row, np.full(row.shape, ERROR**2))
    found = scored(row, error, least, 6.0, base)
    return found.rise(0) if found.windows else None


def noise(seed: int, steps: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, ERROR, steps)


@pytest.mark.parametrize("steps", [4, 8, 30, 200])
def test_noise_has_no_rise(steps: int) -> None:
    assert [rise_of(noise(seed, steps), 0.0) for seed in range(100)] == [None] * 100


@pytest.mark.parametrize("seed", range(20))
def test_a_cliff_is_found_at_its_first_step(seed: int) -> None:
    steps = 20 + 9 * seed
    onset = steps // 3 + seed
    values = noise(seed, steps)
    values[onset:] += 0.8
    found = rise_of(values)
    assert found is not None
    assert abs(found.onset - onset) <= 1
    assert (found.last, found.ongoing, found.sudden) == (steps - 1, True, True)
    assert found.before == pytest.approx(0.0, abs=0.1)
    assert found.after == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_a_slide_is_found_near_its_first_step(seed: int) -> None:
    values = noise(seed, 100)
    values[30:] += np.linspace(0, 0.8, 70)
    found = rise_of(values)
    assert found is not None
    assert abs(found.onset - 30) <= 8
    assert not found.sudden


def test_a_rise_that_ends_is_not_ongoing() -> None:
    values = noise(0, 60)
    values[20:35] += 0.8
    found = rise_of(values)
    assert found is not None
    assert (found.onset, found.last, found.ongoing) == (20, 34, False)


def test_a_fall_before_the_rise_does_not_move_the_onset() -> None:
    values = noise(1, 60) - np.linspace(0, 2, 60)
    values[45:] += 1.5
    found = rise_of(values)
    assert found is not None
    assert found.onset == 45


def test_a_number_that_is_nearly_always_0_has_no_rise_from_a_single_token() -> None:
    """Its median absolute deviation is 0: the standard error and the smallest difference are the scale."""
    values = np.zeros(12)
    values[-1] = 1 / 1280
    row = values[None]
    error = step_errors(row, np.full(row.shape, (0.5 / 1281)))
    assert scored(row, error, 0.1, 6.0).windows == {}


def test_a_slow_rise_is_none_if_only_sudden_ones_count() -> None:
    values = noise(2, 200) + np.linspace(0, 2, 200)
    assert rise_of(values, 0.4) is not None
    assert rise_of(values, 0.4, "adjacent") is None


@pytest.mark.parametrize(("power", "found"), [(1.0, False), (3.0, True)])
def test_growth_in_proportion_to_the_steps_is_none_if_compared_half_way(power: float, found: bool) -> None:
    values = np.log(0.1 + (np.arange(1, 101) / 100) ** power) + noise(5, 100)
    assert (rise_of(values, np.log(2.5), "half") is not None) == found


def test_steps_without_a_value_are_left_out() -> None:
    values = noise(3, 40)
    values[20:] += 0.8
    values[[3, 19, 25, 26]] = np.nan
    found = rise_of(values)
    assert found is not None
    assert found.onset == 20
    assert rise_of(np.full(30, np.nan)) is None


def test_the_error_is_the_largest_of_three() -> None:
    chance = np.random.default_rng(0)
    values, variance = chance.normal(0, 1, (1, 400)), np.full((1, 400), 0.01)
    variance[0, 7] = 9.0
    error = step_errors(values, variance)
    assert error[0, 7] == 3.0
    # The noise between steps is larger than the standard error of 0.1.
    assert error[0, 8] == pytest.approx(1.0, rel=0.15)
    variance[0, 8] = 0.0
    assert step_errors(np.zeros((1, 400)), variance)[0, 8] == pytest.approx(0.05)


def test_the_difference_in_errors_equals_that_of_a_plain_loop() -> None:
    values = noise(4, 30)
    values[18:] += 0.8
    row = values[None]
    error = step_errors(row, np.full(row.shape, ERROR**2))[0]
    best = 0.0
    for width in (2, 3, 5, 8, 13):
        before = base_width(width, len(values))
        for end in range(width - 1, len(values)):
            bases = [range(last - before + 1, last + 1) for last in range(before - 1, end - width + 1)]
            if not bases:
                continue
            base = min(bases, key=lambda window: values[list(window)].mean())
            later = range(end - width + 1, end + 1)
            gap = values[list(later)].mean() - values[list(base)].mean()
            total = (
                sum(error[i] ** 2 for i in later) / width**2 + sum(error[i] ** 2 for i in base) / before**2
            )
            if gap > 0.2:
                best = max(best, gap / total**0.5)
    found = rise_of(values)
    assert found is not None
    assert found.z == pytest.approx(best)


@pytest.mark.parametrize("steps", [1, 3])
def test_too_few_steps_have_no_rise(steps: int) -> None:
    assert rise_of(np.arange(float(steps))) is None
