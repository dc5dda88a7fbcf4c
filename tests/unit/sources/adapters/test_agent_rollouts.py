"""Rollouts of agents as rLLM, SkyRL, tinker-cookbook, NeMo Gym and miles write them.

The files in `tests/data/upstream` were written by the functions of the named commits; those of NeMo Gym are
lines of its example files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models

import rlpanel
from rlpanel.schema import Sample
from rlpanel.sources.pickles.dump_worker import rows
from rlpanel.store.index.run_index import RunIndex

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"
RLLM, SKYRL = UPSTREAM / "rllm-9beb6e0f", UPSTREAM / "skyrl-a9564572e"
TINKER, GYM = UPSTREAM / "tinker-cookbook-9dfcc3a2", UPSTREAM / "nemo-gym-07d6b0d07"
GYM_0_7 = UPSTREAM / "gym-0.7.0"
MILES = UPSTREAM / "miles-31f1ca961"


def samples(folder: Path) -> list[Sample]:
    """All samples of a run without bad lines and unread files, by file and place."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        assert not len(run.unread)
        parts = [run.split(name) for name in run.splits] or [run]
        read = [part.sample(uid) for part in parts for uid in part.samples()["uid"]]
    return sorted(read, key=lambda sample: (sample.file, sample.offset, sample.uid))


def statuses(folder: Path) -> dict[str, list[str]]:
    """Status of each sample by split, as the statistics count them."""
    with rlpanel.open_run(folder, follow=False) as run:
        return {name: run.split(name).samples()["status"].tolist() for name in run.splits}


@pytest.mark.parametrize(
    ("folder", "step", "share"), [(RLLM, 3, 1 / 3), (SKYRL, 5, 1 / 3), (GYM_0_7, 0, 0.4)]
)
def test_a_sample_that_ended_by_itself_counts_in_the_share_of_truncated_ones(
    folder: Path, step: int, share: float
) -> None:
    """A column with ones only has the mean 1 however few samples were cut."""
    with rlpanel.open_run(folder, follow=False) as run:
        steps = run.split(next(iter(run.splits))).steps.set_index("step")
    assert steps.loc[step, "truncated_mean"] == pytest.approx(share)


def spoken(sample: Sample) -> list[tuple[str, str, list[str]]]:
    """Role, content and tool calls of a sample's response."""
    return [_brief(message) for message in sample.messages[sample.prompt_messages :]]


def _brief(message: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    calls = [f"{call['name']} {call['arguments']}" for call in message.get("tool_calls", ())]
    return message["role"], message["content"], calls


def write(path: Path, *documents: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


# -- rLLM ----------------------------------------------------------------------------------------------


def test_rllms_folders_of_steps_are_one_run_beside_its_evaluation() -> None:
    assert sorted((info.name, info.files) for info in rlpanel.discover(RLLM)) == [(".", 4), ("eval_run", 1)]


@pytest.mark.case("rLLM", "evaluation")
def test_each_trajectory_of_an_rllm_episode_is_a_sample_in_its_agents_group() -> None:
    solver, judge, longer, failed, checked = samples(RLLM)
    facts = [
        (each.step, each.split, each.group, each.reward, each.columns["turns"]) for each in (solver, judge)
    ]
    assert facts == [
        (3, "train", "76b25b3d:solver", 1.0, 2.0),
        (3, "train", "76b25b3d:judge", 0.5, 1.0),
    ]
    assert (solver.ground_truth, solver.turn_rewards.tolist()) == ("4", [0.0, 1.0])
    assert longer.group == solver.group
    assert (checked.split, checked.group, checked.status) == ("eval", "35fd3d4c:solver", "timeout")
    assert failed.step == 3


def test_the_steps_of_a_trajectory_are_one_conversation_that_keeps_the_reasoning() -> None:
    solver = samples(RLLM)[0]
    assert solver.prompt == "[system] Use the tool.\n[user] Wie viel ist 2 + 2? 🙂"
    assert spoken(solver) == [
        ("assistant", "", ['add {"a": 2, "b": 2}']),
        ("tool", "4", []),
        ("assistant", "Die Antwort: 4 “四”", []),
    ]
    assert solver.messages[2]["reasoning_content"] == "I add them."


@pytest.mark.case("rLLM", "failure")
def test_an_rllm_episode_that_ended_early_says_why() -> None:
    _, _, longer, failed, _ = samples(RLLM)
    assert (longer.status, longer.finish_reason, longer.truncated, longer.reward) == (
        "truncated", "max_response_length_exceeded", 1.0, 0.0,
    )  # fmt: skip
    assert (failed.status, failed.status_reason) == ("environment_error", "sandbox died: Ünterbrochen")
    assert math.isnan(failed.reward)
    assert (failed.prompt, failed.response) == ("Wie viel ist 2 + 2? 🙂", None)


def test_an_rllm_evaluation_has_step_0_and_the_engines_logprobs() -> None:
    (sample,) = samples(RLLM / "eval_run")
    assert (sample.step, sample.split, sample.group, sample.ground_truth) == (0, "eval", "q1:solver", "4")
    assert (sample.reward, sample.columns["metrics/accuracy"]) == (1.0, 1.0)
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "response_token_ids": [7, 8],
        "rollout_logprobs": [-0.5, -0.25],
    }


@pytest.mark.parametrize(
    ("logged", "prompt", "response"),
    [
        ({"input": "2 + 2?", "output": "4", "reward": 0.5}, "[user] 2 + 2?", "4"),
        ({"observation": "Look.", "model_response": "ok", "thought": "Hm.", "reward": 0.5},
         "[user] Look.", "Hm.\nok"),
    ],
)  # fmt: skip
def test_steps_without_messages_give_what_was_asked_and_said(
    tmp_path: Path, logged: dict[str, Any], prompt: str, response: str
) -> None:
    episode = {
        "training_step": 1, "task": None, "termination_reason": None, "is_correct": False,
        "trajectories": [{"name": "a", "reward": None, "steps": [logged]}],
    }  # fmt: skip
    write(tmp_path / "episode_hash0_id0.json", episode)
    (sample,) = samples(tmp_path)
    assert (sample.prompt, sample.response, sample.reward) == (prompt, response, 0.5)


def rllm_episode(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An episode with one trajectory."""
    return {
        "training_step": 1, "task": None, "termination_reason": "env_done", "is_correct": True,
        "trajectories": [{"name": "a", "reward": 0.0, "steps": list(steps)}],
    } | fields  # fmt: skip


def test_a_turn_whose_thoughts_are_cut_from_later_calls_is_kept_once(tmp_path: Path) -> None:
    asked, tool = {"role": "user", "content": "2 + 2?"}, {"role": "tool", "content": "4"}
    first, cut, last = ({"role": "assistant", "content": text} for text in ("<think>Hm.</think>a", "a", "b"))
    calls = [{"chat_completions": [asked, first]}, {"chat_completions": [asked, cut, tool, last]}]
    write(tmp_path / "episode_hash0_id0.json", rllm_episode(*calls))
    (sample,) = samples(tmp_path)
    assert [content for _, content, _ in spoken(sample)] == ["<think>Hm.</think>a", "4", "b"]


def test_the_reward_of_an_rllm_episode_that_failed_is_not_read(tmp_path: Path) -> None:
    said_nothing = {"chat_completions": [{"role": "user", "content": "2 + 2?"}]}
    failed = rllm_episode(said_nothing, termination_reason="error", metadata={})
    write(tmp_path / "episode_hash0_id0.json", failed)
    (sample,) = samples(tmp_path)
    assert (sample.status, sample.status_reason) == ("environment_error", "error")
    assert math.isnan(sample.reward)


def test_two_answers_to_the_same_messages_are_both_kept(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "2 + 2?"}
    tries = [{"chat_completions": [asked, {"role": "assistant", "content": text}]} for text in ("5", "4")]
    write(tmp_path / "episode_hash0_id0.json", rllm_episode(*tries))
    (sample,) = samples(tmp_path)
    assert [content for _, content, _ in spoken(sample)] == ["5", "4"]


# -- SkyRL ---------------------------------------------------------------------------------------------


def test_skyrls_evaluations_are_one_run_with_the_step_of_their_folder() -> None:
    (info,) = rlpanel.discover(SKYRL)
    assert (info.name, info.files) == (".", 4), "the aggregated results are no rollouts"
    read = samples(SKYRL)
    assert [(each.step, each.reward) for each in read] == [
        (10, 1.0), (10, 0.75), (10, 0.5), (5, 1.0), (5, 0.0), (5, 0.5),
    ]  # fmt: skip
    assert {each.split for each in read} == {"eval"}
    first, cut = read[:2]
    assert (first.prompt, first.response, first.ground_truth) == ("2 + 2? ", "four “四”", "4")
    assert first.token_rewards is not None
    assert first.token_rewards.tolist() == [0.0, 1.0]
    assert (cut.finish_reason, cut.truncated, cut.status) == ("length", 1.0, "truncated")


def test_a_skyrl_evaluation_outside_of_training_has_step_0(tmp_path: Path) -> None:
    line = {"input_prompt": "p", "output_response": "r", "score": 1.0, "stop_reason": None, "env_extras": {}}
    write(tmp_path / "dumped_evals" / "eval_only" / "unknown.jsonl", line)
    (sample,) = samples(tmp_path)
    assert (sample.step, sample.reward) == (0, 1.0)


def steps_of(*turns: str, reward: float) -> list[dict[str, Any]]:
    """Lines of a trajectory: each prompt holds what was said before, and the last has the reward."""
    said = ["<user>Find the key.", *(f"<a>{turn}<obs>ok" for turn in turns)]
    return [
        {"input_prompt": "".join(said[: at + 1]), "output_response": turn, "stop_reason": "stop",
         "score": [0.0, reward if at == len(turns) - 1 else 0.0], "env_extras": {}}
        for at, turn in enumerate(turns)
    ]  # fmt: skip


def test_the_steps_of_a_skyrl_trajectory_have_one_episode(tmp_path: Path) -> None:
    tries = [steps_of("look", "open", reward=1.0), steps_of("look", "open", reward=1.0)]
    tries += [steps_of("give up", reward=0.0), steps_of("", reward=0.0), steps_of("", reward=0.0)]
    lines = [line for each in tries for line in each]
    write(tmp_path / "dumped_evals" / "global_step_5_evals" / "rooms.jsonl", *lines)
    write(tmp_path / "dumped_evals" / "global_step_5_evals" / "plain.jsonl", *lines[4:])
    plain = [each for each in samples(tmp_path) if "plain" in each.file]
    steps = [each for each in samples(tmp_path) if "rooms" in each.file]
    names = [each.episode for each in steps]
    assert [names.index(name) for name in names] == [0, 0, 2, 2, 4, 5, 6], "equal trajectories stay apart"
    assert {(each.episode or "").partition(":")[0] for each in steps} == {"rooms"}
    assert {each.episode for each in plain} == {None}, "without steps there is nothing to join"
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples()
    assert sorted(frame["episode"].dropna()) == sorted(map(str, names)), "the table has them, too"
    words = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    words.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "rlpanel.toml").write_text('tokenizer = "tokenizer.json"\n')
    decoded = [each.episode for each in samples(tmp_path) if "rooms" in each.file]
    assert decoded == names, "decoded tokens change no episode"


# -- tinker-cookbook -----------------------------------------------------------------------------------


def test_a_tinker_trajectory_is_a_sample_of_its_iteration() -> None:
    evaluated, searched, cut, plain, other = samples(TINKER)[:5]
    facts = [
        (each.step, each.split, each.group, each.reward, each.columns["response_tokens"])
        for each in (evaluated, searched, cut, plain, other)
    ]
    assert facts == [
        (0, "eval", "gsm8k:0", 0.5, 8.0),
        (0, "train", "0", 1.0, 17.0),
        (0, "train", "0", -0.1, 30.0),
        (0, "train", "1", 0.5, 8.0),
        (0, "train", "1", 0.5, 8.0),
    ]
    assert (searched.status, searched.finish_reason) == ("ok", "completed")
    assert (cut.status, cut.finish_reason, cut.truncated) == ("truncated", "max_tokens", 1.0)
    assert searched.turn_rewards.tolist() == [0.0, 1.0]
    later = [each for each in samples(TINKER) if each.step == 10 and each.split == "train"]
    assert {(each.policy_versions, each.columns["lag"]) for each in later} == {(((9, -1),), 1.0)}
    assert searched.columns["context_tokens"] == 60 - 40 - 12, "what the second observation adds"
    assert searched.columns["metrics/correct"] == 1.0
    assert {each.step for each in samples(TINKER)} == {0, 10}


def test_groups_of_two_tinker_evaluations_are_separate(tmp_path: Path) -> None:
    """`group_idx` starts at 0 in the file of each data set."""
    line = {"iteration": 2, "total_reward": 1.0, "steps": [], "group_idx": 0, "traj_idx": 0}
    for split in ("eval/aime", "eval/gsm8k", "train"):
        path = tmp_path / "iteration_000002" / f"{split.replace('/', '_')}_rollout_summaries.jsonl"
        write(path, line | {"split": split}, line | {"split": split, "traj_idx": 1})
    with rlpanel.open_run(tmp_path, follow=False) as run:
        evaluated = run.split("eval").groups(2)
        assert sorted(evaluated["group"]) == ["aime:0", "gsm8k:0"]
        assert evaluated["samples"].tolist() == [2, 2]
        assert run.groups(2)["group"].tolist() == ["0"]


def test_what_a_tinker_environment_logged_of_a_conversation_is_the_response() -> None:
    _, searched, cut, *_ = samples(TINKER)
    assert spoken(searched) == [
        ("assistant", "I look it up “四”.", ['search {"q": "2+2 🙂"}']),
        ("tool", "4", []),
        ("assistant", "It is 4.", []),
    ]
    assert (searched.prompt, cut.response) == (None, None)


# -- NeMo Gym ------------------------------------------------------------------------------------------


def test_items_of_the_responses_api_are_a_conversation() -> None:
    called, asked, cut = samples(GYM)
    assert spoken(called) == [
        ("assistant", "", ['get_weather {"city": "New York"}']),
        ("tool", '{"city":"New York","weather_description":"The weather in New York is sunny."}', []),
        ("assistant", "\n\nThe weather in New York is sunny.", []),
    ]
    assert [message["role"] for message in called.messages[:2]] == ["developer", "user"]
    assert called.messages[2]["tool_calls"][0]["id"] == called.messages[3]["tool_call_id"]
    assert [role for role, *_ in spoken(asked)] == ["assistant", "user", "assistant"]
    assert (called.step, called.group, called.reward, called.status) == (0, "example:1", 2.0, "ok")
    assert (cut.finish_reason, cut.truncated, cut.status) == ("max_output_tokens", 1.0, "truncated")
    assert cut.response is not None
    assert cut.response.startswith("Okay, let's tackle this problem."), "reasoning is kept"


def gym(output: Any, **fields: Any) -> dict[str, Any]:
    """A rollout with an output."""
    return {
        "responses_create_params": {"input": "2 + 2?", "instructions": "Be brief."},
        "response": {"output": output, "incomplete_details": None}, "reward": 1.0,
        "_ng_task_index": 3, "_ng_rollout_index": 1, "agent_ref": {"name": "calc"},
    } | fields  # fmt: skip


def test_a_completed_answer_without_details_was_not_cut(tmp_path: Path) -> None:
    done = {"output": [said("4")], "status": "completed"}
    write(
        tmp_path / "rollouts.jsonl", gym([], response=done), gym([], response=done | {"status": "incomplete"})
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (row,) = run.samples().to_dict("records")
        assert run.errors["reason"].tolist() == ["no 'response.incomplete_details'"]
    assert (row["reward"], row["truncated"], row["status"]) == (1.0, 0.0, "ok")


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    } | fields


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "name": "add", "arguments": str(number), "call_id": f"c{number}"}


def answer(number: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": f"o{number}"}


def test_a_turn_is_one_message_with_reasoning_text_and_all_its_calls(tmp_path: Path) -> None:
    output = [thought("Hm."), said("I add."), call(1), call(2), answer(1), answer(2), call(3), answer(3)]
    output += [thought("So."), said("4", generation_token_ids=[7, 8], generation_log_probs=[-0.5, -0.25])]
    write(tmp_path / "step_12" / "rollouts.jsonl", gym(output))
    (sample,) = samples(tmp_path)
    assert spoken(sample) == [
        ("assistant", "I add.", ["add 1", "add 2"]), ("tool", "o1", []), ("tool", "o2", []),
        ("assistant", "", ["add 3"]), ("tool", "o3", []), ("assistant", "4", []),
    ]  # fmt: skip
    assert [message.get("reasoning_content") for message in sample.messages[2:8:5]] == ["Hm.", "So."]
    assert (sample.step, sample.prompt) == (12, "[system] Be brief.\n[user] 2 + 2?")
    assert sample.response_token_ids is not None
    assert sample.rollout_logprobs is not None
    assert (sample.response_token_ids.tolist(), sample.rollout_logprobs.tolist()) == ([7, 8], [-0.5, -0.25])


def test_an_agent_that_returns_transitions_gives_the_conversation_once(tmp_path: Path) -> None:
    asked = {"type": "message", "role": "user", "content": "2 + 2?"}
    states = [[asked, call(1), answer(1)], [asked, call(1), answer(1), said("4")]]
    write(tmp_path / "rollouts.jsonl", gym(states, responses_create_params={"input": []}))
    (sample,) = samples(tmp_path)
    assert sample.prompt == "[user] 2 + 2?"
    assert [role for role, *_ in spoken(sample)] == ["assistant", "tool", "assistant"]


def test_failed_gym_rollouts_have_a_status_and_no_reward(tmp_path: Path) -> None:
    judge = {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "no verdict"}
    write(
        tmp_path / "rollouts_failures.jsonl",
        gym([], reward=0.0, **judge),
        gym([], reward=0.0, _ng_failure_class="timeout_exceeded"),
    )
    write(tmp_path / "rollouts.jsonl", gym([said("4")]))
    write(tmp_path / "rollouts_materialized_inputs.jsonl", {"responses_create_params": {"input": "2 + 2?"}})
    good, judged, late = samples(tmp_path)
    assert (good.reward, good.status) == (1.0, "ok")
    assert (judged.status, judged.status_reason) == ("environment_error", "judge_failed: no verdict")
    assert late.status == "timeout"
    assert math.isnan(judged.reward)
    assert math.isnan(late.reward)


@pytest.mark.case("NeMo Gym", "masked")
@pytest.mark.case("NeMo Gym", "failure")
def test_masked_and_failed_gym_rollouts_do_not_enter_the_means() -> None:
    """Gym's own mean is over the rows that are not masked: their reward is a valid measurement."""
    assert {name: len(found) for name, found in statuses(GYM_0_7).items()} == {"train": 5, "discarded": 3}
    *valid, masked, run_error, judged = samples(GYM_0_7)
    assert [each.reward for each in valid] == [1.0, 0.0, 1.0, 0.0, 0.75]
    assert (valid[4].columns["rewards/correct"], valid[4].columns["rewards/brief"]) == (1.0, 0.5)
    assert all(math.isnan(each.reward) for each in (masked, run_error, judged))
    assert [(each.status, each.status_reason) for each in (masked, run_error, judged)] == [
        ("environment_error", "sandbox_error: container OOM"),
        ("environment_error", "agent_run_error: 500, message='Internal Server Error'"),
        ("environment_error", "judge_failed: judge: 503"),
    ]
    assert (run_error.prompt, run_error.response, run_error.group) == (None, None, "1")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mask_sample": True}, ("discarded", "discarded", "mask_sample", math.nan)),
        ({"instance_config": {"mask_sample": True}}, ("discarded", "discarded", "mask_sample", math.nan)),
        ({"mask_sample": True, "failure_kind": "agent_timeout"},
         ("discarded", "timeout", "agent_timeout", math.nan)),
        ({"mask_sample": True, "split": "eval"}, ("discarded eval", "discarded", "mask_sample", math.nan)),
        ({"failure_kind": "sandbox_error", "failure_reason": "OOM"},
         ("train", "tool_error", "sandbox_error: OOM", 1.0)),
        ({"failure_kind": "eval_timeout"}, ("train", "timeout", "eval_timeout", 1.0)),
        ({"mask_sample": False}, ("train", "ok", None, 1.0)),
    ],
)  # fmt: skip
def test_only_a_mask_takes_the_reward_of_a_gym_rollout(
    tmp_path: Path, fields: dict[str, Any], expected: tuple[str, str, str | None, float]
) -> None:
    write(tmp_path / "rollouts.jsonl", gym([said("4")], **fields))
    (sample,) = samples(tmp_path)
    found = sample.split or "train", sample.status, sample.status_reason, sample.reward
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_sidecar_with_failures_that_have_no_rollout_is_read(tmp_path: Path) -> None:
    failure = {"_ng_failure_class": "environment_server_failed", "_ng_failure_stage": "agent",
               "_ng_failure_message": "model error", "_ng_task_index": 3}  # fmt: skip
    part = {"_ng_failure_partial_response": {"output": [said("I add.")]}}
    write(tmp_path / "math_rollouts_failures.jsonl", failure, failure | part)
    early, late = samples(tmp_path)
    reason = "environment_server_failed in agent: model error"
    assert [(each.status, each.status_reason, each.group) for each in (early, late)] == [
        ("environment_error", reason, "math:3")
    ] * 2
    assert (early.response, late.response) == (None, "I add.")


@pytest.mark.case("NeMo Gym", "data sets")
def test_gym_files_of_two_data_sets_have_groups_of_their_own(tmp_path: Path) -> None:
    """`_ng_task_index` counts from 0 in each file; `task_source` names the data set in newer files."""
    for name in ("aime_rollouts", "aime_rollouts_failures", "gsm8k_rollouts"):
        failed = {"_ng_failure_class": "judge_failed"} if name.endswith("failures") else {}
        write(tmp_path / f"{name}.jsonl", *(gym([said("4")], _ng_task_index=at, **failed) for at in (0, 1)))
    write(tmp_path / "rollouts.jsonl", gym([said("4")], _ng_task_index=0, task_source="mbpp"))
    assert [each.group for each in samples(tmp_path)] == [
        "aime:0", "aime:1", "aime:0", "aime:1", "gsm8k:0", "gsm8k:1", "mbpp:0",
    ]  # fmt: skip


# -- miles ---------------------------------------------------------------------------------------------


@pytest.mark.case("miles", "aborted")
@pytest.mark.case("miles", "evaluation")
def test_a_miles_sample_that_was_aborted_is_not_trained_on(tmp_path: Path) -> None:
    """It is left out as in the converted dump of the same rollout."""
    line = {"sample_index": 0, "group_index": 0, "prompt": "2 + 2?", "messages": [{"role": "assistant"}]}
    states = ("aborted", "completed", "truncated")
    for name in ("0", "eval_0"):
        write(tmp_path / f"trajectory/{name}.jsonl", *(line | {"status": state} for state in states))
    assert statuses(tmp_path) == {
        "train": ["ok", "truncated"], "discarded": ["discarded"],
        "eval": ["ok", "truncated"], "discarded eval": ["discarded"],
    }  # fmt: skip


def test_miles_conversations_are_read_and_tokens_only_where_there_are_none() -> None:
    (info,) = rlpanel.discover(MILES)
    read = samples(MILES)
    assert [(each.file, each.step, each.split) for each in read[::4]] == [
        ("dashboard_columns/rollout_1.parquet", 1, "train"),
        ("trajectory/0.jsonl", 0, "train"),
        ("trajectory/eval_0.jsonl", 0, "eval"),
    ]
    assert (info.name, len(read)) == (".", 10)


def test_a_miles_conversation_is_split_after_its_logged_prompt() -> None:
    whole, cut, failed, scored = samples(MILES)[4:8]
    assert whole.prompt_messages == 4, "an assistant's message in the prompt is no response"
    assert spoken(whole) == [
        ("assistant", "", ['add {"a": 2, "b": 2}']), ("tool", "4", []), ("assistant", "It is 4.", []),
    ]  # fmt: skip
    assert [each.status for each in (whole, cut, failed)] == ["ok", "truncated", "tool_error"]
    assert [each.group for each in (whole, cut, failed)] == ["0", "0", "1"]
    assert whole.reward == 1.0
    assert math.isnan(scored.reward), "a reward of several parts is not in this file"


@pytest.mark.case("miles", "masked")
def test_miles_tokens_are_those_of_the_response() -> None:
    sample = samples(MILES)[0]
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "response_token_ids": [7, 8, 9],
        "rollout_logprobs": [-0.5, 0.0, -0.25],
        "loss_mask": [1, 0, 1],
    }
    assert sample.extra["prompt_token_ids"] == [1, 2, 3]


def test_a_dump_of_miles_converts_as_one_of_slime(tmp_path: Path) -> None:
    dump = json.loads((MILES / "rollout_data_0.json").read_text())
    write(tmp_path / "0.jsonl", *rows(dump, {}, "0.pt"))
    read = samples(tmp_path)
    assert [(each.step, each.group, each.reward, each.finish_reason) for each in read] == [
        (0, "0", 1.0, "completed"),
        (0, "0", 0.0, "truncated"),
        (0, "1", 0.0, "failed"),
        (0, "1", 0.5, "completed"),
    ]
    assert read[0].prompt_messages == 4
    assert read[0].response_token_ids is not None
    assert read[0].response_token_ids.tolist() == [7, 8, 9]


# -- bad lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good", "bad", "reason"),
    [
        ("global_step_1_evals/a.jsonl", {"input_prompt": "p", "output_response": "r", "score": 1.0},
         {"input_prompt": "p"}, "no 'output_response'"),
        ("iteration_000001/train_rollout_summaries.jsonl",
         {"split": "train", "iteration": 1, "total_reward": 1.0, "steps": [], "group_idx": 0, "traj_idx": 0},
         {"split": "train", "iteration": 1, "total_reward": 1.0, "steps": 3},
         "'steps' is not a list of objects"),
        ("rollouts.jsonl", gym([]), gym([3]), "a conversation is not a list of items of the Responses API"),
        ("rollouts.jsonl", gym([]), {"response": {}}, "no 'responses_create_params'"),
        ("trajectory/1.jsonl",
         {"sample_index": 0, "group_index": 0, "status": "completed", "prompt": "p", "messages": []},
         {"sample_index": 0}, "no 'messages'"),
    ],
)  # fmt: skip
def test_a_line_that_lacks_something_is_told_and_stops_no_other(
    tmp_path: Path, name: str, good: dict[str, Any], bad: dict[str, Any], reason: str
) -> None:
    write(tmp_path / name, good, bad, good)
    index = RunIndex(tmp_path, "run")
    index.rescan()
    while index.read():
        pass
    assert [(line.file, line.line, line.reason) for line in index.snapshot.bad_lines] == [(name, 2, reason)]
    assert len(index.snapshot.alive_rows) == 2
