"""Every number says what it compares, averages and leaves undefined, and the numbers do what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from rlpanel import schema
from rlpanel.metrics.engine import column_info, definition
from rlpanel.metrics.engine.compute import derive_columns, reduce_tokens, token_values
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS
from rlpanel.metrics.engine.definition import COLUMNS, Definition
from rlpanel.metrics.engine.ragged import UNSCORED
from rlpanel.metrics.engine.segments import StepRows

ARRAYS = tuple(
    name for name in schema.ARRAYS if name not in ("response_token_ids", "token_rewards", "loss_mask")
)
TOKENS = [m for m in column_info.of_level("token") if m.reductions and not m.hidden]
POOLED = [
    m
    for m in column_info.of_level("step")
    if definition.of_metric(m).over == "all tokens in the loss mask of the step, all equally"
]

Sample = dict[str, np.ndarray]


@pytest.fixture(name="definitions")
def all_definitions() -> dict[str, Definition]:
    return COLUMNS | {m.name: definition.of_metric(m) for m in column_info.visible_metrics()}


def test_every_number_has_three_short_texts(definitions: dict[str, Definition]) -> None:
    texts = {
        f"{name}, {part}": getattr(one, part)
        for name, one in definitions.items()
        for part in ("compares", "over", "undefined")
    }
    assert [place for place, text in texts.items() if not text or text != text.strip(" .\n")] == []
    assert {place: len(text.split()) for place, text in texts.items() if len(text.split()) > 20} == {}


def test_every_logged_or_counted_number_is_defined() -> None:
    assert set(schema.NUMBERS) <= COLUMNS.keys()
    assert [name for name in COLUMNS if not column_info.describe(name).definition.over] == []
    counted = [
        "response_tokens",
        "trajectory_tokens",
        "prompt_chars",
        "response_chars",
        "invalid_chars",
        "special_tokens",
        "prompt_echo",
        "foreign_script",
        "engine_shift",
        "ref_shift",
        "ended",
    ]
    assert set(counted) <= COLUMNS.keys()


@pytest.mark.parametrize(
    ("column", "pair"),
    [
        ("kl_k3_mean", "policy and frozen reference, at each sampled token"),
        ("kl_k1_sum", "policy and frozen reference, at each sampled token"),
        ("approxkl", "policy after and before the update, at each sampled token"),
        ("engine_kl", "trainer's and sampling engine's logprob of the same token"),
        ("win_share", "reward of the sample and of the reference's answer to the same prompt"),
        ("surprisal_mean", ""),
        ("reward", ""),
        ("a column of the user's", ""),
    ],
)
def test_a_tip_names_the_pair_that_a_number_compares(column: str, pair: str) -> None:
    info = column_info.describe(column)
    assert (info.definition.pair, f"Compares: {pair}." in info.tip) == (pair, bool(pair))
    assert ("Compares" in info.tip) == bool(pair)


def test_tips_stay_short() -> None:
    tips = {m.name: column_info.describe(m.name).tip for m in column_info.visible_metrics()}
    assert {name: len(tip) for name, tip in tips.items() if len(tip) > 600 or "\n" in tip} == {}


def test_a_metric_of_the_users_own_says_what_it_is_made_of() -> None:
    @column_info.metric("mine", level="token", reductions=("sum",))
    def mine(logprobs: np.ndarray, values: np.ndarray) -> np.ndarray:
        """A metric."""
        return logprobs + values

    try:
        found = column_info.describe("mine_sum").definition
    finally:
        column_info.unregister("mine")
    assert (found.pair, found.over.partition(";")[0]) == (
        "logprob and value", "the sample's tokens in the loss mask (sum)",
    )  # fmt: skip


def test_inputs_are_the_fields_of_a_line() -> None:
    found = {
        name: definition.inputs(column_info.get(name)) for name in ("clipfrac", "win_share", "pass_at_2")
    }
    assert found == {
        "clipfrac": ("new_logprobs", "old_logprobs", "weight", "epsilon"),
        "win_share": ("reward", "ref_reward"),
        "pass_at_2": ("reward", "pass_reward"),
    }
    penalty = definition.optional_inputs(column_info.get("non_score_reward"))
    assert penalty == ("token_rewards", "logprobs", "ref_logprobs", "kl_coef", "kl_estimator")


def samples() -> list[Sample]:
    """Four samples with all arrays; token rewards are left out, so that nothing is derived from them."""
    chance = np.random.default_rng(0)
    return [{name: -chance.exponential(size=5) for name in ARRAYS} for _ in range(4)]


def bad_samples() -> Iterator[tuple[str, list[Sample]]]:
    """The samples, the third with a bad number in one of its arrays."""
    for name in ARRAYS:
        for number in (math.nan, math.inf, -math.inf):
            found = samples()
            found[2][name][1] = number
            yield name, found


def step(found: list[Sample]) -> StepRows:
    columns = reduce_tokens(found, {}, USUAL_CONSTANTS)
    columns |= derive_columns(columns)
    return StepRows(np.zeros(len(found), int), columns.__getitem__, USUAL_CONSTANTS)


def test_a_sample_with_a_bad_number_at_a_token_has_no_value() -> None:
    whole = reduce_tokens(samples())
    for name, found in bad_samples():
        columns = reduce_tokens(found)
        for m in TOKENS:
            for column in m.columns.values():
                if column.endswith("_count") or column not in whole:
                    continue
                token_alone = name in UNSCORED and not column.endswith("_sum")
                pooled_alone = name in UNSCORED and "sum" not in m.reductions
                finite = [True, True, name not in m.needs or token_alone or pooled_alone, True]
                assert np.isfinite(columns[column]).tolist() == finite, (column, name)


def test_a_sample_with_a_bad_number_at_a_token_is_left_out_of_a_step() -> None:
    """But for logprobs, of which the token alone is left out, as a token outside of the loss is."""
    without = step([one for index, one in enumerate(samples()) if index != 2])
    shorter = samples()
    shorter[2] = {name: np.delete(array, 1) for name, array in shorter[2].items()}
    without_token = step(shorter)
    used = set()
    for name, found in bad_samples():
        rows, wanted = step(found), without_token if name in UNSCORED else without
        for m in POOLED:
            if name in definition.inputs(m):
                used.add(m.name)
                assert rows.value(m.name) == pytest.approx(wanted.value(m.name)), (m.name, name)
    assert used == {m.name for m in POOLED}


def test_a_bad_number_outside_the_loss_mask_does_not_matter() -> None:
    mask = np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    whole = reduce_tokens([one | {"loss_mask": mask} for one in samples()])
    for _, found in bad_samples():
        masked = reduce_tokens([one | {"loss_mask": mask} for one in found])
        for column, values in whole.items():
            np.testing.assert_allclose(masked[column], values, err_msg=column)


def test_a_sample_without_an_array_or_with_one_of_another_length_has_no_value() -> None:
    whole = reduce_tokens(samples())
    for name in ("ref_logprobs", "rollout_logprobs", "values", "entropy"):
        for other in ({}, {name: np.zeros(4)}):
            found = samples()
            found[2] = {key: array for key, array in found[2].items() if key != name} | other
            columns = reduce_tokens(found)
            for m in TOKENS:
                pair_of_unequal_lengths = len(m.needs) > 1 or not other
                for column in m.columns.values():
                    if column in whole and name in m.needs and pair_of_unequal_lengths:
                        assert np.isfinite(columns[column]).tolist() == [True, True, False, True], column


def test_a_sample_outside_the_loss_has_no_value() -> None:
    found = reduce_tokens(
        [one | {"loss_mask": np.full(5, float(at != 2))} for at, one in enumerate(samples())]
    )
    for m in TOKENS:
        for column in m.columns.values():
            if column in found:
                assert np.isfinite(found[column]).tolist() == [True, True, False, True], column


def test_a_bad_number_is_missing_at_its_own_token_alone() -> None:
    [sample, *_] = samples()
    sample["ref_logprobs"][1] = math.nan
    found = token_values(sample)
    for name in ("log_ratio", "kl_k2", "kl_k3", "kl_rllb", "ref_logprob", "ref_prob"):
        assert np.isfinite(found[name]).tolist() == [True, False, True, True, True], name
