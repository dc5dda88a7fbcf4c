"""Two windows: levels, errors and onsets against plain loops and planted changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlpanel.findings.engine.change_statistic import Rise, continued, scored, step_errors
from rlpanel.findings.engine.window_scan import Base, Scan, after_together, level_spread, may_rise

ERROR = 0.05


def rise_of(values: np.ndarray, least: float = 0.2, base: Base = "lowest") -> Rise | None:
    row = values[None]
    found = scored(row, np.full(row.shape, ERROR), least, 6.0, base)
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
    """Where a step's own error is larger than all noise, the score is that of the windows alone."""
    values, error = noise(4, 39) / 100, np.full(39, ERROR)
    values[28:] += 0.8
    best = 0.0
    for width in (2, 3, 5, 8, 13):
        before = max(width, 5)
        for end in range(19, len(values)):
            bases = [range(last - before + 1, last + 1) for last in range(before - 1, end - width + 1)]
            if not bases:
                continue
            base = min(bases, key=lambda window: values[list(window)].mean())
            gap = values[end - width + 1 : end + 1].mean() - values[list(base)].mean()
            if gap > 0.2:
                best = max(best, gap / ERROR / (1 / width + 1 / before) ** 0.5)
    found = scored(values[None], error[None], 0.2, 6.0)
    assert found.rise(0).z == pytest.approx(best)


def test_the_first_steps_are_compared_at_every_split() -> None:
    """Three low steps and five high ones of few samples: no pair of narrow windows shows it as well."""
    values = np.array([[0.03, 0.02, 0.04, 0.4, 0.55, 0.45, 0.5, 0.5]])
    found = scored(values, np.full(values.shape, 0.15), 0.1, 5.0)
    low, high = values[0, :3], values[0, 3:]
    assert found.rise(0).onset == 3
    assert found.rise(0).z == pytest.approx((high.mean() - low.mean()) / 0.15 / (1 / 3 + 1 / 5) ** 0.5)


@pytest.mark.parametrize("base", ["lowest", "adjacent", "half"])
def test_a_scan_that_goes_on_equals_one_of_all_steps(base: Base) -> None:
    chance = np.random.default_rng(1)
    values = chance.normal(0, 0.05, (5, 150)).cumsum(axis=1) + chance.normal(0, 0.1, (5, 150))
    values[chance.random(values.shape) < 0.03] = np.nan
    variance = np.full(values.shape, 0.01)
    scan = Scan(0.1, base)
    for steps in range(1, 151):

        def read(first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
            return values[:, first:stop], variance[:, first:stop]

        going_on = continued(scan, read, steps, 4.0)
        scan = going_on.scan
        whole = scored(values[:, :steps], np.sqrt(variance[:, :steps]), 0.1, 4.0, base)
        assert list(going_on.windows) == list(whole.windows)
        for row, (score, width, end) in whole.windows.items():
            assert going_on.windows[row] == (pytest.approx(score), width, end)


@pytest.mark.parametrize("seed", range(12))
def test_evidence_that_grows_never_loses_the_rise(seed: int) -> None:
    steps = (8, 12, 30, 60, 120)[seed % 5]
    onset = steps // 2
    values = noise(seed, steps)
    values[onset:] += np.minimum(np.arange(steps - onset) / (1 + seed % 4), 1) * 0.5
    found = [rise_of(values[:end]) for end in range(1, steps + 1)]
    first = next(at for at, rise in enumerate(found) if rise is not None)
    assert first <= onset + 8
    for rise in found[first:]:
        assert rise is not None
        assert rise.ongoing


def test_one_heavy_step_does_not_move_the_onset() -> None:
    values = noise(6, 80)
    values[50:] += 0.8
    values[62] += 9.0
    found = rise_of(values)
    assert found is not None
    assert abs(found.onset - 50) <= 1


def test_a_single_good_step_ends_nothing() -> None:
    values = noise(7, 70)
    values[20:] += 0.8
    values[[40, 41]] = 0.0
    found = rise_of(values)
    assert found is not None
    assert found.ongoing


def test_a_later_rise_that_goes_on_is_not_hidden_by_an_older_one() -> None:
    values = noise(8, 160)
    values[30:60] += 1.5
    values[130:] += 0.6
    found = rise_of(values)
    assert found is not None
    assert (found.onset, found.ongoing) == (130, True)
    assert found.base[1] <= 130


def test_levels_that_come_and_go_are_part_of_the_noise() -> None:
    chance = np.random.default_rng(3)
    level, wandering = 0.0, []
    for _ in range(2000):
        level = 0.93 * level + chance.normal(0, 0.35 * (1 - 0.93**2) ** 0.5)
        wandering.append(level)
    spread = level_spread(np.reshape(wandering[:1920], (12, 160)))
    assert 0.12 < np.median(spread) < 0.35
    steady = level_spread(chance.normal(0, 0.35, (12, 160)))
    assert np.median(steady) == pytest.approx(0.35 / 8**0.5, rel=0.3)
    trend = level_spread(np.linspace(0, 3, 160)[None])
    assert trend[0] < 1e-9


@pytest.mark.parametrize("steps", [1, 3])
def test_too_few_steps_have_no_rise(steps: int) -> None:
    assert rise_of(np.arange(float(steps))) is None


def is_found_by_scan(values: np.ndarray, variance: np.ndarray) -> bool:
    def read(first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return values[:, first:stop], variance[:, first:stop]

    return bool(continued(Scan(0.08, "lowest"), read, values.shape[1], 5.2).windows)


def test_a_rise_that_the_scan_finds_may_be_one_by_its_own_errors() -> None:
    draw, found, refused = np.random.default_rng(0), 0, 0
    for steps in [*range(4, 40), *range(40, 400, 9)]:
        share = np.full((2, steps), draw.uniform(0.05, 0.6))
        share[0, int(draw.integers(steps)) :] = draw.uniform(0.05, 0.9)
        total = draw.integers(4, 40, steps)
        values = draw.binomial(total, share) / total
        usual = (values.mean(axis=1, keepdims=True) + 0.01) / 1.02
        variance = usual * (1 - usual) / total
        has_risen, possible = is_found_by_scan(values, variance), may_rise(values, variance, 0.08, 5.2)
        found, refused = found + has_risen, refused + (not possible)
        assert possible or not has_risen
    assert found > 10
    assert refused > 10


@pytest.mark.parametrize("base", ["lowest", "adjacent", "half"])
def test_scans_that_go_on_together_find_what_each_finds_alone(base: Base) -> None:
    draw = np.random.default_rng(1)
    values = [draw.normal(size=(8, 70)) for _ in range(3)]
    for at, part in enumerate(values):
        part[at, 30 + 9 * at :] += 3.0
        part[3, draw.integers(70, size=9)] = np.nan
        part[4:] *= 0.05
        for row in range(4, 8):  # it returns from a dip that has not settled yet
            part[row, 36 + row : 40 + row] -= 3.0
    variances = [np.full(part.shape, 0.3) for part in values]

    def reader(at: int) -> Callable[[int, int], tuple[np.ndarray, np.ndarray]]:
        return lambda first, stop: (values[at][:, first:stop], variances[at][:, first:stop])

    reads = [reader(at) for at in range(3)]
    together, raised = [Scan(1.0, base) for _ in range(3)], 0
    for steps in range(1, 71):
        found = after_together(together, reads, steps)
        together = [scan for scan, _ in found]
        for read, (_, best) in zip(reads, found, strict=True):
            _, alone = Scan(1.0, base).after(read, steps)
            assert (best is None) == (alone is None)
            if best is not None and alone is not None:
                for name in ("score", "z", "width", "before", "end"):
                    np.testing.assert_allclose(getattr(best, name), getattr(alone, name), err_msg=str(steps))
                raised += int((best.score > 5).sum())
    assert raised > 50
