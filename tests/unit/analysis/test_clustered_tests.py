"""Tests of two sets against known distributions and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlpanel.analysis.difference import TwoSets, likelihood_root, normal_of_t, threshold
from rlpanel.metrics.win_rate import t95


@pytest.mark.parametrize("df", [3, 5, 10, 30, 200])
def test_the_normal_deviate_is_as_improbable_as_t(df: int) -> None:
    assert normal_of_t(t95(df), df) == pytest.approx(1.96, abs=0.02)
    assert normal_of_t(-t95(df), df) == pytest.approx(-1.96, abs=0.02)


def test_more_tests_need_a_larger_difference() -> None:
    assert threshold(1) == 3.0
    assert threshold(1000) == pytest.approx(4.417, abs=0.001)  # the normal quantile of 1 - 0.01 / 2000


def test_the_root_is_that_of_fishers_exact_test() -> None:
    """The tail of the hypergeometric distribution, by its formula."""
    count_a, count_b, with_a, with_b = 40, 60, 15, 5
    total, count = with_a + with_b, count_a + count_b
    tail = sum(
        math.comb(count_a, k) * math.comb(count_b, total - k) / math.comb(count, total)
        for k in range(with_a, total + 1)
    )
    root = likelihood_root(np.array([with_a]), count_a, np.array([with_b]), count_b)[0]
    assert 0.5 * math.erfc(root / math.sqrt(2)) == pytest.approx(tail, rel=0.35)


def test_the_root_changes_its_sign_with_the_sets() -> None:
    there = likelihood_root(np.array([3, 9]), 20, np.array([9, 3]), 20)
    back = likelihood_root(np.array([9, 3]), 20, np.array([3, 9]), 20)
    assert there == pytest.approx(-back)
    assert (there[0] < 0, there[1] > 0) == (True, True)


def false_alarms(spread_a: float, count_a: int, size: int, common: float) -> float:
    """Share of simulated pairs of sets without a difference whose |z| is above 1.96."""
    draw = np.random.default_rng(5)
    wrong, times = 0, 400
    groups = np.repeat(np.arange((count_a + 400) // size), size)
    in_a = groups < count_a // size
    sets = TwoSets(in_a, groups)
    for _ in range(times):
        shared = draw.normal(size=groups.max() + 1)[groups] * math.sqrt(common)
        own = draw.normal(size=len(groups)) * math.sqrt(1 - common)
        found = sets.test_mean((shared + own) * np.where(in_a, spread_a, 1.0))
        assert found is not None
        wrong += abs(found.z) > 1.96
    return wrong / times


def test_groups_raise_no_false_alarms() -> None:
    assert false_alarms(1.0, 400, 8, common=0.5) < 0.08


def test_a_small_set_with_a_large_spread_raises_no_false_alarms() -> None:
    assert false_alarms(10.0, 16, 1, common=0.0) < 0.08


def test_one_outlier_in_a_small_set_is_no_difference() -> None:
    values = np.concatenate([[0.0] * 5, [100.0], np.random.default_rng(1).normal(0, 1, 400)])
    found = TwoSets(np.arange(406) < 6, np.arange(406)).test_mean(values)
    assert found is not None
    assert abs(found.z) < 3


def test_samples_of_one_group_count_once() -> None:
    feature = np.arange(240) < 16
    apart = TwoSets(np.arange(240) < 40, np.arange(240)).test_share(feature)
    together = TwoSets(np.arange(240) < 40, np.arange(240) // 16).test_share(feature)
    assert apart is not None
    assert together is not None
    assert apart.z > 6
    assert together.z < 3


def test_without_enough_values_nothing_is_tested() -> None:
    sets = TwoSets(np.arange(20) < 4, np.arange(20))
    assert sets.test_mean(np.arange(20.0)) is None
    assert sets.test_share(np.arange(20) < 2) is None
    whole = TwoSets(np.arange(20) < 10, np.arange(20))
    assert whole.test_mean(np.ones(20)) is None
    assert whole.test_share(np.ones(20, bool)) is None
