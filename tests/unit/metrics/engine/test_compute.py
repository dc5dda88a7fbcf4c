"""Metrics on the arrays of a batch: a sample's values do not depend on the other samples."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.metrics.engine.compute import derive_columns, reduce_tokens, token_values
from rlpanel.metrics.engine.ragged import ragged_fields, unscored_columns


def arrays(**fields: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(values, dtype=float) for name, values in fields.items()}


def test_means_and_sums_over_a_samples_tokens() -> None:
    found = reduce_tokens([arrays(logprobs=[-1, -3], ref_logprobs=[-2, -2])])
    assert (found["log_ratio_sum"].tolist(), found["surprisal_mean"].tolist()) == ([0.0], [2.0])


def test_a_missing_field_gives_nan_in_its_row_alone() -> None:
    whole, half = arrays(logprobs=[-1], ref_logprobs=[-2]), arrays(logprobs=[-1])
    found = reduce_tokens([whole, half, {}, whole])
    np.testing.assert_array_equal(found["log_ratio_sum"], [1, np.nan, np.nan, 1])
    np.testing.assert_array_equal(found["surprisal_sum"], [1, 1, np.nan, 1])


def test_arrays_of_different_length_give_nan_in_their_row_alone() -> None:
    odd = arrays(logprobs=[-1, -2], ref_logprobs=[-2])
    found = reduce_tokens([odd, arrays(logprobs=[-1], ref_logprobs=[-4])])
    np.testing.assert_array_equal(found["kl_k2_sum"], [np.nan, 4.5])


def test_no_tokens_give_nan() -> None:
    found = reduce_tokens([arrays(logprobs=[]), arrays(logprobs=[-1])])
    np.testing.assert_array_equal(found["surprisal_sum"], [np.nan, 1])


def test_nothing_but_empty_arrays_gives_no_column() -> None:
    assert reduce_tokens([arrays(logprobs=[]), {}]) == {}


def test_a_nan_token_makes_its_sample_nan() -> None:
    found = reduce_tokens([arrays(values=[-1, np.nan]), arrays(values=[-1])])
    np.testing.assert_array_equal(found["value_mean"], [np.nan, -1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_token_without_a_finite_logprob_is_left_out_alone(bad: float) -> None:
    found = reduce_tokens([arrays(logprobs=[-1, bad, -3]), arrays(logprobs=[bad]), arrays(logprobs=[-1])])
    np.testing.assert_array_equal(found["surprisal_mean"], [2, np.nan, 1])
    np.testing.assert_array_equal(found["surprisal_count"], [2, np.nan, 1])
    np.testing.assert_array_equal(found["surprisal_sum"], [np.nan, np.nan, 1])  # 4 would be too small


def test_tokens_without_a_finite_logprob_are_counted_in_the_loss() -> None:
    samples = [
        arrays(rollout_logprobs=[-1, np.nan, np.nan], loss_mask=[1, 1, 0]),
        arrays(rollout_logprobs=[-1, np.inf, np.nan]),
        arrays(rollout_logprobs=[-1, -2]),
        arrays(logprobs=[-1, -2]),
    ]
    found = unscored_columns(ragged_fields(samples))
    assert list(found) == ["unscored_rollout_logprobs"]
    np.testing.assert_array_equal(found["unscored_rollout_logprobs"], [1, 2, np.nan, np.nan])


def test_logprobs_whose_sum_overflows_are_scored() -> None:
    found = reduce_tokens([arrays(logprobs=[-1e308, -1e308, 1.0])])
    assert found["surprisal_count"].tolist() == [3]


def test_tokens_outside_the_loss_do_not_count() -> None:
    masked = arrays(logprobs=[-1, -2, -4], loss_mask=[1, 0, 1])
    found = reduce_tokens([masked, arrays(logprobs=[-8])])
    np.testing.assert_array_equal(found["surprisal_mean"], [2.5, 8])


def test_a_mask_of_another_length_is_no_mask() -> None:
    found = reduce_tokens([arrays(logprobs=[-1, -2], loss_mask=[1]), arrays(logprobs=[-5], loss_mask=[1])])
    np.testing.assert_array_equal(found["surprisal_sum"], [3, 5])


def test_a_sample_masked_whole_has_no_number() -> None:
    found = reduce_tokens([arrays(logprobs=[-1, -2], loss_mask=[0, 0]), arrays(logprobs=[-5], loss_mask=[1])])
    np.testing.assert_array_equal(found["surprisal_sum"], [np.nan, 5])


def test_token_values_are_given_for_what_was_logged() -> None:
    found = token_values(arrays(logprobs=[-1, -2], ref_logprobs=[-1, -1], values=[0.5]))
    assert found["log_ratio"].tolist() == [0.0, -1.0]
    assert (found["value"].tolist(), "token_reward" in found) == ([0.5], False)


def test_token_values_leave_out_what_does_not_fit_together() -> None:
    found = token_values(arrays(logprobs=[-1, -2], ref_logprobs=[-1]))
    assert ("kl_k3" in found, "surprisal" in found) == (False, True)


def test_the_gap_is_reward_minus_reference() -> None:
    columns = {"reward": np.array([1.0, np.nan]), "ref_reward": np.array([0.25, 1.0])}
    np.testing.assert_array_equal(derive_columns(columns)["reward_gap"], [0.75, np.nan])


def test_without_a_reference_there_is_no_gap() -> None:
    assert derive_columns({"reward": np.array([1.0])}) == {}


def test_inputs_in_different_rows_make_no_gap() -> None:
    apart = {"reward": np.array([1.0, np.nan]), "ref_reward": np.array([np.nan, 1.0])}
    assert derive_columns(apart) == {}


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_a_samples_numbers_do_not_depend_on_its_batch(batch: int) -> None:
    draw = np.random.default_rng(0)
    samples = [
        {name: -draw.exponential(1, size) for name in ("logprobs", "ref_logprobs")}
        for size in draw.integers(1, 300, 42)
    ]
    whole = reduce_tokens(samples)
    parts = [reduce_tokens(samples[start : start + batch]) for start in range(0, len(samples), batch)]
    for name, column in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), column)
