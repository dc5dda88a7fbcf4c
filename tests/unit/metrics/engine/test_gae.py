"""Advantages and returns: worked by hand, compared with the definition's loop, and as derived arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.compute import reduce_tokens
from rlpanel.metrics.engine.derived_arrays import advantages_by_gae, derived_of_sample, discounted

NONE = np.array([np.nan])


def gae(rewards: list[float], values: list[float], gamma: float, lam: float, **slot: float) -> np.ndarray:
    """One response's advantages."""
    return advantages_by_gae(
        np.array(rewards),
        np.array(values),
        lengths=np.array([len(rewards)]),
        terminal_value=np.array([slot.get("value", np.nan)]),
        terminal_reward=np.array([slot.get("reward", np.nan)]),
        gamma=gamma,
        lam=lam,
    )


def by_definition(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """A_t = δ_t + γλ A_{t+1}, from the last token back."""
    found, after, following = [], 0.0, 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        after = reward + gamma * following - value + gamma * lam * after
        following = value
        found.append(after)
    return found[::-1]


def test_three_tokens_by_hand() -> None:
    # δ = (0 + 0.5·2 − 1, 0 + 0.5·4 − 2, 8 + 0 − 4) = (0, 0, 4); γλ = 0.25
    assert gae([0, 0, 8], [1, 2, 4], 0.5, 0.5).tolist() == [0.25, 1.0, 4.0]


def test_the_score_in_the_slot_after_the_end_by_hand() -> None:
    # The last token's 8 moves to the slot, whose value is 2: A₃ = 8 − 2 = 6.
    # δ₂ = 0 + 0.5·2 − 4 = −3, A₂ = −3 + 0.25·6 = −1.5; δ₁ = 0, A₁ = −0.375; δ₀ = 0, A₀ = −0.09375.
    found = gae([0, 0, 8], [1, 2, 4], 0.5, 0.5, value=2.0, reward=8.0)
    assert found.tolist() == [-0.09375, -0.375, -1.5]


def test_without_discount_the_return_is_the_reward_still_to_come() -> None:
    values = np.array([0.3, -0.2, 0.5])
    np.testing.assert_allclose(gae([1.0, 2.0, 4.0], list(values), 1.0, 1.0) + values, [7, 6, 4])


responses = st.lists(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=40), min_size=1, max_size=6
)


@given(responses, st.floats(0, 1), st.floats(0, 1))
def test_a_batch_is_each_response_by_the_definition(
    batch: list[list[tuple[float, float]]], gamma: float, lam: float
) -> None:
    parts = [([r for r, _ in one], [v for _, v in one]) for one in batch]
    wanted = [a for rewards, values in parts for a in by_definition(rewards, values, gamma, lam)]
    found = advantages_by_gae(
        np.array([r for rewards, _ in parts for r in rewards]),
        np.array([v for _, values in parts for v in values]),
        lengths=np.array([len(one) for one in batch]),
        terminal_value=np.full(len(batch), np.nan),
        terminal_reward=np.full(len(batch), np.nan),
        gamma=gamma,
        lam=lam,
    )
    np.testing.assert_allclose(found, wanted, atol=1e-9)


ARRAYS = {"values": np.array([1.0, 2.0, 4.0]), "token_rewards": np.array([0.0, 0.0, 8.0])}
HALF = {"gamma": 0.5, "lam": 0.5}


def test_advantages_and_returns_that_were_not_logged_are_derived() -> None:
    found = derived_of_sample(ARRAYS, {}, HALF)
    assert (found["advantages"].tolist(), found["returns"].tolist()) == ([0.25, 1, 4], [1.25, 3, 8])


def test_logged_advantages_and_returns_take_precedence() -> None:
    logged = {**ARRAYS, "advantages": np.zeros(3), "returns": np.ones(3)}
    found = reduce_tokens([logged, ARRAYS], {}, HALF)
    assert (found["token_return_mean"].tolist()[0], found["token_advantage_mean"].tolist()) == (1, [0, 1.75])


def test_nothing_follows_from_zeros_alone() -> None:
    assert derived_of_sample({name: np.zeros(3) for name in ARRAYS}, {}, HALF) == {}


@pytest.mark.parametrize(
    "odd",
    [{}, {"values": ARRAYS["values"]}, {**ARRAYS, "values": np.ones(2)}],
    ids=["nothing", "no rewards", "other lengths"],
)
def test_a_sample_without_the_inputs_has_no_returns_and_others_do(odd: dict[str, np.ndarray]) -> None:
    found = reduce_tokens([ARRAYS, odd, ARRAYS], {}, HALF)["token_return_sum"]
    np.testing.assert_array_equal(found, [12.25, np.nan, 12.25])


@pytest.mark.parametrize("factor", [1.0, 0.95, 0.5, 1e-3, 0.0])
def test_long_responses_among_short_ones_are_each_as_they_are_alone(factor: float) -> None:
    lengths = np.array([3, 700, 1, 2000, 511])
    values = np.random.default_rng(0).normal(size=lengths.sum())
    together = np.split(discounted(values, factor, lengths), np.cumsum(lengths)[:-1])
    for found, alone in zip(together, np.split(values, np.cumsum(lengths)[:-1]), strict=True):
        np.testing.assert_array_equal(found, discounted(alone, factor, np.array([len(alone)])))
        np.testing.assert_allclose(
            found, by_definition(list(alone), [0.0] * len(alone), 1.0, factor), rtol=1e-11
        )


def test_a_nan_affects_only_its_own_response() -> None:
    values = np.ones(3000)
    values[1500] = np.nan
    found = discounted(values, 0.9, np.array([1000, 1000, 1000]))
    assert np.isnan(found).tolist() == [False] * 1000 + [True] * 501 + [False] * 1499
