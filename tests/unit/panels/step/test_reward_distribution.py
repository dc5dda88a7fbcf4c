"""Histogram bins that suit the values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.step.reward_distribution import BINS, bins_of

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
