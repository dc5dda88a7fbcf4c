"""Advantages over the group: worked by hand, and independent of the order of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.segments import NO_GROUP
from tests.unit.metrics.test_group import TWO, rows

#: A group with a missing reward, a single sample, and a sample without a group.
ODD = rows([1] * 5, [7, 7, 7, 8, NO_GROUP], reward=[1, np.nan, 3, 9, 4])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("grpo_advantage", [-1 / 1.0001, 0, 0, 0, 1 / 1.0001, -1 / (2**0.5 + 1e-4), 1 / (2**0.5 + 1e-4)]),
        ("dr_grpo_advantage", [-1, 0, 0, 0, 1, -1, 1]),
        ("rloo_advantage", [-1.5, 0, 0, 0, 1.5, -2, 2]),
    ],
)
def test_advantages_by_hand(name: str, wanted: list[float]) -> None:
    np.testing.assert_allclose(TWO.value(name), wanted, atol=1e-12)


@pytest.mark.parametrize("name", ["grpo_advantage", "dr_grpo_advantage", "rloo_advantage"])
def test_a_missing_reward_a_single_sample_and_no_group_have_no_advantage(name: str) -> None:
    assert np.isfinite(ODD.value(name)).tolist() == [True, False, True, False, False]


def test_rloo_takes_the_penalty_off_where_its_coefficient_is_known() -> None:
    given_ = rows([1] * 2, [7, 7], {"kl_coef": 0.5}, reward=[1, 1], log_ratio_sum=[0, 2], advantage=[1, -1])
    np.testing.assert_allclose(given_.value("rloo_kl_advantage"), [1, -1])
    np.testing.assert_allclose(given_.value("advantage_less_rloo"), [0, 0])


def test_the_logged_advantage_less_the_recomputed_one() -> None:
    found = rows([1, 1], [7, 7], reward=[0, 2], advantage=[-1, 1.5]).value("advantage_less_dr_grpo")
    assert found.tolist() == [0, 0.5]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(-9, 9)), min_size=1), st.randoms())
def test_advantages_do_not_depend_on_the_order_of_samples(
    table: list[tuple[int, int, float]], chance: object
) -> None:
    table.sort(key=lambda row: row[0])
    mixed = list(range(len(table)))
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    mixed.sort(key=lambda at: table[at][0])
    step, groups, reward = (list(part) for part in zip(*table, strict=True))
    plain = rows(step, groups, reward=reward).value("rloo_advantage")
    other = rows(step, [groups[i] for i in mixed], reward=[reward[i] for i in mixed]).value("rloo_advantage")
    np.testing.assert_allclose(other, plain[mixed], atol=1e-9)
