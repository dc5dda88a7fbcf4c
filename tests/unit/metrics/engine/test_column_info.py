"""A metric is declared once; its names, labels and units are derived from the declaration."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.derived_arrays import DERIVED


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match="no reduction max; there are mean, sum"):
        column_info.metric("largest", level="token", reductions=("mean", "max"))  # type: ignore[arg-type]


def test_declaring_a_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'kl_k3' is declared twice"):

        @column_info.metric("again", level="token")
        def kl_k3(logprobs: np.ndarray) -> np.ndarray:
            return logprobs


def test_the_arguments_say_what_is_needed() -> None:
    assert column_info.get("kl_k3").needs == ("logprobs", "ref_logprobs")


def test_a_token_metric_needs_token_arrays_and_nothing_else() -> None:
    strange = {
        m.name: need
        for m in column_info.of_level("token")
        for need in m.needs
        if need not in {*schema.ARRAYS, *DERIVED}
    }
    assert strange == {}


def test_every_metric_says_what_it_is() -> None:
    silent = [m.name for m in column_info.METRICS.values() if not m.help or not m.label]
    assert silent == []


@pytest.mark.parametrize(
    ("column", "axis"),
    [
        ("kl_k3_mean", "KL k3, mean per token (nats)"),
        ("kl_k1_sum", "KL k1, sum over tokens (nats)"),
        ("reward_gap", "reward gap (reward)"),
        ("response_tokens", "response length (tokens)"),
        ("my_own_metric", "my_own_metric"),
    ],
)
def test_a_column_names_its_estimator_its_reduction_and_its_unit(column: str, axis: str) -> None:
    assert column_info.describe(column).axis == axis


def test_names_that_are_computed_are_known() -> None:
    assert {"kl_k3", "kl_k3_sum", "reward_gap", "kl_k1_mean"} <= column_info.computed_columns()


def test_an_ordinary_field_is_not_computed() -> None:
    assert column_info.computed_columns().isdisjoint(
        {"reward", "response_tokens", "entropy", "value"} - {"value"}
    )


def test_a_statistic_is_described_by_its_column() -> None:
    info = column_info.describe("response_tokens:max")
    assert info.axis == "response length max, over samples (tokens)"
    assert info.help.startswith("Maximum over the samples of a step. Number of response tokens")
    assert column_info.describe("kl_k3_mean:std").axis == "KL k3 std, of mean per token (nats)"


def test_optional_parameters_are_separate_from_required_ones() -> None:
    m = column_info.get("non_score_reward")
    optional = ("token_reward_sum", "log_ratio_sum", "kl_k3_sum", "kl_coef", "kl_estimator")
    assert (m.needs, m.optional) == (("reward",), optional)


def test_a_tip_says_what_it_is_how_to_read_it_and_under_which_name_trainers_log_it() -> None:
    tip = column_info.describe("kl_k1_pooled").tip
    assert "Sum of the step's log-ratios divided by its number of tokens." in tip
    assert tip.endswith("Good: near 0. Formula: TRL RLOO, kl: Σd / ΣT. Logged as kl in TRL RLOO.")
