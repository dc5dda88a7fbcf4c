"""Metrics that compare the samples of a prompt: worked by hand, and compared with the definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.metrics.engine.step_compute import NO_GROUP, StepRows


def rows(
    step: list[int], groups: list[int], constants: dict[str, float] | None = None, **columns: list[float]
) -> StepRows:
    """Rows of some steps in groups."""
    known = {name: np.array(values, float) for name, values in columns.items()}
    known["group_key"] = np.array(groups)
    return StepRows(np.array(step), known.__getitem__, gather_constants({}, constants or {}))


#: Two steps: groups of (0, 1, 2) and (5, 5) in the first, interleaved; (1, 3) in the second.
TWO = rows([1] * 5 + [2] * 2, [7, 8, 7, 8, 7, 7, 7], reward=[0, 5, 1, 5, 2, 1, 3])
ODD = rows([1] * 5, [7, 7, 7, 8, NO_GROUP], reward=[1, np.nan, 3, 9, 4])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("group_mean", [1, 5, 2]),
        ("group_std", [1, 0, np.sqrt(2)]),
        ("group_best", [2, 5, 3]),
        ("group_worst", [0, 5, 1]),
        ("group_zero_variance", [0, 1, 0]),
    ],
)
def test_groups_by_hand(name: str, wanted: list[float]) -> None:
    np.testing.assert_allclose(TWO.value(name), wanted)


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


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("group_count", [2, 1]),
        ("reward_group_std", [0.5, np.sqrt(2)]),
        ("zero_variance_groups", [0.5, 0]),
        ("zero_variance_low", [0, 0]),
        ("zero_variance_high", [0.5, 0]),
    ],
)
def test_steps_by_hand(name: str, wanted: list[float]) -> None:
    np.testing.assert_allclose(TWO.value(name), wanted)


def test_low_and_high_are_told_apart_at_a_pass() -> None:
    strict = rows([1] * 4, [7, 7, 8, 8], {"pass_reward": 3}, reward=[1, 1, 3, 3])
    assert (strict.value("zero_variance_low")[0], strict.value("zero_variance_high")[0]) == (0.5, 0.5)


def by_counting(rewards: list[float], k: int) -> float:
    """Share of all draws of k samples in which one passes."""
    draws = list(combinations(rewards, k))
    return sum(any(reward >= 1 for reward in draw) for draw in draws) / len(draws)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=9), st.sampled_from([1, 2, 4, 8]))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(rewards: list[float], k: int) -> None:
    found = rows([1] * len(rewards), [7] * len(rewards), reward=rewards).value(f"pass_at_{k}")[0]
    wanted = by_counting(rewards, k) if len(rewards) >= k else np.nan
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_diversity_and_repetition_count_distinct_responses() -> None:
    said = rows([1] * 4, [7, 7, 8, 8], response_key=[1, 1, 1, 2])
    assert (said.value("response_diversity")[0], said.value("repeated_responses")[0]) == (0.75, 0.5)


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
