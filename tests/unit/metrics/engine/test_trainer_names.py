"""The table of trainers' scalars that equal our numbers, and the facts that it depends on."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.metrics.engine import column_info, trainer_names
from rlpanel.metrics.engine.trainer_names import TABLE, names_of, rows_of


def test_every_row_is_about_a_number_that_is_described() -> None:
    unknown = [row.number for row in TABLE if "*" not in row.number and not described(row.number)]
    assert unknown == []


def described(number: str) -> bool:
    return column_info.describe(number).help != "Logged by the trainer under this name."


@pytest.mark.parametrize(
    ("scalar", "curves"),
    [
        ("rewards/format/mean", ["rewards/format"]),
        ("rewards/a/b/std", ["rewards/a/b:std"]),
        ("rewards/mean/mean", ["rewards/mean"]),
        ("kl", ["kl_k3_micro", "kl_k1_pooled"]),
        ("objective/kl", ["log_ratio_sum", "kl_k3_sum"]),
        ("char_len_mean", ["char_len"]),
        ("loss", []),
    ],
)
def test_a_scalar_leads_to_the_numbers_that_it_may_be(scalar: str, curves: list[str]) -> None:
    assert [curve for _, curve in rows_of(scalar)] == curves


@pytest.mark.parametrize(
    ("curve", "names"),
    [
        ("reward", ["reward", "objective/scores", "critic/score/mean"]),
        ("reward:std", ["reward_std"]),
        ("rewards/format", ["rewards/format/mean"]),
        ("rewards/format:std", ["rewards/format/std"]),
        ("rewards/format:max", []),
        ("prompt_chars", []),
        ("ratio_variance", []),
    ],
)
def test_a_number_has_the_names_of_its_trainers(curve: str, names: list[str]) -> None:
    assert [name for _, name in names_of(curve)] == names


@pytest.mark.parametrize(
    "scalar",
    [
        "val/ratio",
        "val/ratio_var",
        "val/num_eos_tokens",
        "policy/approxkl_avg",
        "policy/clipfrac_avg",
        "ppo/mean_non_score_reward",
        "ppo/val/var",
        "ppo/val/vpred",
        "ppo/returns/var",
        "tokens/queries_len_mean",
        "frac_reward_zero_std",
        "critic/vf_explained_var",
    ],
)
def test_scalars_that_are_other_numbers_have_no_row(scalar: str) -> None:
    """Means over mini-batches, over padding or over tokens where ours are over samples; or another ddof."""
    rows = [row for row, _ in rows_of(scalar) if row is not trainer_names.USERS_MEAN]
    assert rows == []


@pytest.mark.parametrize(
    ("condition", "facts", "holds"),
    [
        (trainer_names.GRPO, {"algo": "GRPO"}, True),
        (trainer_names.GRPO, {"trainer": "RLOOTrainer"}, False),
        (trainer_names.GRPO, {"algo": 3}, None),
        (trainer_names.GRPO, {}, None),
        (trainer_names.trl_since("1.9"), {"versions": {"trl": "1.16.0"}}, True),
        (trainer_names.trl_since("1.9"), {"versions": {"trl": "1.9.0.dev0"}}, True),
        (trainer_names.trl_since("0.27"), {"versions": {"trl": "0.19.1"}}, False),
        (trainer_names.trl_since("0.27"), {"versions": "1.2"}, None),
        (trainer_names.trl_since("0.27"), {"versions": {"trl": "9" * 5000}}, True),
        (trainer_names.POOLED_OVER_RANKS, {"processes": 2, "versions": {"trl": "1.2.0"}}, False),
        (trainer_names.POOLED_OVER_RANKS, {"processes": 2}, None),
        (trainer_names.POOLED_OVER_RANKS, {"processes": 1}, True),
        (trainer_names.WHOLE_ROLLOUT, {"gradient_accumulation_steps": 2, "steps_per_generation": 2}, True),
        (trainer_names.WHOLE_ROLLOUT, {"gradient_accumulation_steps": 2, "steps_per_generation": 4}, False),
        (trainer_names.WHOLE_ROLLOUT, {"gradient_accumulation_steps": 3, "steps_per_generation": 2}, False),
        (trainer_names.WHOLE_ROLLOUT, {"gradient_accumulation_steps": 2}, None),
    ],
)
def test_a_condition_holds_does_not_or_is_unknown(
    condition: trainer_names.Condition, facts: dict[str, Any], holds: bool | None
) -> None:
    assert condition.holds(facts) is holds


@pytest.mark.parametrize(
    ("facts", "steps"),
    [
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 2, "num_iterations": 3}, 3),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 3, "num_iterations": 1}, 2),
        ({"gradient_accumulation_steps": 2, "num_iterations": 1}, 1),
        ({"gradient_accumulation_steps": 2}, None),
        ({"gradient_accumulation_steps": True, "num_iterations": 1}, None),
        ({"gradient_accumulation_steps": 1, "num_iterations": 10**400}, None),
        ({"gradient_accumulation_steps": -1, "num_iterations": 1}, None),
    ],
)
def test_the_optimizer_steps_of_a_rollout_follow_from_the_batch_sizes(
    facts: dict[str, Any], steps: int | None
) -> None:
    assert trainer_names.steps_per_rollout(facts) == steps
