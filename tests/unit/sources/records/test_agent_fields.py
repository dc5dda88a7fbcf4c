"""Fields of agents' rollouts: rewards of turns, policy versions, times, judges, images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.record_types import Record

CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "add", "arguments": "{}"}]}
ANSWER = {"role": "assistant", "content": "4"}


def read(*, full: bool = True, **fields: Any) -> Record:
    return build_record(1, fields.items(), "run.jsonl", full=full)


@pytest.mark.parametrize(
    ("logged", "versions", "low", "high"),
    [
        (3, ((3, -1),), 3, 3),
        ([3, 5], ((3, -1), (5, -1)), 3, 5),
        ([3, 3], ((3, -1),), 3, 3),
        ([[5, 2], [3, 1]], ((5, 2), (3, 1)), 3, 5),
        ([1, 1, 2, 1], ((1, 2), (2, 1), (1, 1)), 1, 2),
    ],
    ids=["number", "span", "span of one", "runs", "per token"],
)
def test_policy_versions_of_all_forms_are_runs(logged: Any, versions: Any, low: int, high: int) -> None:
    for full in (True, False):
        record = read(full=full, policy_version=logged, response="r")
        assert record.agent is not None
        assert record.agent.policy_versions == versions
        assert (record.numbers["policy_version_min"], record.numbers["policy_version_max"]) == (low, high)
        assert "lag" not in record.numbers


def test_the_lag_is_the_trainers_version_minus_the_oldest() -> None:
    record = read(trainer_version=7, policy_version=[[5, 2], [3, 1]], response="r")
    assert record.numbers["lag"] == 4


@pytest.mark.parametrize("bad", ["new", [1.5], [[1]], {"first": 1}])
def test_a_version_that_is_none_is_noted(bad: Any) -> None:
    record = read(policy_version=bad, response="r")
    assert len(record.notes) == 1
    assert "policy_version_min" not in record.numbers


def test_seconds_of_phases_are_columns_and_their_sum_the_total() -> None:
    record = read(response="r", timing={"generation": 1.5, "tool": 0.5, "start": 1.8e9, "warmup": 9})
    assert record.agent is not None
    assert record.agent.timing["warmup"] == 9
    assert record.numbers == {
        "response_chars": 1.0,
        "generation_seconds": 1.5,
        "tool_seconds": 0.5,
        "seconds": 2.0,
        "start_time": 1.8e9,
    }


def test_spans_in_unix_seconds_count_from_the_start_and_give_the_seconds() -> None:
    spans = [["tool", 1.8e9 + 2, 1.8e9 + 5], {"phase": "generation", "start": 1.8e9, "end": 1.8e9 + 2}]
    record = read(response="r", timing={"spans": spans})
    assert record.agent is not None
    assert record.agent.spans == (("generation", 0.0, 2.0), ("tool", 2.0, 5.0))
    assert record.numbers["tool_seconds"] == 3
    assert (record.numbers["seconds"], record.numbers["start_time"]) == (5, 1.8e9)


def test_a_logged_total_is_the_total() -> None:
    record = read(response="r", timing={"generation": 1.0, "tool": 1.0, "total": 1.5})
    assert record.numbers["seconds"] == 1.5


@pytest.mark.parametrize("bad", [3, {"tool": "long"}, {"spans": [["tool", 1]]}])
def test_timing_of_another_program_is_not_the_rollouts(bad: Any) -> None:
    record = read(response="r", timing=bad)
    assert (record.notes, "seconds" in record.numbers) == ([], False)


def test_turn_rewards_of_messages_stand_in_for_logged_ones() -> None:
    record = read(prompt="p", response=[CALL | {"reward": 0.5}, {"role": "tool", "content": "4"}, ANSWER])
    assert record.agent is not None
    np.testing.assert_array_equal(record.agent.turn_rewards, [0.5, np.nan])
    record = read(prompt="p", turn_rewards=[0.0, None], response=[CALL, ANSWER])
    assert record.agent is not None
    np.testing.assert_array_equal(record.agent.turn_rewards, [0.0, np.nan])


def test_turn_rewards_for_other_turns_are_noted() -> None:
    record = read(prompt="p", turn_rewards=[0.0], response=[CALL, ANSWER])
    assert record.notes == ["'turn_rewards' has 1 values for 2 turns"]
    assert record.numbers["turns"] == 2


def test_texts_of_judges_and_images_beside_the_messages_are_kept() -> None:
    image = "data:image/png;base64,AAAA"
    record = read(response="r", judge={"style": "good", "none": None}, images=["images/a.png", image])
    assert record.agent is not None
    assert record.agent.judge == {"style": "good"}
    embedded = {"media_type": "image/png", "size": 3, "key": "c4a60ab824c912a1"}
    assert record.agent.images == [{"url": "images/a.png"}, embedded]
    assert record.numbers["images"] == 2
