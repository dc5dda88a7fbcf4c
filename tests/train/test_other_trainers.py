"""Real training of trainers that differ from TRL's GRPO: what is recorded, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel import open_run
from tests.train.conftest import Trained, lines, logged, rollouts, train
from tests.train.test_trl import agree, by_step, column_by_step, over_micro_batches


def warnings(folder: Path) -> list[str]:
    """What the recorder said on standard error."""
    return [line for line in (folder / "stderr").read_text().splitlines() if line.startswith("rlpanel: ")]


def gaps(rows: list[dict[str, Any]]) -> np.ndarray:
    """Logarithms of trainer's over engine's probability of the tokens in the loss."""
    return np.concatenate(
        [
            np.subtract(row["logprobs"], row["rollout_logprobs"])[np.array(row["loss_mask"], bool)]
            for row in rows
        ]
    )


def test_async_grpo_is_recorded_from_its_queue(trained: Trained) -> None:
    folder, _ = trained("async")
    assert warnings(folder) == []
    rows = rollouts(folder)
    used = [row for row in rows if "split" not in row]
    assert by_step(used, len) == dict.fromkeys(range(1, 5), 8)
    agree(
        by_step(used, over_micro_batches(lambda part: float(np.mean(np.exp(gaps(part)))))),
        logged(folder, "ratio"),
        1e-6,
    )
    entropy = over_micro_batches(
        lambda part: float(np.mean(np.concatenate([row["entropy"] for row in part])))
    )
    agree(by_step(used, entropy), logged(folder, "entropy"), 1e-6)
    for row in used:
        assert row["response_length"] == len(row["response_tokens"]) == sum(row["loss_mask"])
        assert row["reward"] == pytest.approx(sum(row["rewards"].values()))
        assert row["response"] == "".join(row["response_tokens"]).removesuffix("<|eos|>")
        assert row["truncated"] == (not row["response_tokens"][-1].endswith("<|eos|>"))


def test_the_staleness_of_async_grpo_is_known_and_what_it_dropped_is_not_trained(trained: Trained) -> None:
    folder, _ = trained("async")
    with open_run(folder / "run", follow=False) as run:
        samples = run.samples()
        trained_on = samples[samples.split == "train"]
        # The weights are sent after each step, so a sample of step s is trained on by version s.
        assert trained_on.trainer_version.tolist() == trained_on.step.tolist()
        assert (trained_on.lag == trained_on.step - trained_on.policy_version_min).all()
        agree(column_by_step(run.steps, "engine_kl"), logged(folder, "kl"), 0.02)  # pooled over micro-batches
        dropped = run.split("discarded").samples()
    assert len(dropped) == sum(logged(folder, "sample/dropped_stale_total").values()) == 8
    assert set(dropped.status_reason) == {"5 versions old, max_staleness is 4"}


def test_a_group_of_async_grpo_is_one_prompt_and_its_advantages_are_its_rewards(trained: Trained) -> None:
    rows = rollouts(trained("async")[0])
    groups = {row["group"]: [each for each in rows if each["group"] == row["group"]] for row in rows}
    for group in groups.values():
        rewards = np.array([row["reward"] for row in group])
        wanted = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        np.testing.assert_allclose([row["advantage"] for row in group], wanted, atol=1e-6)
        assert (len(group), len({row["prompt"] for row in group})) == (4, 1)


@pytest.mark.parametrize("trainer", ["async", "elsewhere", "unsloth"])
def test_training_is_the_same_without_recording(trainer: str, trained: Trained, tmp_path: Path) -> None:
    _, recorded = trained(trainer)
    assert recorded["left"] == []
    assert train(trainer, tmp_path, record=False)["losses"] == recorded["losses"]


def test_a_trainer_that_cannot_be_recorded_trains_on_and_says_so(trained: Trained) -> None:
    folder, found = trained("elsewhere")
    assert len(found["losses"]) == 4
    assert warnings(folder) == [
        "rlpanel: no rollouts of this Elsewhere are recorded, only its scalars: "
        "RuntimeError: rewards are computed elsewhere"
    ]
    assert list(logged(folder, "loss")) == [1, 2, 3, 4]


def test_a_compiled_trainer_is_recorded_and_says_what_its_rows_lack(trained: Trained) -> None:
    folder, _ = trained("unsloth")
    lacking = (
        "this UnslothGRPOTrainer computes its loss without _get_per_token_logps_and_entropies: "
        "no logprobs, no entropies"
    )
    assert warnings(folder) == [f"rlpanel: {lacking}"]
    facts = json.loads((folder / "run" / "run.json").read_text())
    assert (facts["algo"], facts["not_recorded"]) == ("grpo", lacking)
    rows = rollouts(folder)
    assert by_step(rows, len) == dict.fromkeys(range(1, 5), 8)
    assert {row["micro_batch"] for row in rows} == {0, 1}
    assert not any("logprobs" in row or "entropy" in row for row in rows)
    assert all(len(row["ref_logprobs"]) == len(row["response_tokens"]) for row in rows)
    with open_run(folder / "run", follow=False) as run:
        agree(column_by_step(run.steps, "reward_mean"), logged(folder, "reward"), 1e-6)


def test_rows_that_do_not_pass_through_the_loss_are_recorded_and_that_is_said_once(trained: Trained) -> None:
    folder, _ = trained("selective")
    assert warnings(folder) == [
        "rlpanel: this SelectiveGRPOTrainer trains without the batches of _generate_and_score_completions in "
        "its compute_loss: no logprobs, no entropies"
    ]
    assert by_step(rollouts(folder), len) == dict.fromkeys(range(1, 5), 8)


@pytest.mark.parametrize("mode", ["sequence_mask", "token_truncate"])
def test_the_ratio_that_the_loss_used_with_vllm_is_recorded(mode: str, trained: Trained) -> None:
    folder, _ = trained("vllm", vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_max=1.5)
    rows = rollouts(folder)
    facts = json.loads((folder / "run" / "run.json").read_text())
    assert (facts["vllm_importance_sampling_mode"], facts["vllm_importance_sampling_clip_max"]) == (mode, 1.5)
    column = "importance_sampling_ratio" + "_mean" * (mode == "token_truncate")
    agree(
        by_step(rows, lambda some: float(np.mean([row[column] for row in some]))),
        logged(folder, "sampling/importance_sampling_ratio/mean"),
        1e-6,
    )
    for (
        row
    ) in rows:  # without the cap, it follows from the logprobs; a token that vLLM did not score counts 1
        gap = np.nan_to_num(np.array(row["logprobs"], float) - np.array(row["rollout_logprobs"], float))
        if mode == "sequence_mask":
            ratio = np.exp(gap.sum())
            assert row[column] == pytest.approx(ratio if ratio <= 1.5 else 0.0, rel=1e-4)
        else:
            assert row[column] == pytest.approx(np.minimum(np.exp(gap), 1.5).mean(), rel=1e-4)


def test_a_token_that_vllm_could_not_score_costs_that_token_alone(trained: Trained) -> None:
    folder, _ = trained("vllm")
    rows = rollouts(folder)
    assert sum(None in row["rollout_logprobs"] for row in rows) == 8
    gap = {
        row["response"]: np.array(row["logprobs"], float) - np.array(row["rollout_logprobs"], float)
        for row in rows
    }
    with open_run(folder / "run", follow=False) as run:
        samples = run.samples()
        texts = [run.sample(uid).response for uid in samples["uid"]]
    np.testing.assert_allclose(
        samples.engine_log_ratio_mean, [np.nanmean(gap[text]) for text in texts], atol=1e-6
    )
    assert samples.unscored_rollout_logprobs.sum() == 8
    steps = {row["step"] for row in lines(folder / "run" / "scalars.jsonl") if "kl" in row}
    assert steps == {1, 2, 3, 4}
