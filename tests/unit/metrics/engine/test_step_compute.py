"""Step metrics over pooled values, compared with pandas and worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.metrics.engine.compute import derive_columns, reduce_tokens
from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.metrics.engine.segments import Segments, StepRows, SubSegments
from rlpanel.metrics.reward import wilson

STEP = [1, 1, 2, 2, 2]


def pooled(name: str, constants: dict[str, float] | None = None, **columns: list[float]) -> list[float]:
    """A step metric over rows of `STEP`."""
    known = {column: np.array(values, float) for column, values in columns.items()}
    return (
        StepRows(np.array(STEP), known.__getitem__, gather_constants({}, constants or {}))
        .value(name)
        .tolist()
    )


def test_a_mean_over_tokens_weighs_tokens_alike() -> None:
    found = pooled("kl_k1_pooled", log_ratio_sum=[1, 5, 2, 2, 2], log_ratio_count=[1, 2, 4, 4, 4])
    assert found == [2.0, 0.5]


def test_a_missing_sum_takes_its_count_along() -> None:
    found = pooled("kl_k1_pooled", log_ratio_sum=[1, np.nan, 2, 2, 2], log_ratio_count=[1, 2, 4, 4, 4])
    assert found == [1.0, 0.5]


def test_micro_batches_weigh_alike_as_in_grpo() -> None:
    # Step 1: micro-batches of 6/1 and 2/4 nats a token; step 2: (1 + 2)/(1 + 1) and 4/1.
    found = pooled(
        "kl_k3_micro",
        kl_k3_sum=[6, 2, 1, 4, 2],
        log_ratio_count=[1, 4, 1, 1, 1],
        micro_batch=[0, 1, 0, 1, 0],
    )
    assert found == [3.25, 2.75]


def test_rows_without_a_micro_batch_are_in_none() -> None:
    found = pooled(
        "entropy_micro",
        token_entropy_sum=[6, 2, 1, 4, 2],
        token_entropy_count=[1, 4, 1, 1, 1],
        micro_batch=[0, np.nan, np.nan, np.nan, np.nan],
    )
    np.testing.assert_equal(found, [6, np.nan])


def critic(values: list[list[float]], returns: list[list[float]]) -> dict[str, np.ndarray]:
    samples = [{"values": np.array(v), "returns": np.array(g)} for v, g in zip(values, returns, strict=True)]
    return reduce_tokens(samples)


def test_explained_variance_is_pooled_over_all_tokens_of_the_step() -> None:
    draw = np.random.default_rng(0)
    returns = [draw.normal(3, 1, size) for size in (3, 7, 1)]
    values = [g + draw.normal(0.5, 0.3, len(g)) for g in returns]
    columns = critic(values, returns)  # type: ignore[arg-type]
    found = StepRows(np.zeros(3, int), columns.__getitem__, {}).value("var_explained")[0]
    g, v = np.concatenate(returns), np.concatenate(values)
    assert found == pytest.approx(1 - np.var(g - v) / np.var(g))


@pytest.mark.parametrize(
    ("values", "returns"),
    [([[0.0, 0.0]], [[1.0, 2.0]]), ([[1.0, 2.0]], [[3.0, 3.0]])],
    ids=["a critic that is constant 0", "returns that are all the same"],
)
def test_explained_variance_is_silent_where_it_says_nothing(
    values: list[list[float]], returns: list[list[float]]
) -> None:
    columns = critic(values, returns)
    assert np.isnan(StepRows(np.zeros(1, int), columns.__getitem__, {}).value("var_explained")[0])


def test_the_kl_coefficient_is_read_off_the_token_rewards() -> None:
    ratio = np.array([0.5, -1.0, 2.0])
    sample = {
        "logprobs": ratio - 1,
        "ref_logprobs": np.full(3, -1.0),
        "token_rewards": -0.1 * ratio + [0, 0, 7],
    }
    columns = reduce_tokens([sample])
    at = StepRows(np.zeros(1, int), columns.__getitem__, {})
    assert (at.value("kl_coef_fit")[0], at.value("kl_coef_r2")[0]) == pytest.approx((0.1, 1.0))


def test_no_coefficient_can_be_read_where_the_models_agree() -> None:
    same = {"logprobs": -np.ones(3), "ref_logprobs": -np.ones(3), "token_rewards": np.array([0.0, 0.0, 1.0])}
    columns = reduce_tokens([same])
    assert np.isnan(StepRows(np.zeros(1, int), columns.__getitem__, {}).value("kl_coef_fit")[0])


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"token_reward_sum": [0.7], "log_ratio_sum": [9.0]}, -0.3),
        ({"token_reward_sum": [np.nan], "log_ratio_sum": [2.0]}, -0.2),
        ({"token_reward_sum": [0.0], "log_ratio_sum": [2.0]}, -0.2),
        ({"log_ratio_sum": [2.0]}, -0.2),
    ],
    ids=["exact", "missing", "a writer without a critic", "coefficient alone"],
)
def test_the_kl_penalty_is_subtracted_from_the_reward(columns: dict[str, list[float]], wanted: float) -> None:
    given_ = {"reward": np.array([1.0]), **{name: np.array(values) for name, values in columns.items()}}
    found = derive_columns(given_, gather_constants({}, {"kl_coef": 0.1}))
    assert (found["non_score_reward"][0], found["rlhf_reward"][0]) == pytest.approx((wanted, 1 + wanted))


def test_without_a_coefficient_nothing_is_assumed() -> None:
    found = derive_columns({"reward": np.ones(1), "log_ratio_sum": np.ones(1)})
    assert found == {}


def test_wins_ties_and_losses() -> None:
    gap = [1, -1, 0, np.nan, 2]
    found = [pooled(name, reward_gap=gap) for name in ("win_share", "tie_share", "loss_share")]
    assert found == [[0.5, 0.5], [0, 0.5], [0.5, 0]]


def test_wilsons_interval_as_the_books_have_it() -> None:
    # Newcombe 1998, table I: 81 of 263 → 0.2553 to 0.3662.
    low, high = wilson(np.array([81 / 263]), np.array([263]))
    assert (round(low[0], 4), round(high[0], 4)) == (0.2553, 0.3662)


def test_the_spread_between_ranks_needs_two() -> None:
    np.testing.assert_equal(
        pooled("reward_rank_spread", rank=[0, 0, 0, 1, 1], reward=[1, 9, 1, 2, 4]), [np.nan, 2]
    )


table = st.lists(
    st.tuples(st.integers(0, 3), st.floats(-9, 9) | st.just(np.nan), st.floats(-9, 9)),
    min_size=1,
    max_size=40,
)


@given(table)
def test_reductions_are_those_of_pandas(rows: list[tuple[int, float, float]]) -> None:
    frame = pd.DataFrame(sorted(rows, key=lambda row: row[0]), columns=["step", "a", "b"])
    by = Segments(np.flatnonzero(np.diff(frame.step, prepend=-1)), len(frame))
    groups = frame.groupby("step")
    with np.errstate(all="ignore"):
        found = (by.mean(frame.a.to_numpy()), by.min(frame.a.to_numpy()), by.max(frame.b.to_numpy()))
        std = by.std(frame.a.to_numpy())
    for ours, theirs in zip(found, (groups.a.mean(), groups.a.min(), groups.b.max()), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(std, groups.a.std(), atol=1e-6)


def test_the_correlation_is_that_of_pandas() -> None:
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"step": np.repeat([1, 2], 20), "length": draw.normal(size=40), "reward": draw.normal(size=40)}
    )
    frame.loc[3, "reward"] = np.nan
    found = StepRows(frame.step.to_numpy(), lambda name: frame[name].to_numpy(), {}).value(
        "length_reward_correlation"
    )
    wanted = [part.length.corr(part.reward) for _, part in frame.groupby("step")]
    np.testing.assert_allclose(found, wanted)


def test_a_constant_has_no_correlation() -> None:
    assert np.isnan(pooled("length_reward_correlation", length=[1, 1, 2, 2, 2], reward=[1, 2, 1, 2, 3])).all()


def test_runs_within_runs_keep_the_order_of_the_rows() -> None:
    by = Segments(np.array([0, 3]), 6)
    inner = SubSegments(by, np.array([2, 1, 2, 1, 2, 1]))
    assert inner.broadcast(inner.sum(np.arange(6.0))).tolist() == [2, 1, 2, 8, 4, 8]
