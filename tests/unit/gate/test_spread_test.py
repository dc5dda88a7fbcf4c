"""The statistics of a gate against tables and plain formulas."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.gate.run_series import align
from rlpanel.gate.spread_test import (
    contrasts,
    detectable,
    enough_baselines,
    first_window,
    floored_tail,
    holm,
    noise_within,
    quantile,
    standard_error,
    step_variance,
    upper_tail,
    window_means,
)
from tests.bench.gate import Setting, simulate


@pytest.mark.parametrize(
    ("probability", "degrees", "table"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.95, 3, 2.353), (0.99, 4, 3.747), (0.995, 7, 3.499)],
)
def test_quantiles_are_those_of_printed_tables(probability: float, degrees: int, table: float) -> None:
    assert quantile(probability, degrees) == pytest.approx(table, abs=6e-4)
    assert upper_tail(table, degrees) == pytest.approx(1 - probability, rel=1e-3)
    assert upper_tail(-table, degrees) == pytest.approx(probability, rel=1e-3)


@pytest.mark.parametrize(
    ("degrees", "least", "t"), [(1, 0.1, 10.0), (1, 0.3, 4.0), (2, 0.2, 4.0), (4, 0.3, 2.5), (1, 1.0, 2.0)]
)
def test_the_tail_with_a_least_error_is_that_of_draws(degrees: int, least: float, t: float) -> None:
    rng, count = np.random.default_rng(5), 400_000
    error = np.maximum(np.sqrt(rng.chisquare(degrees, count) / degrees), least)
    share = float(np.mean(rng.normal(size=count) > t * error))
    assert floored_tail(t, degrees, least) == pytest.approx(share, rel=0.06)
    assert floored_tail(-t, degrees, least) == pytest.approx(1 - share, rel=0.01)
    assert floored_tail(t, degrees, least) < upper_tail(t, degrees) == floored_tail(t, degrees, 0.0)
    found = quantile(1 - share, degrees, least)
    assert floored_tail(found, degrees, least) == pytest.approx(share, rel=1e-6)


def test_baselines_that_agree_by_chance_are_told_from_a_spread_that_is_too_large() -> None:
    by_window, noise = np.array([[0.0], [0.5], [0.51]]), np.full((3, 1), 0.03**2)
    [free] = contrasts(by_window, noise, "lower")
    [bounded] = contrasts(by_window, noise, "lower", most=0.1)
    assert (free.least, bounded.least) == (0.0, 0.3)
    assert bounded.p < free.p / 5
    assert detectable(bounded, "lower", 4) < detectable(free, "lower", 4) / 3
    # The baselines themselves differ by more than is assumed.
    apart = np.array([[0.0], [0.5], [0.8]])
    assert contrasts(apart, noise, "lower", most=0.1) == contrasts(apart, noise, "lower")


def test_the_number_of_baselines_that_would_tell_is_the_first_that_detects_it() -> None:
    by_window = np.array([[0.0], [0.1], [-0.1]])
    [found] = contrasts(by_window, np.zeros((3, 1)), "lower")
    spread = float(np.std([0.1, -0.1], ddof=1))
    sizes = {
        count: (quantile(1 - 0.05 / 4, count - 1) + quantile(0.8, count - 1))
        * spread
        * (1 + 1 / count) ** 0.5
        for count in range(3, 13)
    }
    assert enough_baselines(found, 1.0, "lower", 4) == next(k for k, size in sizes.items() if size <= 1.0)
    assert enough_baselines(found, 0.1, "lower", 4) is None


def test_the_error_is_that_of_one_more_draw() -> None:
    rng = np.random.default_rng(0)
    others, quiet = rng.normal(size=4), np.zeros(5)
    assert standard_error(others, quiet) == pytest.approx(np.std(others, ddof=1) * np.sqrt(1.25))
    # Baselines that agree by chance have the noise within them, and a noisier new run adds its own.
    assert standard_error(np.ones(4), np.full(5, 0.04)) == pytest.approx(0.2 * np.sqrt(1.25))
    assert standard_error(np.ones(4), np.array([0.09, *[0.04] * 4])) == pytest.approx(np.sqrt(0.1))
    assert standard_error(np.ones(1), np.array([0.09, 0.04])) == pytest.approx(np.sqrt(0.13))


def test_holm_corrects_as_in_a_worked_example() -> None:
    # Ordered: 0.01·3, 0.02·2, 0.04·1; never falling.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


def test_windows_cover_the_common_range_and_are_fewer_if_a_run_lacks_steps() -> None:
    long, short = np.arange(1.0, 101), np.arange(21.0, 61)
    windows = align([long, short], 10)
    assert windows is not None
    assert (windows.low, windows.high, windows.count) == (21, 60, 10)
    assert [windows.steps(0), windows.steps(1)] == [40, 40]
    means = windows.means(0, long)
    np.testing.assert_allclose(means, long[20:60].reshape(10, 4).mean(axis=1))
    few = align([long, np.array([1.0, 50, 100])], 10)
    assert few is not None
    assert few.count == 3
    assert align([np.array([1.0, 2]), np.array([5.0, 6])], 10) is None


def test_the_noise_of_a_step_within_a_window_is_its_variance_around_a_line() -> None:
    rng = np.random.default_rng(1)
    place, slope = np.repeat(np.arange(50), 20), np.arange(1000) * 0.1
    noise = noise_within(place, 50, slope + rng.normal(0, 0.3, 1000), np.full(1000, np.nan))
    assert noise.mean() == pytest.approx(0.09 / 20, rel=0.3)
    # The variance of samples counts if it is larger.
    larger = noise_within(place, 50, slope, np.full(1000, 0.4))
    np.testing.assert_allclose(larger, 0.02)


@pytest.mark.parametrize(("steps", "like"), [(30, 0.0), (100, 0.0), (400, 0.6)])
def test_the_variance_of_a_step_is_that_of_the_mean(steps: int, like: float) -> None:
    rng, found, means = np.random.default_rng(4), [], []
    for _ in range(200):
        noise = rng.normal(size=steps + 200)
        for at in range(1, len(noise)):
            noise[at] = like * noise[at - 1] + np.sqrt(1 - like**2) * noise[at]
        found.append(step_variance(0.01 * np.arange(steps) + noise[200:]))
        means.append(noise[200:].mean())
    assert np.median(found) == pytest.approx(steps * np.var(means), rel=0.4)


def test_the_stated_size_is_found_by_the_test_at_its_quantiles() -> None:
    by_window = np.array([[0.0] * 10, [0.1] * 10, [-0.1] * 10, [0.2] * 10])
    [whole, _] = contrasts(by_window, np.zeros((4, 10)), "lower")
    error = np.std([0.1, -0.1, 0.2], ddof=1) * np.sqrt(4 / 3)
    assert whole.error == pytest.approx(error)
    # Quantiles of t with two degrees by the closed form: at 1 − 0.05/4, and at 0.87: 0.8 with a reserve.
    [high, middle] = [(2 * q - 1) / np.sqrt(2 * q * (1 - q)) for q in (0.9875, 0.87)]
    assert detectable(whole, "lower", 4) == pytest.approx((high + middle) * error)


def test_equal_runs_are_not_worse_and_the_first_worse_window_is_named() -> None:
    equal = np.full((4, 10), 0.5)
    assert all(each.p >= 0.5 for each in contrasts(equal, np.zeros((4, 10)), "higher"))
    worse = np.random.default_rng(2).normal(0, 0.01, (5, 10))
    worse[0, 6:] -= 1
    assert first_window(worse, np.full((5, 10), 1e-4), "lower") == 6
    assert first_window(worse, np.full((5, 10), 1e-4), "higher") is None
    assert first_window(worse, np.full((5, 10), 1e-4), "either") == 6


def test_a_missing_value_leaves_its_window_out() -> None:
    means = [np.array([1.0, 2, 3, 4]), np.array([1.0, np.nan, 3, 4]), np.array([1.0, 2, 3, 5])]
    windows = align([np.arange(4.0)] * 3, 4)
    assert windows is not None
    by_window, noise = window_means(windows, means, [np.zeros(4)] * 3)
    [whole, last] = contrasts(by_window, noise, "lower")
    assert whole.new == pytest.approx((1 + 3 + 4) / 3)
    assert (last.new, last.baselines) == (4, 4.5)


@pytest.mark.parametrize("baselines", [2, 4])
def test_false_alarms_are_rare_and_the_stated_size_is_found(baselines: int) -> None:
    setting = Setting(baselines, steps=40, seed=0.1, drift=0.05, like=0.5)
    alarm, whole, end, _ = simulate(setting, 60, seed=3)
    assert alarm.mean() <= 0.12
    assert whole.mean() >= 0.65
    assert end.mean() >= 0.65
