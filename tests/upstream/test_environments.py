"""Files that OpenPipe ART, atropos and LLaMA-Factory write themselves are read with the values in them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.sources.scalars.find_scalars import find_scalars
from tests.upstream.process import run_once


@pytest.fixture(scope="module")
def run_writer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs a writer once and returns its folder."""
    return run_once(tmp_path_factory, "tests.upstream.writers_environments")


def rows(folder: Path, split: str, *columns: str) -> list[list[Any]]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        assert run.unread.empty, run.unread
        frame = run.split(split).samples(text=True).astype(object)
    return frame.where(frame.notna(), None)[list(columns)].values.tolist()


def test_arts_trajectories_are_samples_of_their_step_split_and_group(run_writer: Any) -> None:
    folder = run_writer("openpipe_art")
    assert [info.name for info in rlpanel.discover(folder)] == [".art/sums/models/small"]
    columns = ("step", "group", "reward", "policy_version_min", "metrics/right", "truncated", "tool_calls")
    sums = [["0", 1.0, 1.0, 0.0, 1.0], ["0", 0.0, 0.0, 1.0, 1.0]]
    others = [["1", 0.5, None, 0.0, 0.0]] * 2
    expected = [
        [step, group, reward, step - 1 if group == "0" else None, right, cut, calls]
        for step in (1, 2)
        for group, reward, right, cut, calls in [*sums, *others]
    ]
    assert rows(folder, "train", *columns) == expected
    assert rows(folder, "eval", *columns) == [row for row in expected if row[1] == "0"]
    failed = rows(folder, "discarded", "step", "group", "reward", "status_reason")
    assert failed == [[step, "1", None, "TimeoutError: no answer"] for step in (1, 2)]


def test_arts_tokens_scalars_and_conversations_are_those_of_the_choices(run_writer: Any) -> None:
    with rlpanel.open_run(run_writer("openpipe_art"), follow=False) as run:
        frame = run.split("train").samples(text=True)
        sample = run.sample(frame["uid"][1])
        assert run.scalars["train/reward"].tolist() == [0.5, 0.5]
    assert frame["response"].tolist()[1:4] == [
        '[assistant] [call] add({"a": 2})\n[tool] 4\n[assistant] five', "moon", "good",
    ]  # fmt: skip
    assert "".join(map(chr, sample.arrays()["response_token_ids"].astype(int))) == "+five"
    assert sample.arrays()["rollout_logprobs"].tolist() == pytest.approx([-0.1, -0.1, -0.2, -0.3, -0.4])


def test_the_groups_of_atropos_are_the_lines(run_writer: Any) -> None:
    found = rows(
        run_writer("atropos"), "train", "step", "reward", "response_tokens", "context_tokens", "response"
    )
    assert found == [
        [0, 1.0, 4, 2, "[assistant] add\n[tool] =4\n[assistant] 4"],
        [0, -1.0, 7, 2, "[assistant] add\n[tool] =4\n[assistant] five"],
        [0, 1.0, 4, 2, None], [0, 0.0, 4, 2, None],
    ]  # fmt: skip
    groups = [group for (group,) in rows(run_writer("atropos"), "train", "group")]
    assert [groups.count(name) for name in dict.fromkeys(groups)] == [2, 2]
    logprobs = rows(run_writer("atropos"), "train", "engine_logprob_mean")
    assert [math.isclose(value, -0.5) for (value,) in logprobs] == [True] * 4


def test_llama_factorys_log_holds_scalars(run_writer: Any) -> None:
    folder = run_writer("llamafactory")
    (found,) = find_scalars(folder, folder)
    read = found.open(found.path, found.name).poll(1 << 20)
    assert read.bad == []
    assert [(step, row.get("loss"), row.get("eval_loss"), row.get("lr")) for step, row in read.rows] == [
        (10, 0.5, None, 1e-5), (10, None, 0.25, None), (20, 0.4, None, None),
    ]  # fmt: skip
