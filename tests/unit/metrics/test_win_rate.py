"""Wins, ties and losses, compared with values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlpanel.metrics.win_rate import wilson, win_rate_of


def test_wilson_by_hand() -> None:
    """8 of 10: z² = 3.8415, middle (0.8 + 0.19207) / 1.38415, half 1.95996 · √(0.016 + 0.0096) / 1.38415."""
    found = wilson(8, 10)
    assert found.value == 0.8
    assert found.low == pytest.approx(0.716738 - 0.226577, abs=1e-4)
    assert found.high == pytest.approx(0.716738 + 0.226577, abs=1e-4)


def test_wilson_at_the_ends_is_not_a_point() -> None:
    """None of 10: from 0 to z² / (10 + z²) = 3.8415 / 13.8415; all of 10 is its mirror image."""
    none, every = wilson(0, 10), wilson(10, 10)
    assert (none.low, none.high) == (0.0, pytest.approx(0.277533, abs=1e-5))
    assert (every.low, every.high) == (pytest.approx(1 - 0.277533, abs=1e-5), pytest.approx(1.0))


def test_the_share_of_zero_samples_is_nan() -> None:
    assert math.isnan(wilson(0, 0).value)
    assert math.isnan(wilson(0, 0).low)


def test_an_outcome_by_hand() -> None:
    """Differences 1, 1, 0, −0.5, and one that is rounding: 2 win, 2 tie, 1 loses; the mean is 0.3.

    Squared deviations 0.49 + 0.49 + 0.09 + 0.64 + 0.09 = 1.8; with t(4) = 2.7764 half the width is
    2.7764 · √(0.45 / 5) = 0.83293.
    """
    found = win_rate_of(np.array([1.0, 1.0, 0.0, -0.5, 1e-9]))
    assert (found.wins.count, found.ties.count, found.losses.count) == (2, 2, 1)
    assert {share.of for share in (found.wins, found.ties, found.losses)} == {5}
    assert found.mean == pytest.approx(0.3)
    assert found.half == pytest.approx(0.83293, abs=1e-5)
    assert found.no_interval == ""


@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([], "fewer than 2 prompts"),
        ([0.5], "fewer than 2 prompts"),
        ([1.0, 1.0], "all differences are equal"),
    ],
)
def test_without_a_spread_the_mean_has_no_interval(differences: list[float], reason: str) -> None:
    found = win_rate_of(np.array(differences))
    assert math.isnan(found.half)
    assert found.no_interval == reason
    assert math.isnan(found.mean) == (not differences)


@pytest.mark.parametrize("prompts", [2, 3, 5, 10])
def test_the_interval_covers_the_true_mean_in_95_percent_of_small_comparisons(prompts: int) -> None:
    """With 1.96 instead of Student's t it would be 70 % for two prompts, and 92 % for ten."""
    noise = np.random.default_rng(7).normal(size=(4000, prompts))
    rates = [win_rate_of(row) for row in noise]
    assert np.mean([abs(rate.mean) <= rate.half for rate in rates]) == pytest.approx(0.95, abs=0.012)
