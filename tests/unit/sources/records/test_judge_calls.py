"""Calls of judges in the shapes in which they are logged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import JudgeCall
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.judge_calls import judge_calls, judge_columns, score_by_judge, score_of
from tests.ended_runs import call

VERIFIERS = Path(__file__).parents[3] / "data" / "upstream" / "verifiers-0.4.0" / "judges"


def only(value: Any) -> JudgeCall:
    (found,) = judge_calls(value)
    return found


def test_a_call_with_every_key_is_read() -> None:
    found = only([call("style", 1.0, cost=0.002)])
    assert (found.name, found.model, found.verdict, found.score) == ("style", "judge-style", "yes", 1.0)
    assert found.request == (("system", "Grade."), ("user", "style: is 391 right?"))
    assert (found.prompt_tokens, found.answer_tokens, found.seconds, found.cost) == (120, 8, 0.5, 0.002)
    assert found.answer == "I think so: yes."
    assert not found.is_missing


def test_what_verifiers_own_judges_recorded_is_read() -> None:
    with rlpanel.open_run(VERIFIERS, follow=False) as run:
        rows = run.snapshot.rows_of(1)
        samples = [run.sample(uid) for uid in run.snapshot.uids(rows)]
        missing = run.snapshot.number("judge_missing")[rows].tolist()
    assert [[each.score for each in sample.judge_calls] for sample in samples[:3]] == [[1, 1], [0, 0], [1, 0]]
    undecided = samples[3].judge_calls[1]
    assert (undecided.name, undecided.answer, undecided.verdict) == ("strict", "maybe", "")
    assert missing == [0, 0, 0, 1]
    assert [each.model for each in samples[0].judge_calls] == ["judge-lenient", "judge-strict"]
    assert "Reference answer" in samples[0].judge_calls[0].request[0][1]
    assert samples[0].judge_calls[0].prompt_tokens == 90


@pytest.mark.parametrize(
    ("verdict", "text", "score"),
    [
        (True, "true", 1.0),
        (0, "0", 0.0),
        ("Correct.", "Correct.", 1.0),
        ("incorrect", "incorrect", 0.0),
        ("7", "7", 7.0),
        ("B", "B", math.nan),
        ({"score": 0.5, "why": "x"}, '{"score": 0.5, "why": "x"}', 0.5),
        ([1, 2], "1\n2", math.nan),
        (None, "", math.nan),
        (float("nan"), "NaN", math.nan),
    ],
)
def test_verdicts_of_other_shapes(verdict: Any, text: str, score: float) -> None:
    found = only([{"name": "j", "verdict": verdict}])
    assert found.verdict == text
    assert found.score == score or (math.isnan(score) and math.isnan(found.score))
    assert found.is_missing == (verdict is None)


def test_a_list_an_object_by_name_and_single_values_are_calls() -> None:
    by_name = judge_calls({"style": {"verdict": "yes"}, "facts": [0.25, None], "form": "Looks fine to me."})
    assert [each.name for each in by_name] == ["style", "facts", "facts", "form"]
    assert [each.verdict for each in by_name] == ["yes", "0.25", "", ""]
    assert by_name[3].answer == "Looks fine to me."
    assert (
        only({"request": "Grade.", "response": {"choices": [{"message": {"content": "no"}}]}}).answer == "no"
    )
    assert only({"prompt": "Grade.", "verdict": "no"}).request == (("", "Grade."),)
    for wrong in (3, "text"):
        with pytest.raises(ValueError, match="neither a list nor an object"):
            judge_calls(wrong)


def test_a_field_of_another_type_is_a_remark_and_the_sample_is_kept() -> None:
    record = build_record(1, [("response", "r"), ("judge_calls", 3)], "f", full=True)
    assert any("judge_calls" in note for note in record.notes)
    assert record.texts["response"] == "r"


def test_columns_sum_only_what_all_calls_log() -> None:
    calls = judge_calls([call("a", 1.0), call("a", 0.0), call("b", 1.0), call("c", None, error="HTTP 500")])
    columns = judge_columns(calls)
    assert columns == {
        "judge_calls": 4.0, "judge_missing": 1.0, "judge_tokens": 4 * 128.0, "judge_seconds": 2.0,
        "judge_disagreement": 0.5,
    }  # fmt: skip
    assert score_by_judge(calls) == {"a": 0.5, "b": 1.0}
    assert "judge_seconds" not in judge_columns(judge_calls([call("a", 1.0), {"verdict": "no"}]))


def test_words_count_only_as_a_whole() -> None:
    assert math.isnan(score_of("yes and no"))
    assert score_of("**Pass**") == 1.0


def test_a_sample_that_is_copied_as_a_line_keeps_its_calls(tmp_path: Path) -> None:
    from rlpanel.store.query.notes_beside_log import Note
    from rlpanel.store.query.samples_export import sample_line

    line = {"step": 1, "response": "r", "judge_calls": [call("a", 0.0)], "verifier": "1 failed"}
    (tmp_path / "rollout_data_rank_0.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.snapshot.uid(0))
    copied = json.loads(sample_line(sample, Note(sample.uid)))
    # A score that was not logged is NaN, which equals itself in no field.
    assert repr(judge_calls(copied["judge_calls"])) == repr(sample.judge_calls)
    assert copied["verifier"] == {"verifier": "1 failed"}
