"""Texts of judges that reward functions log under names of their own."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import rlpanel
from rlpanel.outcomes.failure_classes import Ending, inferred_failure
from rlpanel.sources.adapters.trl import Trl
from rlpanel.sources.adapters.verl import Verl
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.judge_calls import calls_in, judge_key

VERL = {"input": "17 * 23?", "output": "391", "gts": "391", "score": 1.0, "step": 3, "acc": True}


def test_what_verls_reward_loop_logs_becomes_a_call() -> None:
    line = VERL | {"genrm_response": "The answer is right.\n\n10", "genrm_score": 1.0}
    (record,) = Verl().read(line, "3.jsonl", full=True)
    assert record.agent is not None
    (call,) = record.agent.judge_calls
    assert (call.name, call.answer, call.score) == ("genrm", "The answer is right.\n\n10", 1.0)
    assert not call.is_missing
    assert record.numbers["judge_calls"] == 1
    assert record.extra["genrm_response"] == line["genrm_response"]  # the key stays as it is logged


def test_a_text_without_a_place_for_a_verdict_is_not_a_missing_verdict() -> None:
    (record,) = Verl().read(VERL | {"genrm_response": "Right."}, "3.jsonl", full=True)
    assert record.agent is not None
    (call,) = record.agent.judge_calls
    assert not call.is_missing
    assert not call.verdict
    assert math.isnan(call.score)
    assert record.numbers["judge_missing"] == 0
    failure = inferred_failure(Ending(reward=0.0, finish="stop"), record, {})
    assert failure.name != "crash of the grader"


def test_the_columns_of_trls_log_extra_become_calls() -> None:
    row = {
        "step": 1,
        "prompt": "p",
        "completion": "c",
        "style": 0.5,
        "judge_output": "Score: 4",
        "advantage": 0.1,
    }
    (record,) = Trl().read(row, "completions_00001.parquet", full=False)
    assert record.agent is not None
    assert [(call.name, call.answer) for call in record.agent.judge_calls] == [("judge", "Score: 4")]
    (record,) = Trl().read(row | {"judge": "It is short."}, "completions_00001.parquet", full=True)
    assert record.agent is not None
    assert record.agent.judge_calls[0].answer in ("Score: 4", "It is short.")


def test_the_metadata_of_slimes_reward_functions_are_looked_into() -> None:
    judge = {"passed": False, "score": 0.25, "reason": "one test fails"}
    record = build_record(
        1, {"prompt": "p", "response": "r", "metadata": {"judge": judge, "id": 4}}.items(), "", full=True
    )
    assert record.agent is not None
    (call,) = record.agent.judge_calls
    assert (call.name, call.verdict, call.score) == ("judge", "false", 0.25)


def test_several_results_are_several_calls_and_an_error_is_missing() -> None:
    calls = calls_in(
        [("judge_results", [{"score": 1, "reason": "a"}, {"score": 0}]), ("strict_judge_error", "HTTP 503")]
    )
    assert [(call.name, call.score) for call in calls[:2]] == [("judge", 1.0), ("judge", 0.0)]
    assert calls[2].name == "strict_judge"
    assert calls[2].is_missing


@pytest.mark.parametrize(
    "key", ["judge_score", "judgement", "prejudge", "judge_failed", "critic_response", "judging_text"]
)
def test_other_keys_are_left_alone(key: str) -> None:
    assert judge_key(key) is None or judge_key(key).part == "score"  # type: ignore[union-attr]
    record = (
        build_record(1, {"prompt": "p", "response": "r", key: 0.5}.items(), "", full=True)
        if key != "response"
        else None
    )
    assert record is None or not record.agent or not record.agent.judge_calls


def test_lines_that_are_read_in_batches_have_the_calls_too(tmp_path: Path) -> None:
    lines = [
        {
            "step": step,
            "prompt": "p",
            "response": "r",
            "reward": 1.0,
            "judge_text": f"text {step}",
            "judge_score": step / 4,
        }
        for step in range(1, 5)
        for _ in range(40)
    ]
    (tmp_path / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    with rlpanel.open_run(tmp_path) as run:
        snapshot = run.snapshot
        assert snapshot.number("judge_calls").tolist() == [1.0] * len(lines)
        (call,) = run.sample(snapshot.uid(len(lines) - 1)).judge_calls
    assert (call.answer, call.score) == ("text 4", 1.0)
