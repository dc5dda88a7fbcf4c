"""Answers that other keys show: solutions by task, answers taken out, turns with a final verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.sources.inference.infer import infer


def _solutions(ids: list[str], **more: Any) -> list[dict[str, Any]]:
    return [
        {"task_id": each, "solution": f"def f():\n    return {at}\n"} | more for at, each in enumerate(ids)
    ]


@pytest.mark.parametrize(
    ("records", "path"),
    [
        (_solutions(["sort-1", "sort-1", "sort-2"]), "out.jsonl"),
        (_solutions(["sort-1", "sort-2"], _identifier="sort-1 (line 1)"), "out.jsonl"),
        (_solutions(["Mbpp/1", "Mbpp/2"]), "out.jsonl"),
        (_solutions(["sort-1", "sort-2"]), "generations.jsonl"),
    ],
)
def test_solutions_by_task_without_questions_are_responses(records: list[dict[str, Any]], path: str) -> None:
    found = infer(records, path)
    assert found.is_run
    assert (found.keys["response"], found.keys["group"]) == ("solution", "task_id")


@pytest.mark.parametrize(
    "records",
    [
        _solutions(["sort-1", "sort-2"]),
        _solutions(["Mbpp/1", "Mbpp/2"], prompt="Write a function that sorts."),
        _solutions(["Mbpp/1", "Mbpp/2"], test_list=["assert f() == 0"]),
        _solutions(["Mbpp/1", "Mbpp/2"], canonical_solution="def f(): ..."),
    ],
)
def test_solutions_of_a_data_set_are_not(records: list[dict[str, Any]]) -> None:
    assert not infer(records, "out.jsonl").is_run


def test_an_answer_taken_out_beside_its_reference_and_a_verdict_is_a_response() -> None:
    records = [
        {"problem_id": at, "parsed_answer": f"{at} m", "reference_answer": "3 m", "accuracy": int(at == 3)}
        for at in range(5)
    ]
    found = infer(records)
    assert found.is_run
    assert (found.keys["response"], found.keys["reward"]) == ("parsed_answer", "accuracy")
    assert not infer([{key: each[key] for key in ("problem_id", "parsed_answer")} for each in records]).is_run


def test_turns_with_an_answer_each_are_one_conversation(tmp_path: Path) -> None:
    rounds = [[{"answer": "4"}], [{"answer": "5"}, {"feedback": "Try again.", "answer": "6"}]]
    records = [
        {"question": f"What is {at} plus four?", "rounds": each, "final_accuracy": at}
        for at, each in enumerate(rounds)
    ]
    (tmp_path / "cases.json").write_text(
        json.dumps({"summary": {"n": 2}, "cases": records}), encoding="utf-8"
    )
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
        talk = [(each["role"], each["content"]) for each in run.sample(rows["uid"][1]).messages]
    assert list(rows["reward"]) == [0.0, 1.0]
    assert talk == [
        ("user", "What is 1 plus four?"),
        ("assistant", "5"),
        ("user", "Try again."),
        ("assistant", "6"),
    ]
