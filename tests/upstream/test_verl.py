"""verl's dump of training and validation, and rlpanel's hook in its trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.metrics.engine.trainer_names import TABLE
from rlpanel.panels.curves.trainer_scalars import comparisons
from tests.upstream.reading import read, table

Written = Callable[[str], Path]


def test_verls_padding_rows_are_no_samples(written: Written) -> None:
    frame, samples = read(written("verl.dump") / "rollout")
    assert table(frame, "step", "group", "reward")[:4] == [
        (1, "a1", 0.0), (1, "a1", 1.0), (1, "b2", 0.5), (1, "b2", 0.5),
    ]  # fmt: skip
    assert len(frame) == 12
    assert {(each.prompt, each.response, each.ground_truth) for each in samples} >= {("2 + 2?", "4 🙂", "4")}


#: The rows of `verl_trainer.SESSIONS` as recorded: group, session, turn, reward, newest weights' version,
#: response, all its tokens, loss mask, and the first token's place in the sequence.
VERL_ROWS = [
    ("a_1", 0, 0, 1.0, 2, "add 2 2", "add 2 2", None, 6),
    ("a_1", 0, 1, 1.0, 2, "4 🙂", "4 🙂", [1, 1, 0], 15),
    ("a_1", 1, 0, 0.0, 3, "f()", "f()ok", [1, 1, 1, 0, 0], 6),
    ("b_2", 0, 0, 0.5, 2, "f()!", "f()ok!", [1, 1, 1, 0, 0, 1], 2),
    ("b_2", 1, 0, 0.5, 3, "sun", "sun", [0, 0, 0], 2),
]
VERL_COLUMNS = ("group", "rollout_session", "turn", "reward", "max_global_steps")


def test_the_hook_records_verls_samples_with_session_turn_and_versions(written: Written) -> None:
    frame, _ = read(written("verl.hook") / "recorded")
    assert table(frame, *VERL_COLUMNS) == [row[:5] for row in VERL_ROWS], "no rows that pad the batch"
    assert set(frame["step"]) == {3}
    assert set(frame["min_global_steps"]) == {1.0}
    assert set(frame["lag"]) == {1.0}, "verl's own staleness: global_steps - 1 - min_global_steps"
    dumped, _ = read(written("verl.hook") / "dump")
    assert table(dumped, *VERL_COLUMNS[:4]) == table(frame, *VERL_COLUMNS[:4]), "verl's own dump"


def test_the_hook_records_verls_tokens_masks_and_advantages(written: Written) -> None:
    """Masked are a tool's tokens, and those that verl's rejection sampling takes from the loss."""
    frame, samples = read(written("verl.hook") / "recorded")
    order = frame.sort_values(["group", "rollout_session", "turn"]).index
    advantages = [0.5**0.5, 0.5**0.5, -(0.5**0.5), 0.0, 0.0]  # of each session's last output
    for at, row, advantage in zip(order, VERL_ROWS, advantages, strict=True):
        sample, response, tokens, mask, first = samples[at], *row[5:]
        assert (sample.response, sample.response_tokens) == (response, list(tokens))
        arrays = sample.arrays()
        assert arrays["response_token_ids"].tolist() == [ord(token) for token in tokens]
        assert mask == (arrays["loss_mask"].tolist() if "loss_mask" in arrays else None)
        places = np.arange(first, first + len(tokens))
        np.testing.assert_allclose(arrays["logprobs"], -0.01 * places, atol=1e-6)
        np.testing.assert_allclose(arrays["ref_logprobs"], -0.02 * places, atol=1e-6)
        np.testing.assert_allclose(arrays["advantages"], advantage * np.array(mask or 1), atol=1e-5)
        np.testing.assert_allclose(arrays["returns"], arrays["advantages"])
        assert set(arrays["entropy"]) == {0.5}
    rejected = samples[order[1]].rollout_logprobs
    assert rejected is not None
    assert rejected.tolist() == [-0.25, -0.25, -5.0]
    assert {sample.prompt for sample in samples} == {"2 + 2?", "2 + 2?add 2 2=4", "月?"}


def test_the_board_compares_its_numbers_with_verls(written: Written) -> None:
    """Each row of the table about verl, on masked tokens of several lengths."""
    rows = [row for row in TABLE if row.trainer == "verl"]
    with rlpanel.open_run(written("verl.metrics"), follow=False) as run:
        found = [comparison for row in rows for comparison in comparisons(run.view, row.number)]
    assert {c.scalar for c in found if c.verdict == "equal" and c.points == 3} == {row.name for row in rows}
    assert {c.scalar for c in found if c.verdict == "differs"} == set()


@pytest.mark.case("verl", "resume")
def test_a_step_that_verl_dumps_again_replaces_the_lost_one(written: Written) -> None:
    frame, samples = read(written("verl.dump") / "rollout")
    assert frame["step"].value_counts().to_dict() == {1: 4, 2: 4, 3: 4}
    assert not [each.response for each in samples if "lost" in (each.response or "")]


@pytest.mark.case("verl", "data sets")
def test_verls_validation_keeps_data_sets_and_prompts_apart(written: Written) -> None:
    with rlpanel.open_run(written("verl.dump") / "validation", follow=False) as run:
        shown = run.split(next(iter(run.splits)))
        assert table(shown.samples(), "data_source", "group")[::4] == [("adventure", "q1"), ("qa", "q2")]
        assert sorted(shown.groups(2)["group"]) == ["q1", "q2"]


@pytest.mark.case("verl, hook", "masked")
def test_a_response_that_verl_rejected_has_no_token_in_the_loss(written: Written) -> None:
    _, samples = read(written("verl.hook") / "recorded")
    (rejected,) = (each for each in samples if each.response == "sun")
    assert rejected.loss_mask is not None
    assert rejected.loss_mask.tolist() == [0, 0, 0]


@pytest.mark.case("verl, hook", "resume")
def test_a_step_that_the_hook_records_again_counts_once(written: Written) -> None:
    assert len(read(written("verl.hook") / "recorded")[0]) == len(VERL_ROWS)
