"""Trajectories that OpenPipe ART 0.5.23 wrote: `write_trajectory_groups_parquet`, `_log_metrics`, its models.

Each step has a group with tool calls and a group with a rollout that raised. Step 2 also has a trajectory of
captured requests, a group of which all rollouts raised, and a trajectory with a second history.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.sources.scalars.find_scalars import find_scalars
from rlpanel.store.index.run_index import RunIndex
from tests.unit.sources.adapters.test_adapters import UPSTREAM
from tests.unit.store.index.test_run_index import look

ART = UPSTREAM / "openpipe-art-0.5.23"
MODEL = ART / ".art" / "sums" / "models" / "small"


def rows(folder: Path, split: str, *columns: str) -> list[list[Any]]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty
        assert not len(run.unread)
        frame = run.split(split).samples(text=True).astype(object)
    return frame.where(frame.notna(), None)[list(columns)].values.tolist()


def write(path: Path, *changed: dict[str, Any]) -> Path:
    """Write the first row of step 1, once with each change, as ART writes rows."""
    table = pq.read_table(MODEL / "trajectories" / "train" / "0001.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    first = table.to_pylist()[0]
    pq.write_table(pa.Table.from_pylist([first | change for change in changed], schema=table.schema), path)
    return path


def test_the_folder_of_a_model_is_a_run_although_it_is_hidden() -> None:
    assert [(info.name, info.files, info.rewarded) for info in rlpanel.discover(ART)] == [
        (".art/sums/models/small", 4, True)
    ]


def test_rewards_groups_and_failures_are_those_of_the_batch() -> None:
    """ART's own mean is over trajectories, without the rollouts that raised."""
    found = rows(MODEL, "train", "step", "group", "episode", "reward")
    assert [row[1:] for row in found if row[0] == 1] == [
        *(["0", f"0-{index}", index % 2] for index in range(4)), ["1", "1-0", 0.25], ["1", "1-1", 0.0],
    ]  # fmt: skip
    logged = [json.loads(line) for line in (MODEL / "history.jsonl").read_text().splitlines()]
    frame = pd.DataFrame(found, columns=["step", "group", "episode", "reward"])
    means = frame.drop_duplicates(["step", "episode"]).groupby("step")["reward"].mean()
    assert means.to_dict() == {row["step"]: row["train/reward"] for row in logged if "train/reward" in row}
    failures = rows(MODEL, "discarded", "step", "group", "reward", "status", "status_reason")
    assert failures == [
        [1, "1", None, "environment_error", "TimeoutError: no answer after 60 s"],
        [2, "1", None, "environment_error", "TimeoutError: no answer after 60 s"],
        [2, "3", None, "environment_error", "ValueError: no scenario"],
    ]


def test_a_group_of_another_evaluation_is_not_the_one_with_the_same_number() -> None:
    groups = [group for (group,) in rows(MODEL, "eval", "group")]
    assert {name: groups.count(name) for name in groups} == {"hard_sums:0": 2, "0": 4, "1": 2}


@pytest.mark.parametrize("folder", ["trajectories", "trajectories/val"])
def test_the_split_is_known_wherever_the_run_is_opened(folder: str) -> None:
    with rlpanel.open_run(MODEL / folder, follow=False) as run:
        assert len(run.split("eval").samples()) == {"trajectories": 8, "trajectories/val": 6}[folder]
        assert ("train" in run.splits) == (folder == "trajectories")


def test_tool_calls_tokens_and_numbers_are_those_of_the_choices() -> None:
    with rlpanel.open_run(MODEL, follow=False) as run:
        frame = run.split("train").samples()
        sample = run.sample(frame["uid"][1])
        moon = run.sample(frame["uid"][4])
    assert [(message["role"], message["content"]) for message in sample.messages] == [
        ("system", "You use tools."), ("user", "2 + 2?"), ("assistant", ""), ("tool", "4"),
        ("assistant", "4."),
    ]  # fmt: skip
    assert sample.messages[2]["tool_calls"] == [{"name": "add", "arguments": '{"a": 2, "b": 2}', "id": "c1"}]
    assert sample.prompt_messages == 2
    assert sample.response_tokens == ["<tool", "add", "4", "."]
    assert sample.arrays()["rollout_logprobs"].tolist() == [-0.1, -0.2, -0.1, -0.2]
    first = frame.iloc[1]
    assert (first["metrics/correct"], first["metadata/task"], first["tool_calls"]) == (1.0, "sum", 1.0)
    assert (first["policy_version_min"], first["policy_version_max"]) == (0, 1)
    assert moon.arrays()["response_token_ids"].tolist() == list(map(ord, "moon")), "logged as token_id:109"
    assert frame["truncated"].tolist()[:6] == [1, 0, 1, 0, 0, 0]


def test_captured_requests_are_joined_and_each_history_is_a_sample_of_its_episode() -> None:
    found = rows(MODEL, "train", "step", "episode", "prompt", "response")
    assert [row[1:] for row in found if row[0] == 2 and row[1][0] in "24"] == [
        ["2-0", "[user] 3 + 3?", "[assistant] Let me see.\n[user] Well?\n[assistant] 6"],
        ["2-0", "[user] Sum up.", "A summary."],
        ["4-0", "[system] You use tools.\n[user] 2 + 2?",
         '[assistant] [call] add({"a": 2, "b": 2})\n[tool] 4\n[assistant] 4.'],
        ["4-0", "[user] Judge it.", "Good."],
    ]  # fmt: skip


def test_requests_in_another_protocol_leave_a_note_and_a_later_version_is_refused(tmp_path: Path) -> None:
    items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "6"}]}]
    responses = {"request": {"instructions": "Add.", "input": "3 + 3?"}, "response": {"output": items}}
    exchanges = {"responses": [responses], "messages": [{"request": {}, "response": {}}]}
    write(
        tmp_path / "trajectories" / "train" / "0003.parquet",
        {"trajectory_json": json.dumps({"exchanges": exchanges})}, {"format_version": 3},
        {"trajectory_json": "[1"},
    )  # fmt: skip
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
        reasons = run.errors["reason"].tolist()
    assert (sample.prompt, sample.response) == ("[system] Add.\n[user] 3 + 3?", "6")
    assert list(sample.notes) == ["exchanges of the kind 'messages' are not read"]
    assert reasons[0] == "'format_version' is 3; only 2 is read"
    assert reasons[1].startswith("not valid JSON")


def test_the_trainers_scalars_are_shown(tmp_path: Path) -> None:
    with rlpanel.open_run(MODEL, follow=False) as run:
        scalars = run.scalars.set_index("step")
    assert scalars["train/reward"].to_dict() == {1: 0.375, 2: 0.53125}
    assert scalars["val/exception_rate"].to_dict() == pytest.approx({1: math.nan, 2: 1 / 7}, nan_ok=True)
    shutil.copy(MODEL / "history.jsonl", tmp_path)
    assert find_scalars(tmp_path, tmp_path) == [], "this name is ART's only beside its trajectories"


def test_a_step_is_shown_once_its_file_is_whole_and_again_if_it_is_written_anew(tmp_path: Path) -> None:
    shutil.copytree(MODEL / "trajectories" / "train", tmp_path / "trajectories" / "train")
    step_2 = tmp_path / "trajectories" / "train" / "0002.parquet"
    whole = step_2.read_bytes()
    step_2.unlink()
    index = RunIndex(tmp_path, "run")
    assert look(index).rows == 7
    step_2.write_bytes(whole[: len(whole) // 2])
    assert look(index).rows == 7
    step_2.write_bytes(whole)
    assert look(index).rows == 19
    other = write(tmp_path / "new.parquet", {}, {"trajectory_index": 1})
    os.replace(other, step_2)
    assert len(look(index).alive_rows) == 6 + 2, "without the rollout that raised"
    assert index.snapshot.steps.values.tolist() == [1, 2]
