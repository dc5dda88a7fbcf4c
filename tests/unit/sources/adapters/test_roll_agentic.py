"""ROLL's agentic trajectories: JSON in texts in columns, as its two environment managers write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import scan
from tests.unit.sources.adapters.test_adapters import UPSTREAM

RECORDED = UPSTREAM / "roll-8eb27cc2"
TALK = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "look"},
    {"role": "tool", "content": "a room"},
    {"role": "assistant", "content": "take"},
]
TIME = "20261122_101500_000042"
#: What the agent-native manager knows of a trajectory; it writes a list of one conversation.
NATIVE = {
    "trajectory_id": f"SWE_3_4_7_1_0_42_{TIME}",
    "timestamp": TIME,
    "current_step": 3,
    "env_info": {"env_id": 1, "group_id": 7, "tag": "SWE", "seed": 42, "episode_id": 0, "mode": "train"},
    "length_info": {"trajectory_length": 2, "num_actions": 2, "terminated": True, "truncated": False},
    "reward_info": {"episode_reward": 1.0, "step_rewards": [0.25, 0.75], "final_reward": 0.75},
    "failure_info": {"failure_mode": "", "stop_reason": "FINISH", "has_failure": False},
    "metrics": {"env/SWE/success": 1.0},
}
#: What the proxy manager knows of a branch of a trajectory.
PROXY = {
    "trajectory_id": f"proxy_7_0_42_1_{TIME}_b0",
    "timestamp": TIME,
    "num_actions": 2,
    "branch_or_step_idx": 0,
    "num_branches_or_steps": 2,
    "reward_info": {"episode_reward": 1.0, "step_reward": 0.5},
    "messages": TALK,
    "finish_reason": "stop",
}


def row(data: Any, messages: Any, tools: Any = ()) -> dict[str, Any]:
    return {
        "trajectory_data": json.dumps(data),
        "messages": json.dumps(messages),
        "tools": json.dumps(tools),
        "exp_name": "e",
        "global_step": 3,
    }


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    """Write the file of a step as ROLL does: columns, with texts that hold JSON."""
    line = {key: [each[key] for each in rows] for key in rows[0]}
    path = folder / "rollout_dump_data.step_3.jsonl"
    path.write_text(json.dumps(line, ensure_ascii=False) + "\n", "utf-8")
    return folder


def read(folder: Path) -> tuple[pd.DataFrame, list[Sample]]:
    with rlpanel.open_run(folder, follow=False) as run:
        frame = run.samples(text=True)
        assert run.errors.empty
        return frame, [run.sample(uid) for uid in frame["uid"]]


def changed(data: dict[str, Any], key: str, **fields: Any) -> dict[str, Any]:
    return {**data, key: {**data[key], **fields}}


def test_a_trajectory_is_prompt_and_response_with_its_rewards(tmp_path: Path) -> None:
    tools = [{"name": "look"}]
    frame, (sample,) = read(write(tmp_path, row(NATIVE, [TALK], tools)))
    assert sample.prompt == "[system] be brief\n[user] go"
    assert sample.response == "[assistant] look\n[tool] a room\n[assistant] take"
    columns = ["step", "reward", "group", "episode", "env", "split", "finish_reason", "status", "exp_name"]
    assert frame[columns].values.tolist() == [
        [3, 1.0, "SWE_7_0_42", NATIVE["trajectory_id"], "SWE", "train", "stop", "ok", "e"]
    ]
    assert frame[["num_actions", "truncated", "final_reward"]].values.tolist() == [[2.0, 0.0, 0.75]]
    assert sample.turn_rewards.tolist() == [0.25, 0.75]
    assert sample.extra["tools"] == tools
    for key in ("env_info", "length_info", "failure_info", "metrics"):
        assert sample.extra[key] == NATIVE[key]


@pytest.mark.case("ROLL, agentic", "fork")
def test_branches_of_the_proxy_are_samples_of_one_episode(tmp_path: Path) -> None:
    second = {**PROXY, "trajectory_id": PROXY["trajectory_id"][:-1] + "1", "branch_or_step_idx": 1}
    frame, samples = read(write(tmp_path, row(PROXY, TALK), row(second, TALK[:3])))
    assert frame["group"].tolist() == ["proxy_7_0_42"] * 2
    assert frame["episode"].tolist() == [f"proxy_7_0_42_1_{TIME}"] * 2
    assert frame[["reward", "step_reward", "branch_or_step_idx"]].values.tolist() == [
        [1.0, 0.5, 0.0],
        [1.0, 0.5, 1.0],
    ]
    assert [sample.response for sample in samples][1] == "look"
    assert "messages" not in samples[0].extra


def test_scores_at_the_top_of_the_trajectory_are_read(tmp_path: Path) -> None:
    data = {"trajectory_id": "env_0_1", "episode_score": 1.0, "step_scores": [0.0, 1.0], "actions": ["a"]}
    frame, (sample,) = read(write(tmp_path, row(data, TALK)))
    assert frame[["reward", "episode"]].values.tolist() == [[1.0, "env_0_1"]]
    assert (sample.turn_rewards.tolist(), sample.extra["actions"]) == ([0.0, 1.0], ["a"])


def test_a_step_that_is_logged_without_its_response_is_a_prompt(tmp_path: Path) -> None:
    frame, (sample,) = read(write(tmp_path, row(PROXY, TALK[:4])))
    assert sample.prompt == "[system] be brief\n[user] go\n[assistant] look\n[tool] a room"
    assert frame["response"].tolist() == [""]


def test_a_conversation_that_the_environment_ends_keeps_its_response(tmp_path: Path) -> None:
    _, (sample,) = read(write(tmp_path, row(NATIVE, [TALK[:4]])))
    assert sample.response == "[assistant] look\n[tool] a room"


@pytest.mark.parametrize("nothing", [[], [None], [[]]])
@pytest.mark.case("ROLL, agentic", "failure")
def test_a_placeholder_is_a_failure_without_reward(tmp_path: Path, nothing: list[Any]) -> None:
    with rlpanel.open_run(write(tmp_path, row(PROXY, nothing), row(PROXY, TALK)), follow=False) as run:
        failed = run.split("discarded").samples()
        assert (failed["status"].tolist(), failed["reward"].isna().tolist()) == (
            ["environment_error"],
            [True],
        )
        assert run.samples()["reward"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (changed(NATIVE, "failure_info", stop_reason="MAX_STEPS"), "truncated", "max_steps"),
        (
            changed(NATIVE, "failure_info", stop_reason="ENV_RESET_FAILED"),
            "environment_error",
            "env_reset_failed",
        ),
        (
            changed(NATIVE, "failure_info", has_failure=True, failure_mode="tool_execution_timeout"),
            "timeout",
            "tool_execution_timeout",
        ),
        (
            changed(NATIVE, "failure_info", has_failure=True, failure_mode="tool_call_parse_failed"),
            "tool_error",
            "tool_call_parse_failed",
        ),
        (
            changed(NATIVE, "failure_info", has_failure=True, failure_mode="sandbox_start_failed"),
            "environment_error",
            "sandbox_start_failed",
        ),
    ],
)
def test_the_end_of_a_trajectory_is_its_status(
    tmp_path: Path, data: dict[str, Any], status: str, reason: str
) -> None:
    frame, _ = read(write(tmp_path, row(data, [TALK])))
    assert frame[["status", "status_reason"]].values.tolist() == [[status, reason]]


@pytest.mark.case("ROLL, agentic", "evaluation")
def test_validation_is_eval(tmp_path: Path) -> None:
    frame, _ = read(write(tmp_path, row(changed(NATIVE, "env_info", mode="val"), [TALK])))
    assert frame["split"].tolist() == ["eval"]


def test_a_broken_text_costs_its_own_sample_only_and_is_shown(tmp_path: Path) -> None:
    broken = row(NATIVE, [TALK]) | {"messages": "[{", "trajectory_data": "nothing"}
    frame, samples = read(write(tmp_path, broken, row(NATIVE, [TALK])))
    assert [sample.response for sample in samples] == [
        "[{",
        "[assistant] look\n[tool] a room\n[assistant] take",
    ]
    assert [note.split(":")[0] for note in samples[0].notes] == [
        "'messages' is not valid JSON",
        "'trajectory_data' is not valid JSON",
    ]
    assert samples[0].extra["trajectory_data"] == "nothing"
    assert frame["reward"].isna().tolist() == [True, False]


def test_half_an_emoji_in_the_text_is_replaced(tmp_path: Path) -> None:
    half = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "a\ud83d"}]
    _, (sample,) = read(write(tmp_path, row(NATIVE, [half])))
    assert sample.response == "a\ufffd"


def test_a_search_finds_text_that_was_escaped_twice(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "外面"}, {"role": "assistant", "content": "窗外下着小雨"}]
    index = RunIndex(write(tmp_path, row(NATIVE, [talk])), "run", Reading())
    index.rescan()
    index.read()
    for sought, found in (("下着小", [0]), ("窗外", [0]), ("外面", [0]), ("大雨", [])):
        test = TextPredicate("", "contains", sought)
        batches = list(scan(index, index.snapshot, index.snapshot.alive_rows, [test]))
        assert [row for batch in batches for row in batch.rows[batch.texts[test]]] == found, sought


def test_a_line_without_messages_is_bad(tmp_path: Path) -> None:
    write(tmp_path, row(NATIVE, [TALK]))
    path = tmp_path / "rollout_dump_data.step_3.jsonl"
    path.write_bytes(path.read_bytes() + b'{"global_step": [3], "trajectory_data": ["{}"]}\n')
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors[["line", "reason"]].values.tolist() == [[2, "no 'messages'"]]
        assert run.stats().rows == 1


# -- files that ROLL's managers and its dump wrote -----------------------------------------------------

CALL = '<tool_call>\n{"name": "run_shell_command", "arguments": {"command": "ls 目录"}}\n</tool_call>'


def test_the_agent_native_managers_trajectories_are_those_of_the_batch() -> None:
    """The batch has a fourth trajectory, a placeholder, which ROLL does not write."""
    with rlpanel.open_run(RECORDED / "agentic_native", follow=False) as run:
        assert run.errors.empty
        assert run.splits == {"train": 3, "eval": 3}
        frame = run.split("train").samples()
        whole, cut, failed = (run.sample(uid) for uid in frame["uid"])
        assert run.split("eval").samples()["step"].tolist() == [4] * 3
    columns = ["step", "group", "reward", "finish_reason", "status", "truncated", "num_actions"]
    assert frame[columns].values.tolist() == [
        [3, "SWE_7_0_42", 1.0, "stop", "ok", 0.0, 2.0],
        [3, "SWE_7_0_42", 0.25, "max_steps", "truncated", 1.0, 1.0],
        [3, "SWE_8_0_42", 0.0, "stop", "timeout", 0.0, 1.0],
    ]
    assert whole.prompt == "[system] Fix the bug. 修复\n[user] Issue 7 🙂"
    assert whole.response == f"[assistant] {CALL}\n[tool] a.py “引号”\n[assistant] Done 完成 🙂"
    assert [each.turn_rewards.tolist() for each in (whole, cut, failed)] == [[0.0, 1.0], [0.25], [0.0]]
    assert failed.status_reason == "tool_execution_timeout"
    assert whole.extra["tools"][0]["function"]["name"] == "run_shell_command"


def test_the_proxys_branches_keep_tool_calls_and_images() -> None:
    with rlpanel.open_run(RECORDED / "agentic_proxy", follow=False) as run:
        assert run.errors.empty
        frame = run.samples()
        samples = {step: [run.sample(uid) for uid in part["uid"]] for step, part in frame.groupby("step")}
        (failed,) = run.split("discarded").samples()["uid"]
        placeholder = run.sample(failed)
    called, branch, other = samples[3]
    facts = [(each.group, each.episode, each.reward) for each in (called, branch, other)]
    episode = f"proxy_7_0_42_0_{TIME}"
    assert facts == [
        ("proxy_7_0_42", episode, 1.0), ("proxy_7_0_42", episode, 1.0),
        ("proxy_7_0_42", f"proxy_7_0_42_1_{TIME}", 0.0),
    ]  # fmt: skip
    assert called.prompt == "[system] Use the tool.\n[user] [image]\n2 + 2 等于几？ 🙂"
    assert called.messages[1]["images"] == [
        {"media_type": "image/png", "size": 72, "key": "1a39a753bacc5b65"}
    ]
    assert called.messages[2]["tool_calls"] == [
        {"name": "add", "arguments": '{"a": 2, "b": 2}', "id": "call_1"}
    ]
    assert [message["content"] for message in called.messages[3:]] == ["4", "It is 4 “四”."]
    assert (branch.response, other.response) == ("Five.", "Five.")
    assert placeholder.status == "environment_error"
    assert np.isnan(placeholder.reward)


def test_the_proxys_single_steps_are_prompts_with_the_last_steps_reward() -> None:
    with rlpanel.open_run(RECORDED / "agentic_proxy", follow=False) as run:
        frame = run.samples(text=True)
    steps = frame[frame["step"] == 4]
    assert steps[["response", "step_reward"]].values.tolist() == [["", 0.0], ["", 1.0]]
    assert [text.endswith("[tool] 4") for text in steps["prompt"]] == [False, True]
