"""A metric is declared once; names, labels and units follow from the declaration."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel import schema
from rlpanel.metrics import registry
from rlpanel.metrics.fill import DERIVED


def test_declaring_a_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'kl_k3' is declared twice"):

        @registry.metric("again", level="token")
        def kl_k3(logprobs: np.ndarray) -> np.ndarray:
            return logprobs


def test_the_arguments_say_what_is_needed() -> None:
    assert registry.get("kl_k3").needs == ("logprobs", "ref_logprobs")


def test_a_token_metric_needs_token_arrays_and_nothing_else() -> None:
    strange = {
        m.name: need
        for m in registry.of_level("token")
        for need in m.needs
        if need not in {*schema.ARRAYS, *DERIVED}
    }
    assert strange == {}


def test_every_metric_says_what_it_is() -> None:
    silent = [m.name for m in registry.METRICS.values() if not m.help or not m.label]
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
    assert registry.describe(column).axis == axis


def test_names_that_are_computed_are_known() -> None:
    assert {"kl_k3", "kl_k3_sum", "reward_gap", "kl_k1_mean"} <= registry.computed_columns()


def test_an_ordinary_field_is_not_computed() -> None:
    assert registry.computed_columns().isdisjoint(
        {"reward", "response_tokens", "entropy", "value"} - {"value"}
    )
