"""Histogram bins that suit the values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.step.reward_distribution import BINS, MAX_GAP_BARS, bins_of, gap_plot

floats = st.lists(st.floats(-1e6, 1e6), max_size=60)


@given(floats, floats)
def test_every_finite_value_is_counted_once(a: list[float], b: list[float]) -> None:
    bins = bins_of(np.array(a), np.array(b))
    assert bins.count(np.array(a)).sum() == len(a)
    assert bins.count(np.array(b)).sum() == len(b)


def test_a_few_rule_based_rewards_get_a_bar_each() -> None:
    bins = bins_of(np.array([0.0, 0.5, 0.5, 1.5, np.nan]))
    assert bins.values is not None
    assert bins.values.tolist() == [0.0, 0.5, 1.5]
    assert bins.count(np.array([0.0, 0.5, 0.5, 1.5])).tolist() == [1, 2, 1]


def test_many_values_get_equal_bins() -> None:
    bins = bins_of(np.linspace(0, 1, 100))
    assert (len(bins.edges), bins.values) == (BINS + 1, None)


def test_bars_of_two_layers_stand_side_by_side() -> None:
    bins = bins_of(np.array([0.0, 1.0]))
    (_, first_ends), (second_starts, _) = bins.bars(0, 2), bins.bars(1, 2)
    np.testing.assert_allclose(first_ends, second_starts)


def test_nothing_finite_is_no_crash() -> None:
    assert bins_of(np.array([np.nan, np.inf])).count(np.array([np.nan])).tolist() == [0]


def test_many_gaps_share_bars_that_keep_their_order_and_cover_all_samples() -> None:
    gap = np.sort(np.random.default_rng(0).normal(size=100_003))
    good, bad = gap_plot(gap)["layers"]
    assert len(good["left"]) == MAX_GAP_BARS
    assert (good["left"][0], good["right"][-1]) == (0, len(gap))
    assert good["left"][1:] == good["right"][:-1]
    shown = np.array(good["top"]) + np.array(bad["bottom"])
    assert (np.diff(shown) >= 0).all()
    assert abs(np.mean(shown > 0) - np.mean(gap > 0)) < 1 / MAX_GAP_BARS


def test_few_gaps_get_a_bar_each() -> None:
    good, bad = gap_plot(np.array([-1.0, 0.0, 2.0]))["layers"]
    assert (good["top"], bad["bottom"]) == ([0, 0, 2], [-1, 0, 0])
