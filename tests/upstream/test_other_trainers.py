"""Files of other frameworks' own writers, executed at pinned releases, are read with the batch's values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from tests.upstream.reading import read, splits, table

Written = Callable[[str], Path]


def test_areals_groups_are_whole_and_their_step_is_the_folders_version(written: Written) -> None:
    """A response without tokens, and a task that the workflow rejected, are not dumped."""
    frame, samples = read(written("areal.tasks") / "rollout")
    assert table(frame, "step", "group", "reward", "head_version") == [
        (2, "17", 0.0, 1.0), (2, "17", 1.0, 1.0), (2, "18", 0.0, 2.0), (2, "18", 1.0, 2.0),
    ]  # fmt: skip
    assert {(each.prompt, each.response) for each in samples} == {("2 + 2?", "4"), ("2 + 2?", "five")}


# -- SkyRL ---------------------------------------------------------------------------------------------


@pytest.mark.case("SkyRL", "evaluation")
@pytest.mark.case("SkyRL", "resume")
def test_skyrls_evaluations_are_samples_of_their_step(written: Written) -> None:
    """The resumed run writes the evaluation of step 5 again."""
    folder = written("skyrl.evaluations")
    assert splits(folder) == {"eval": 6}
    frame, samples = read(folder, "eval")
    assert table(frame, "step", "reward", "finish_reason") == [
        (step, reward, reason) for step in (5, 10)
        for reward, reason in ((0.0, "stop"), (0.75, "length"), (1.0, "stop"))
    ]  # fmt: skip
    assert {(each.prompt, each.response) for each in samples} == {
        ("2 + 2?", "4"), ("2 + 2?", "five"), ("月?", "moon"),
    }  # fmt: skip


@pytest.mark.case("SkyRL", "data sets")
def test_skyrls_data_sets_are_told_apart(written: Written) -> None:
    frame, _ = read(written("skyrl.evaluations"), "eval")
    assert frame.groupby("data_source").size().to_dict() == {"math/x": 4, "unknown": 2}


# -- ms-swift ------------------------------------------------------------------------------------------

#: A step's four samples of the tables: reward and advantage.
STEP = [(0.0, -0.5)] * 3 + [(1.0, 1.5)]


@pytest.mark.parametrize(("name", "steps"), [("ms_swift.hf", (1, 2)), ("ms_swift.megatron", (0, 1))])
def test_swift_counts_each_step_of_training_once(written: Written, name: str, steps: tuple[int, int]) -> None:
    """The HF trainer writes the last table again at the end of training."""
    frame, samples = read(written(name))
    training = [each.prompt == "2 + 2?" for each in samples]
    expected = [(step, *values) for step in steps for values in STEP]
    assert table(frame[training], "step", "reward", "advantage") == expected
    assert frame[training]["rewards/Format"].sum() == 2.0
    said = {each.response for each in samples if each.prompt == "2 + 2?"}
    assert said == {"4 in step 1", "4 in step 2", "five", "six"}


def test_swifts_ray_trainer_writes_a_line_for_each_sample(written: Written) -> None:
    frame, samples = read(written("ms_swift.ray"))
    assert table(frame, "step", "reward") == [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]
    assert {each.response for each in samples} == {"4", "5"}


# -- TRL -----------------------------------------------------------------------------------------------


@pytest.mark.case("TRL", "resume")
def test_a_file_that_trl_writes_again_replaces_the_lost_step(written: Written) -> None:
    frame, samples = read(written("trl.completions") / "completions")
    assert table(frame[frame["step"] == 3], "rewards/right", "rewards/short", "advantage", "level") == [
        (0.0, 0.0, -0.5, "easy"), (0.0, 0.0, -0.5, "easy"), (0.0, 1.0, -0.5, "easy"), (1.0, 1.0, 1.5, "easy"),
    ]  # fmt: skip
    assert {each.response for each in samples if each.step == 3} == {"6", "five", "six"}


# -- tinker-cookbook -----------------------------------------------------------------------------------


@pytest.mark.case("tinker-cookbook", "evaluation")
@pytest.mark.case("tinker-cookbook", "resume")
def test_tinkers_summaries_are_samples_without_texts(written: Written) -> None:
    """An iteration that is written again replaces the lost one."""
    folder = written("tinker_cookbook.summaries")
    frame, samples = read(folder)
    assert table(frame, "step", "group", "reward") == [
        (step, group, total) for step in (0, 1) for group, total in
        (("0", 0.25), ("0", 1.25), ("1", 0.5), ("1", 1.5))
    ]  # fmt: skip
    assert {each.step for each in samples} == {0, 1}
    assert splits(folder) == {"train": 8, "eval": 16}


@pytest.mark.case("tinker-cookbook", "data sets")
def test_tinkers_data_sets_have_groups_of_their_own(written: Written) -> None:
    with rlpanel.open_run(written("tinker_cookbook.summaries"), follow=False) as run:
        groups = run.split("eval").groups(1)
    assert groups.set_index("group")["samples"].to_dict() == dict.fromkeys(
        ("aime:0", "aime:1", "gsm8k:0", "gsm8k:1"), 2
    )


# -- OpenRLHF ------------------------------------------------------------------------------------------


@pytest.mark.case("OpenRLHF, hook", "masked")
@pytest.mark.case("OpenRLHF, hook", "resume")
def test_openrlhfs_advantages_and_masks_are_those_of_the_trainer(written: Written) -> None:
    frame, samples = read(written("openrlhf.experiences"))
    assert table(frame, "step", "group", "reward", "truncated") == [
        (step, "0", reward, truncated) for step in (1, 2) for reward, truncated in ((0.0, 1.0), (1.0, 0.0))
    ]  # fmt: skip
    tool = next(each for each in samples if each.reward == 1.0)
    assert (tool.response, tool.response_tokens) == ("4!", list("4ok!"))
    assert tool.loss_mask is not None
    assert tool.loss_mask.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert list(tool.images) == [{"url": "a/b.png"}]
    # Advantage: 1/√2 at the last token, minus 0.1 × KL (0.5) at each token of the policy from here on.
    np.testing.assert_allclose(tool.advantages[[0, 3]], np.array([-0.1, -0.05]) + 0.5**0.5, atol=1e-6)
    np.testing.assert_allclose(tool.ref_logprobs, np.array([-0.6, -0.5, -0.5, -0.7]), atol=1e-6)
    np.testing.assert_allclose(tool.rollout_logprobs, np.array([-0.11, -0.01, -0.01, -0.21]), atol=1e-6)
