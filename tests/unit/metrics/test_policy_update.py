"""New and old policy, engine and trainer: two tokens worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.metrics.engine.compute import reduce_tokens, token_values
from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.metrics.engine.segments import StepRows

#: Ratios of 2 and 0.5, and 1.
NEW, OLD = np.log([0.4, 0.2, 0.5]), np.log([0.2, 0.4, 0.5])


def step(name: str, *samples: dict[str, np.ndarray], **constants: float) -> float:
    """A step metric over samples of one step."""
    known = gather_constants({}, constants)
    columns = reduce_tokens(samples, {}, known)
    return float(StepRows(np.zeros(len(samples), int), columns.__getitem__, known).value(name)[0])


UPDATE = {"logprobs": NEW, "old_logprobs": OLD}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("ratio_pooled", 3.5 / 3),
        ("ratio_variance", (4 + 0.25 + 1) / 3 - (3.5 / 3) ** 2),
        ("approxkl", np.log(2) ** 2 / 3),
        ("policykl", 0.0),
    ],
)
def test_an_update_by_hand(name: str, wanted: float) -> None:
    assert step(name, UPDATE) == pytest.approx(wanted)


def test_a_token_counts_as_much_as_another_whatever_its_responses_length() -> None:
    one = {"logprobs": np.zeros(1), "old_logprobs": np.zeros(1)}
    assert step("ratio_pooled", UPDATE, one) == pytest.approx(4.5 / 4)


@pytest.mark.parametrize(
    ("weights", "wanted"), [([1, 1, 1], 1 / 3), ([-1, -1, -1], 1 / 3), ([1, -1, 0], 2 / 3), ([-1, 1, 0], 0)]
)
def test_the_clip_takes_out_what_moved_too_far_the_way_it_was_pushed(
    weights: list[float], wanted: float
) -> None:
    assert step("clipfrac", {**UPDATE, "advantages": np.array(weights, float)}) == pytest.approx(wanted)


def test_the_clip_range_is_a_constant() -> None:
    wide = {**UPDATE, "advantages": np.array([1.0, -1.0, 0.0])}
    assert step("clipfrac", wide, epsilon=0.6) == pytest.approx(1 / 3)
    assert step("clipfrac", wide, epsilon=0.2, epsilon_high=1.5) == pytest.approx(1 / 3)


def test_a_samples_advantage_is_that_of_its_tokens() -> None:
    known = gather_constants({}, {})
    columns = reduce_tokens([UPDATE, UPDATE], {"advantage": np.array([1.0, np.nan])}, known)
    found = StepRows(np.zeros(2, int), columns.__getitem__, known).value("clipfrac")
    assert found[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "streams",
    [
        {"new_logprobs": NEW, "logprobs": OLD},
        {"logprobs": NEW, "old_logprobs": OLD},
        {"new_logprobs": NEW, "old_logprobs": OLD, "logprobs": np.zeros(3)},
    ],
    ids=["after", "before", "both"],
)
def test_whichever_side_of_an_update_was_logged(streams: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(token_values(streams)["ratio"], [2, 0.5, 1])


def test_one_stream_alone_has_no_ratio() -> None:
    assert "ratio" not in token_values({"logprobs": NEW})


ENGINE = {"logprobs": np.log([0.9, 0.2, 0.5]), "rollout_logprobs": np.log([0.3, 0.2, 0.5])}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("engine_mismatch", (3 + 1 + 1) / 3),
        ("engine_kl", (3 - 1 - np.log(3)) / 3),
        ("engine_outside", 1 / 3),
        ("effective_sample_size", 5**2 / (3 * 11)),
    ],
)
def test_the_engine_by_hand(name: str, wanted: float) -> None:
    assert step(name, ENGINE) == pytest.approx(wanted)


def test_a_factor_of_two_is_still_inside() -> None:
    assert step("engine_outside", {"logprobs": np.log([0.4]), "rollout_logprobs": np.log([0.2])}) == 0


def test_an_engine_that_agrees_leaves_all_tokens_in_effect() -> None:
    same = {"logprobs": NEW, "rollout_logprobs": NEW}
    assert (step("engine_mismatch", same), step("effective_sample_size", same)) == (1, 1)
