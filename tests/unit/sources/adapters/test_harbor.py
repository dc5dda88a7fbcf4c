"""Harbor's trials and trajectories in ATIF: `tests/data/upstream` has files of the named versions' models."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.settings import Reading
from rlpanel.store.index.reader import Reader
from tests.waiting import wait_until

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"
JOB, EXPORT = UPSTREAM / "harbor-0.26.0", UPSTREAM / "atif-gym-0.7.0"
SOLVED = "hello__aaaaaaa/agent/trajectory.json"


def samples(folder: Path) -> dict[str, Sample]:
    """All samples of a folder without bad lines and unread files, by uid."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        assert not len(run.unread)
        parts = [run.split(name) for name in run.splits]
        return {uid: part.sample(uid) for part in parts for uid in part.samples()["uid"]}


def by_trial(folder: Path) -> dict[str, Sample]:
    """The main sample of each trial or of its step, by the name that ends with a letter of the trial."""
    return {uid.split(":")[0]: sample for uid, sample in samples(folder).items() if "/1" not in uid[-2:]}


def bad_lines(folder: Path) -> list[str]:
    with rlpanel.open_run(folder, follow=False) as run:
        return [*run.errors["reason"]] if len(run.errors) else []


def test_a_folder_of_trials_is_one_run_of_evaluation_samples_at_step_0() -> None:
    assert [(info.name, info.files) for info in rlpanel.discover(JOB)] == [(".", 15)]
    with rlpanel.open_run(JOB, follow=False) as run:
        assert run.splits == {"discarded eval": 2, "eval": 8}
        assert run.split("eval").steps["step"].tolist() == [0]
        assert run.split("eval").steps["reward_mean"].tolist() == [pytest.approx((1 + 0 + 0.5 + 1 + 0) / 5)]


def test_a_trial_has_the_reward_of_its_result_and_the_group_of_its_task() -> None:
    read = by_trial(JOB)
    solved, failed = read[SOLVED], read["hello__bbbbbbb/agent/trajectory.json"]
    assert (solved.reward, failed.reward) == (1.0, 0.0)
    assert solved.group == failed.group == "demo-bench/hello:terminus-2:qwen"
    assert (solved.status, solved.agent, solved.episode) == ("ok", "terminus-2", "hello__aaaaaaa")
    assert (solved.columns["turns"], solved.columns["tool_calls"]) == (2.0, 1.0)
    assert solved.timing == {
        "environment": 6.0, "agent": 19.0, "score": 4.0, "start": 1795687200.0, "total": 30.0,
    }  # fmt: skip


def test_a_trajectory_is_a_conversation_with_reasoning_calls_and_observations() -> None:
    sample = samples(JOB)[f"{SOLVED}:0"]
    assert sample.prompt == "[system] You are an agent.\n[user] Write héllo. 🙂"
    call, result, last = sample.messages[2:]
    assert call["reasoning_content"] == "simple"
    assert call["tool_calls"] == [{"name": "bash", "arguments": '{"cmd": "echo héllo > a"}', "id": "c1"}]
    assert (result["role"], result["content"], result["tool_call_id"]) == ("tool", "ok", "c1")
    assert last["content"] == "Done."


def test_tokens_of_the_environment_are_masked_where_the_prompts_tell_them() -> None:
    sample = samples(JOB)[f"{SOLVED}:0"]
    assert sample.response_token_ids is not None
    assert sample.response_token_ids.tolist() == [5, 6, 7, 11, 12, 8, 9]
    assert sample.loss_mask is not None
    assert sample.loss_mask.tolist() == [1, 1, 1, 0, 0, 1, 1]
    np.testing.assert_array_equal(
        sample.rollout_logprobs, [-0.1, -0.2, -0.3, math.nan, math.nan, -0.5, -0.25]
    )
    assert (sample.columns["response_tokens"], sample.columns["context_tokens"]) == (5.0, 2.0)


def test_without_the_prompts_of_later_turns_only_sampled_tokens_are_shown(tmp_path: Path) -> None:
    def forget(trajectory: dict[str, Any]) -> None:
        del trajectory["steps"][3]["metrics"]["prompt_token_ids"]

    sample = changed(tmp_path, forget)
    assert sample.response_token_ids is not None
    assert sample.response_token_ids.tolist() == [5, 6, 7, 8, 9]
    assert sample.loss_mask is None


def test_no_tokens_are_shown_if_those_of_a_turn_are_missing(tmp_path: Path) -> None:
    def forget(trajectory: dict[str, Any]) -> None:
        del trajectory["steps"][3]["metrics"]["completion_token_ids"]

    sample = changed(tmp_path, forget)
    assert (sample.response_token_ids, sample.rollout_logprobs) == (None, None)
    assert sample.columns["response_tokens"] == 5.0


def changed(folder: Path, change: Any) -> Sample:
    """The sample of the solved trial after a change of its trajectory."""
    trial = folder / "hello__aaaaaaa"
    shutil.copytree(JOB / trial.name, trial)
    path = trial / "agent" / "trajectory.json"
    trajectory = json.loads(path.read_text())
    change(trajectory)
    path.write_text(json.dumps(trajectory))
    return samples(folder)[f"{SOLVED}:0"]


@pytest.mark.parametrize(
    ("trial", "reward", "status", "reason"),
    [
        ("hello__bbbbbbb/agent/trajectory.json", 0.0, "ok", "NonZeroAgentExitCodeError: exit 1"),
        ("hello__ccccccc/agent/trajectory.json", None, "timeout", "AgentTimeoutError: too slow"),
        (
            "hello__ddddddd/agent/trajectory.json",
            *(None, "environment_error", "ApiRateLimitError: 429"),
        ),
        (
            "hello__eeeeeee/result.json",
            *(None, "environment_error", "EnvironmentStartTimeoutError: no machine"),
        ),
    ],
)
def test_a_trial_that_ended_early_says_why(
    trial: str, reward: float | None, status: str, reason: str
) -> None:
    """A reward that Harbor calls invalid is left out; one beside a valid failure counts, as for Harbor."""
    sample = by_trial(JOB)[trial]
    assert (sample.status, sample.status_reason) == (status, reason)
    assert (None if math.isnan(sample.reward) else sample.reward) == reward


def test_subagents_are_samples_of_the_trials_episode_without_its_reward_and_group() -> None:
    read = {uid: each for uid, each in samples(JOB).items() if uid.startswith("draw")}
    assert [each.agent for each in read.values()] == ["terminus-2", "summary", "terminus-2"]
    assert {each.episode for each in read.values()} == {"draw__fffffff"}
    main = read["draw__fffffff/agent/trajectory.json:0"]
    others = [each for each in read.values() if each is not main]
    assert (main.reward, main.columns["rewards/style"]) == (0.5, 1.0)
    assert all(math.isnan(each.reward) and each.group != main.group for each in others)


def test_copied_context_and_dispatches_of_a_program_are_no_turns_of_the_model() -> None:
    main = samples(JOB)["draw__fffffff/agent/trajectory.json:0"]
    assert main.columns["turns"] == 2.0
    assert "Old turn." in (main.prompt or "")
    assert (main.columns["tool_calls"], main.columns["response_tokens"]) == (0.0, 3.0)
    assert main.messages[0]["images"] == [{"url": "draw__fffffff/agent/images/a.png"}]
    assert main.response_token_ids is not None  # from the result: the trajectory has no tokens
    assert main.response_token_ids.tolist() == [4, 4, 7, 3]


def test_each_step_of_a_trial_has_its_own_reward_and_group() -> None:
    read = by_trial(JOB)
    steps = [read[f"long__ggggggg/steps/{name}/agent/trajectory.json"] for name in ("first", "step2")]
    assert [(each.step, each.reward) for each in steps] == [(0, 1.0), (0, 0.0)]
    assert len({each.group for each in steps}) == len({each.episode for each in steps}) == 2


@pytest.mark.parametrize("opened", ["hello__aaaaaaa", "long__ggggggg"])
def test_a_single_trial_may_be_opened(opened: str) -> None:
    alone = samples(JOB / opened)
    assert sorted(each.reward for each in alone.values()) == sorted(
        each.reward for uid, each in samples(JOB).items() if uid.startswith(opened)
    )


def test_a_step_of_training_is_taken_from_a_folder_above_the_trial(tmp_path: Path) -> None:
    shutil.copytree(JOB / "hello__aaaaaaa", tmp_path / "step_40" / "hello-step-3__aaaaaaa")
    shutil.copytree(JOB / "hello__eeeeeee", tmp_path / "step_40" / "hello__eeeeeee")
    assert [each.step for each in samples(tmp_path).values()] == [40, 40]


def test_a_trial_gets_its_reward_when_the_result_is_written(tmp_path: Path) -> None:
    source, trial = JOB / "hello__aaaaaaa", tmp_path / "hello__aaaaaaa"
    (trial / "agent").mkdir(parents=True)
    shutil.copy(source / "agent" / "trajectory.json", trial / "agent")
    reader = Reader(Reading())
    index = reader.open(tmp_path)

    def rewards() -> list[float]:
        frame = index.view.frame(index.snapshot.alive_rows)
        return frame["reward"].tolist() if "reward" in frame else [math.nan] * len(frame)

    wait_until(lambda: [math.isnan(each) for each in rewards()] == [True])
    shutil.copy(source / "result.json", trial / "result.json.new")
    os.replace(trial / "result.json.new", trial / "result.json")
    wait_until(lambda: rewards() == [1.0])
    assert (index.snapshot.bad_lines, index.snapshot.problems) == ((), ())
    reader.close(index)
    reader.stop()


def test_an_unfinished_result_is_said_and_not_taken_for_a_trial_without_a_reward(tmp_path: Path) -> None:
    shutil.copytree(JOB / "hello__aaaaaaa", tmp_path / "hello__aaaaaaa")
    (tmp_path / "hello__aaaaaaa" / "result.json").write_text('{"task_name": "he')
    (reason,) = bad_lines(tmp_path)
    assert "Harbor: result.json of the trial cannot be read" in reason


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("schema_version", "ATIF-v2.0", "ATIF: 'schema_version' is 'ATIF-v2.0'"),
        ("steps", {"a": 1}, "ATIF: 'steps' is not a list of objects"),
        ("steps", [{"message": "x"}], "ATIF: the 'source' of a step is 'None'"),
        ("subagent_trajectories", [1], "'subagent_trajectories' holds something that is not an object"),
    ],
)
def test_a_trajectory_of_another_shape_is_refused(tmp_path: Path, key: str, value: Any, said: str) -> None:
    trajectory = json.loads((JOB / SOLVED).read_text()) | {key: value}
    path = tmp_path / "agent" / "trajectory.json"
    path.parent.mkdir()
    path.write_text(json.dumps(trajectory))
    (reason,) = bad_lines(tmp_path)
    assert said in reason


@pytest.mark.parametrize("minor", range(9))
def test_all_versions_of_the_schema_until_today_are_read(tmp_path: Path, minor: int) -> None:
    def rename(trajectory: dict[str, Any]) -> None:
        trajectory["schema_version"] = f"ATIF-v1.{minor}"

    assert changed(tmp_path, rename).reward == 1.0


def test_nemo_gyms_export_has_the_tasks_as_groups_and_no_reward() -> None:
    read = samples(EXPORT)
    assert [(uid, each.group, each.columns["turns"]) for uid, each in sorted(read.items())] == [
        ("0-0.json:0", "0", 2.0), ("0-1.json:0", "0", 2.0), ("1-0.json:0", "1", 2.0),
    ]  # fmt: skip
    assert all(math.isnan(each.reward) for each in read.values())


@pytest.mark.parametrize("place", ["result.json.gz", "metadata/result.json", "metadata/result.json.gz"])
def test_a_copied_trial_may_hold_its_files_compressed(tmp_path: Path, place: str) -> None:
    trial = tmp_path / "job" / "hello__aaaaaaa"
    shutil.copytree(JOB / "hello__aaaaaaa", trial)
    trajectory, result = trial / "agent" / "trajectory.json", trial / "result.json"
    (trial / "agent" / "trajectory.json.gz").write_bytes(gzip.compress(trajectory.read_bytes()))
    content = result.read_bytes()
    trajectory.unlink(), result.unlink()
    (trial / "metadata").mkdir()
    (trial / place).write_bytes(gzip.compress(content) if place.endswith(".gz") else content)
    assert [info.name for info in rlpanel.discover(tmp_path)] == ["job"]
    read = samples(tmp_path / "job")
    assert [(sample.reward, sample.status, sample.columns["turns"]) for sample in read.values()] == [
        (1.0, "ok", 2.0)
    ]


@pytest.mark.parametrize(
    ("name", "content"), [("reward.json", '{"reward": 0.25, "other": 1}'), ("reward.txt", "0.25\n")]
)
def test_without_a_result_the_verifiers_file_gives_the_reward(
    tmp_path: Path, name: str, content: str
) -> None:
    trial = tmp_path / "job" / "hello__aaaaaaa"
    shutil.copytree(JOB / "hello__aaaaaaa", trial)
    (trial / "result.json").unlink()
    (trial / "verifier").mkdir(exist_ok=True)
    (trial / "verifier" / name).write_text(content)
    (sample,) = samples(tmp_path / "job").values()
    assert (sample.reward, sample.status) == (0.25, None)


def test_a_trajectory_is_read_by_any_name(tmp_path: Path) -> None:
    shutil.copy(JOB / SOLVED, tmp_path / "exported run.json")
    (sample, *_) = samples(tmp_path).values()
    assert (sample.columns["turns"], sample.prompt) == (
        2.0,
        "[system] You are an agent.\n[user] Write héllo. 🙂",
    )
