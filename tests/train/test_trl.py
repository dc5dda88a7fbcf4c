"""Real training with TRL: recordings reproduce the trainers' logged values and do not change training."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlpanel import open_run
from tests.train.conftest import QUIET, ROOT, TRAIN, Trained, finish, lines, logged, rollouts, start, train
from tests.waiting import wait_until

Rows = list[dict[str, Any]]


def by_step(rows: Rows, value: Callable[[Rows], float]) -> dict[int, float]:
    steps: dict[int, Rows] = defaultdict(list)
    for row in rows:
        steps[row["step"]].append(row)
    return {step: value(steps[step]) for step in sorted(steps)}


def flat(rows: Rows, key: str) -> np.ndarray:
    return np.concatenate([row[key] for row in rows])


def log_ratio(rows: Rows) -> np.ndarray:
    return flat(rows, "logprobs") - flat(rows, "ref_logprobs")


def k3(rows: Rows) -> float:
    d = log_ratio(rows)
    return float(np.mean(np.exp(-d) - 1 + d))


def over_micro_batches(value: Callable[[Rows], float]) -> Callable[[Rows], float]:
    def mean(rows: Rows) -> float:
        parts = defaultdict(list)
        for row in rows:
            parts[row["micro_batch"]].append(row)
        return float(np.mean([value(part) for part in parts.values()]))

    return mean


def agree(ours: dict[int, float], theirs: dict[int, float], tolerance: float) -> None:
    assert list(ours) == list(theirs)
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=tolerance, atol=tolerance)


def column_by_step(steps: pd.DataFrame, column: str) -> dict[int, float]:
    return dict(zip(steps["step"], steps[column], strict=True))


def check_rewards(folder: Path, steps: pd.DataFrame) -> None:
    """Compare the store's values of the rows with those that TRL logged."""
    for column, key in (
        ("reward_mean", "reward"),
        ("reward_std", "reward_std"),
        ("rewards/score_letters_mean", "rewards/score_letters/mean"),
        ("rewards/score_length_std", "rewards/score_length/std"),
        ("response_tokens_mean", "completions/mean_length"),
        ("response_tokens_max", "completions/max_length"),
        ("truncated_mean", "completions/clipped_ratio"),
    ):
        agree(column_by_step(steps, column), logged(folder, key), 1e-6)


def test_grpo_rows_are_what_trl_logged(grpo: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = grpo
    with open_run(folder / "run", follow=False) as run:
        check_rewards(folder, run.steps)
        agree(column_by_step(run.steps, "kl_k3_micro"), logged(folder, "kl"), 2e-6)
        agree(column_by_step(run.steps, "entropy_micro"), logged(folder, "entropy"), 4e-6)
    agree(by_step(rollouts(folder), over_micro_batches(k3)), logged(folder, "kl"), 2e-6)
    entropy = over_micro_batches(lambda rows: float(np.mean(flat(rows, "entropy"))))
    agree(by_step(rollouts(folder), entropy), logged(folder, "entropy"), 4e-6)


def test_losses_are_the_same_with_and_without_recording(
    grpo: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _, recorded = grpo
    assert train("grpo", tmp_path, record=False)["losses"] == recorded["losses"]


def test_the_trainer_is_left_as_it_was(grpo: tuple[Path, dict[str, Any]]) -> None:
    assert grpo[1]["left"] == []


def test_pieces_of_tokens_are_the_response(grpo: tuple[Path, dict[str, Any]]) -> None:
    rows = rollouts(grpo[0])
    texts = ["".join(row["response_tokens"]).removesuffix("<|eos|>") for row in rows]
    assert texts == [row["response"] for row in rows]
    assert all(len(row["response_tokens"]) == len(row["logprobs"]) for row in rows)
    assert {len(row["response_tokens"]) for row in rows} > {12}  # responses have several lengths


def test_a_group_is_one_prompt_and_its_advantages_are_its_rewards(grpo: tuple[Path, dict[str, Any]]) -> None:
    for _, group in pd.DataFrame(rollouts(grpo[0])).groupby(["step", "group"]):
        assert (len(group), group["prompt"].nunique()) == (4, 1)
        wanted = (group["reward"] - group["reward"].mean()) / (group["reward"].std(ddof=1) + 1e-4)
        np.testing.assert_allclose(group["advantage"], wanted, atol=1e-3)


def test_columns_of_the_data_set_come_along(grpo: tuple[Path, dict[str, Any]]) -> None:
    row = rollouts(grpo[0])[0]
    assert row["ground_truth"].startswith("truth ")
    assert row["level"] in (0, 1, 2)


def test_rloo_rows_are_what_trl_logged(trained: Trained) -> None:
    folder, _ = trained("rloo")
    with open_run(folder / "run", follow=False) as run:
        check_rewards(folder, run.steps)
        agree(column_by_step(run.steps, "kl_k1_pooled"), logged(folder, "kl"), 1e-6)
    k1 = by_step(rollouts(folder), lambda rows: float(np.mean(log_ratio(rows))))
    agree(k1, logged(folder, "kl"), 1e-6)
    rows = pd.DataFrame(rollouts(folder))
    penalty = [sum(lp) - sum(ref) for lp, ref in zip(rows["logprobs"], rows["ref_logprobs"], strict=True)]
    rows["q"] = rows["reward"] - 0.1 * np.array(penalty)
    others = (rows.groupby("group")["q"].transform("sum") - rows["q"]) / 3
    np.testing.assert_allclose(rows["advantage"], rows["q"] - others, atol=5e-6)


def test_ppo_rows_are_what_trl_logged(trained: Trained) -> None:
    folder, _ = trained("ppo")
    rows = rollouts(folder)
    kl = by_step(rows, lambda some: float(np.mean([log_ratio([row]).sum() for row in some])))
    agree(kl, logged(folder, "objective/kl"), 5e-6)
    agree(
        by_step(rows, lambda some: float(np.mean([row["reward"] for row in some]))),
        logged(folder, "objective/scores"),
        1e-6,
    )
    agree(
        by_step(rows, lambda some: float(np.mean([-sum(row["logprobs"]) for row in some]))),
        logged(folder, "objective/entropy"),
        2e-6,
    )
    assert {row["truncated"] for row in rows} == {True, False}
    for row in rows:
        wanted = row["reward"] - 0.1 * log_ratio([row]).sum()
        assert sum(row["token_rewards"]) == pytest.approx(wanted, abs=2e-5)
        assert row["returns"] == pytest.approx(gae_returns(row), abs=2e-5)


def gae_returns(row: dict[str, Any], gamma: float = 1.0, lam: float = 0.95) -> list[float]:
    """Compute returns by the textbook's recursion, with the slot after the last token as in TRL."""
    rewards, values = list(row["token_rewards"]), list(row["values"])
    if "terminal_reward" in row:
        rewards[-1] -= row["terminal_reward"]
        rewards, values = [*rewards, row["terminal_reward"]], [*values, row["terminal_value"]]
    advantage, found = 0.0, []
    for at in reversed(range(len(rewards))):
        following = values[at + 1] if at + 1 < len(values) else 0.0
        advantage = rewards[at] + gamma * following - values[at] + gamma * lam * advantage
        found.append(advantage + values[at])
    return found[::-1][: len(row["values"])]


@pytest.mark.case("TRL, recorded", "ranks")
def test_two_processes_are_watched_while_they_train(tmp_path: Path) -> None:
    process: subprocess.Popen[str] = start("grpo", tmp_path, processes=2, max_steps=12, num_generations=8)
    try:
        wait_until(lambda: list(tmp_path.glob("run/*.jsonl")), timeout=90, message="a rank's file")
        with open_run(tmp_path / "run") as run:
            wait_until(lambda: run.stats().ranks == 2, timeout=60, message="rows of both ranks")
            seen, alive = run.stats().steps, process.poll() is None
            finish(process, tmp_path)
            wait_until(lambda: run.stats().rows == 12 * 16, message="all rows")
            check_rewards(tmp_path, run.steps)
    finally:
        process.kill()
    assert alive
    assert seen < 12
    rows = rollouts(tmp_path)
    # A group of eight spans both ranks, in micro-batches of four.
    assert pd.DataFrame(rows).groupby(["step", "group"]).size().unique().tolist() == [8]
    agree(by_step(rows, over_micro_batches(k3)), logged(tmp_path, "kl"), 3e-6)


def test_a_generation_of_several_passes_is_one_set_of_rows(tmp_path: Path) -> None:
    train("grpo", tmp_path, num_iterations=2, max_steps=6, save_strategy="steps", save_steps=4)
    rows = rollouts(tmp_path)
    assert sorted(by_step(rows, len)) == [1, 3, 5]
    ratio = np.exp(flat(rows, "new_logprobs") - flat(rows, "logprobs"))
    assert np.abs(ratio - 1).max() > 1e-3  # the second pass uses another policy
    by_reward = by_step(rows, lambda some: float(np.mean([row["reward"] for row in some])))
    agree(by_reward, {step: logged(tmp_path, "reward")[step] for step in (1, 3, 5)}, 1e-6)
    # After resuming, the steps after the checkpoint are repeated, in a later session.
    resumed = tmp_path / "output" / "checkpoint-4"
    train("grpo", tmp_path, num_iterations=2, max_steps=6, resume=str(resumed))
    again = rollouts(tmp_path)[len(rows) :]
    assert sorted(by_step(again, len)) == [5]
    assert {row["session"] for row in again} != {row["session"] for row in rows}
    assert max(row["session"] for row in rows) < min(row["session"] for row in again)


@pytest.mark.case("TRL, recorded", "resume")
def test_a_killed_run_that_resumes_counts_each_sample_once(tmp_path: Path) -> None:
    """The first session is killed at any moment, steps after its last checkpoint."""
    checkpoint = tmp_path / "output" / "checkpoint-4"
    process = start("grpo", tmp_path, max_steps=400, save_strategy="steps", save_steps=4)
    try:
        wait_until((checkpoint / "trainer_state.json").exists, timeout=90, message="a checkpoint")
        wait_until(lambda: recorded_step(tmp_path) >= 6, timeout=60, message="steps after it")
    finally:
        process.kill()
        process.communicate()
    reached = recorded_step(tmp_path)
    train("grpo", tmp_path, max_steps=reached + 2, save_strategy="no", resume=str(checkpoint))
    with open_run(tmp_path / "run", follow=False) as run:
        samples = run.samples()
    assert samples.groupby("step").size().to_dict() == dict.fromkeys(range(1, reached + 3), 8)
    resumed = samples[samples.step > 4]
    assert resumed.session.nunique() == 1
    assert resumed.session.iloc[0] not in set(samples[samples.step <= 4].session)


def recorded_step(folder: Path) -> int:
    """Return the last step of which a complete line was recorded; 0 for none."""
    written = [
        line
        for path in (folder / "run").glob("*rank_0.jsonl")
        for line in path.read_text("utf-8").split("\n")
    ]
    return json.loads(written[-2])["step"] if len(written) > 1 else 0


def test_a_script_is_recorded_without_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "true")
    monkeypatch.setenv("EXP_NAME", "exp1")
    job = [TRAIN / "bin" / "python", "-m", "rlpanel.recording", ROOT / "tests" / "train" / "job.py"]
    options = json.dumps({"record": False, "max_steps": 2})
    environment = os.environ | QUIET | {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        [*job, "grpo", str(tmp_path), options], env=environment, check=True, capture_output=True, timeout=100
    )
    rows = lines(tmp_path / "output" / "rollout_samples" / "exp1" / "rollout_data_rank_0.jsonl")
    assert by_step(rows, len) == {1: 8, 2: 8}


@pytest.mark.case("TRL, recorded", "masked")
def test_a_truncated_sample_that_trl_masks_is_not_in_the_loss(tmp_path: Path) -> None:
    train("grpo", tmp_path, max_steps=2, mask_truncated_completions=True)
    rows = rollouts(tmp_path)
    cut = [row for row in rows if row["truncated"]]
    assert 0 < len(cut) < len(rows)
    assert {any(row["loss_mask"]) for row in cut} == {False}
    assert {any(row.get("loss_mask", [1])) for row in rows if not row["truncated"]} == {True}


@pytest.mark.case("TRL, recorded", "evaluation")
def test_evaluation_is_a_run_of_its_own(tmp_path: Path) -> None:
    train("grpo", tmp_path, max_steps=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=4)
    evaluated = lines(tmp_path / "run" / "eval" / "rollout_data_rank_0.jsonl")
    assert {row["split"] for row in evaluated} == {"eval"}
    assert len(rollouts(tmp_path)) == 2 * 8
    scores = by_step(evaluated, lambda some: float(np.mean([row["reward"] for row in some])))
    agree(scores, logged(tmp_path, "eval_reward"), 1e-6)


def test_a_tool_run_is_recorded_as_a_conversation(trained: Trained) -> None:
    folder, _ = trained("tools")
    rows = rollouts(folder)
    called = [row for row in rows if row["rewards"]["score_calls"]]
    plain = [row for row in rows if not row["rewards"]["score_calls"]]
    assert (len(called), len(plain)) == (8, 8)
    for row in called:
        assert [message["role"] for message in row["messages"]] == [
            "system", "user", "assistant", "tool", "assistant",
        ]  # fmt: skip
        assert row["prompt_messages"] == 2
        said = [token for token, bit in zip(row["response_tokens"], row["loss_mask"], strict=True) if bit]
        assert row["response"] == "".join(said)
        assert row["response"].count("<|im_end|>") == 2
        assert "tool_response" not in row["response"]
        assert row["response_length"] == len(said) < len(row["response_tokens"])
    assert {row["response"] for row in plain} == {"4"}
    assert all(row["loss_mask"] == [1] * len(row["response_tokens"]) for row in plain)
    with open_run(folder / "run", follow=False) as run:
        sample = run.sample(run.samples()["uid"][rows.index(called[0])])
        lengths = run.samples().set_index("uid").trajectory_tokens
        assert sorted(run.samples().turns) == [1.0] * 8 + [2.0] * 8
        assert run.samples()["tool_calls.add"].sum() == 8
        read = [run.sample(uid) for uid in lengths.index]
    assert lengths.tolist() == [len(each.response_tokens or ()) for each in read]
    assert sample.messages[2]["tool_calls"] == [{"name": "add", "arguments": '{"a": 2, "b": 2}'}]
    assert sample.messages[3]["content"] == "4"
    with open_run(folder / "output" / "completions", follow=False) as run:
        parquet = [run.sample(uid) for uid in run.samples()["uid"]]
    assert [each.reward for each in parquet].count(1.0) == 8
    logged = next(each for each in parquet if each.reward)
    assert logged.response == (
        '[assistant] [call] add({"a": 2, "b": 2})\n[tool] 4\n[assistant] The sum is 4.'
    )
    assert logged.messages[2]["tool_calls"] == sample.messages[2]["tool_calls"]


def test_a_group_of_online_dpo_is_the_two_answers_to_one_prompt(tmp_path: Path) -> None:
    train("online_dpo", tmp_path)
    groups = defaultdict(list)
    for row in rollouts(tmp_path):
        groups[row["group"]].append(row["prompt"])
    assert len(groups) == 2 * 4
    assert all(len(prompts) == 2 and len(set(prompts)) == 1 for prompts in groups.values())
