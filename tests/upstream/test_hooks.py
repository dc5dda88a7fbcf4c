"""Hooks that frameworks' own code calls record the batch's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import Sample
from tests.upstream.process import run_once


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs a framework's code with its hook once and returns the folder."""
    return run_once(tmp_path_factory, "tests.upstream.writers_hooks")


def read(folder: Path, split: str = "train") -> list[Sample]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        shown = run.split(split)
        return [shown.sample(uid) for uid in shown.samples()["uid"]]


def test_skyrls_steps_are_turns_of_their_trajectory(recorded: Any) -> None:
    folder = recorded("skyrl") / "exports" / "rollout_samples" / "exports"
    samples = read(folder)
    found = [(each.step, each.group, each.episode, each.columns["turn"], each.prompt) for each in samples[:3]]
    assert found == [
        (3, "q1", "q1_0", 0, "2 + 2?"),
        (3, "q1", "q1_0", 1, "2 + 2?add(2,2)=4"),
        (3, "q1", "q1_1", 0, "2 + 2?"),
    ]  # fmt: skip
    assert [(each.response, each.reward) for each in samples[:3]] == [("add(2,2)", 0), ("4", 1), ("five", 0)]
    last = samples[1]
    assert last.arrays()["rollout_logprobs"].tolist() == [-0.25, -0.5]
    assert last.arrays()["token_rewards"].tolist() == [0.0, 1.0]
    assert (last.response_tokens, last.finish_reason, last.columns["metrics/calls"]) == (
        ["4", "$"],
        "stop",
        1,
    )
    assert samples[2].truncated == 1


def test_skyrls_prompts_are_those_that_were_sampled(recorded: Any) -> None:
    """SkyRL passes the prompts before dynamic sampling beside the outputs after it."""
    *_, first, second = read(recorded("skyrl") / "exports" / "rollout_samples" / "exports")
    assert {first.prompt, second.prompt} == {"2 + 2?"}
    assert (first.step, first.episode, first.response, first.timing["environment"]) == (4, None, "fie", 0.5)
    assert first.arrays()["loss_mask"].tolist() == [1, 1, 0, 1]


def test_skyrls_evaluations_have_a_row_for_each_trajectory(recorded: Any) -> None:
    folder = recorded("skyrl") / "exports" / "rollout_samples" / "exports"
    samples = read(folder, "eval")
    assert [(each.step, each.episode, each.reward) for each in samples] == [
        (3, "q1_0", 1.0),
        (3, "q1_1", 0.25),
    ]
    assert [each.columns["num_turns"] for each in samples] == [2, 1]


def test_agent_lightnings_requests_are_turns_of_their_rollout(recorded: Any) -> None:
    samples = [each for each in read(recorded("agent_lightning") / "recorded") if each.step == 1]
    found = [(each.group, each.episode, each.columns["turn"], each.reward, each.status) for each in samples]
    assert found == [
        ("d0", "r0", 0, 1.0, "ok"), ("d0", "r0", 1, 1.0, "ok"), ("d0", "r1", 0, 0.0, "truncated"),
    ]  # fmt: skip
    first, second, cut = samples
    assert (first.response, second.response, cut.finish_reason) == ("add(2,2)", "4", "length")
    assert second.prompt == "[user] 2 + 2?\n[assistant] add(2,2)\n[user] =4"
    assert second.arrays()["response_token_ids"].tolist() == [ord("4")]
    assert first.arrays()["rollout_logprobs"].tolist() == [-0.5] * 8
    assert (first.ground_truth, second.timing["start"]) == ("4", 1.5)


def test_agent_lightnings_failed_rollouts_say_why(recorded: Any) -> None:
    folder = recorded("agent_lightning") / "recorded"
    failed = read(folder, "discarded")
    assert [(each.step, each.status, each.status_reason, each.episode) for each in failed] == [
        (step, "environment_error", "the pod was evicted", "r2") for step in (1, 2)
    ]
    assert {each.step for each in read(folder)} == {1, 2}
    assert [each.response for each in read(folder, "eval")] == ["add(2,2)", "4", "five"]


def test_tinkers_turns_are_joined_as_it_trains_them(recorded: Any) -> None:
    samples = read(recorded("tinker") / "recorded")
    found = [
        (each.step, each.group, each.episode, each.prompt, each.response, each.reward) for each in samples
    ]
    assert found == [
        (5, "0", "0-0", "2 + 2?", "add4", 1.25),
        (5, "0", "0-1", "2 + 2?", "a{5", 0.0),
        (5, "1", "1-0", "Name a moon.", "Ti", 1.5),
        (5, "1", "1-0", "Shorter.", "Titan", 1.5),  # its prompt does not continue the turn before
    ]
    tool, masked, *rewritten = samples
    assert tool.response_tokens == list("add$=44$")
    assert tool.arrays()["loss_mask"].tolist() == [1, 1, 1, 1, 0, 0, 1, 1]
    assert tool.arrays()["rollout_logprobs"].tolist() == [-0.25] * 4 + [0.0] * 2 + [-0.25] * 2
    assert masked.arrays()["loss_mask"].tolist() == [0, 0, 0, 1], "a turn that could not be parsed"
    assert [each.columns["turn"] for each in rewritten] == [0, 1]
    assert [(each.finish_reason, each.status) for each in samples[:2]] == [
        ("completed", "ok"), ("max_tokens", "truncated"),
    ]  # fmt: skip
    assert {each.columns["lag"] for each in samples} == {2}


def test_tinkers_evaluations_keep_their_data_sets_apart(recorded: Any) -> None:
    found = read(recorded("tinker") / "recorded", "eval")
    assert [(each.step, each.group, each.response) for each in found] == [
        (4, "aime:0", "add4"), (4, "gsm8k:0", "add4"),
    ]  # fmt: skip
