"""Metrics that compare the samples of a prompt: worked by hand, and compared with the definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.metrics.engine.segments import StepRows


def rows(
    step: list[int], groups: list[int], constants: dict[str, float] | None = None, **columns: list[float]
) -> StepRows:
    """Rows of some steps in groups."""
    known = {name: np.array(values, float) for name, values in columns.items()}
    known["group_key"] = np.array(groups)
    return StepRows(np.array(step), known.__getitem__, gather_constants({}, constants or {}))


#: Two steps: groups of (0, 1, 2) and (5, 5) in the first, interleaved; (1, 3) in the second.
TWO = rows([1] * 5 + [2] * 2, [7, 8, 7, 8, 7, 7, 7], reward=[0, 5, 1, 5, 2, 1, 3])


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
    said = rows([1] * 4, [7, 7, 8, 8], response_key=[1, 1, 1, 2], response_chars=[3, 3, 3, 3])
    assert (said.value("response_diversity")[0], said.value("repeated_responses")[0]) == (0.75, 0.5)


def test_responses_that_were_not_logged_do_not_repeat_each_other() -> None:
    nan = np.nan
    said = rows(
        [1] * 6, [7, 7, 7, 8, 8, 8], response_key=[1, 2, 0, 0, 0, 3], response_chars=[3, 3, nan, nan, nan, 3]
    )
    assert (said.value("response_diversity")[0], said.value("repeated_responses")[0]) == (1, 0)
    unknown = rows([1, 1], [7, 7], response_key=[0, 0], response_chars=[nan, nan])
    assert np.isnan([unknown.value("response_diversity")[0], unknown.value("repeated_responses")[0]]).all()


def test_pass_at_one_counts_groups_of_one_sample() -> None:
    rewards = [1.0] * 5 + [0.0] * 5 + [1.0, 1.0]
    found = rows([1] * 12, [*range(10), 10, 10], reward=rewards)
    assert found.value("pass_at_1")[0] == pytest.approx(6 / 11)
    assert found.value("pass_at_2")[0] == 1
