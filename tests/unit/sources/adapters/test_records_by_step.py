"""Documents that keep their samples by step: each sample gets the step that its key names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.sources.adapters.record_shapes import BY_STEP, arrange_by_step
from rlpanel.sources.inference.infer import infer_document


def _samples(first: int = 0) -> list[dict[str, Any]]:
    return [
        {"prompt": f"Count to {at} please", "response": f"I count to {at + first}.", "reward": float(at % 2)}
        for at in range(3)
    ]


@pytest.mark.parametrize(
    ("document", "steps"),
    [
        ({"step_0": _samples(), "step_10": _samples(1)}, {0, 10}),
        ({"0": _samples(), "50": _samples(1), "100": _samples(2)}, {0, 50, 100}),
        ({"model": "m", "checkpoints": {"1": _samples(), "2": _samples(1)}}, {1, 2}),
        (
            {"iteration 7": {"loss": 0.5, "rollouts": _samples()}, "iteration 8": {"rollouts": _samples(1)}},
            {7, 8},
        ),
    ],
)
def test_samples_have_the_step_of_their_key(
    tmp_path: Path, document: dict[str, Any], steps: set[int]
) -> None:
    (tmp_path / "all.json").write_text(json.dumps(document), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert set(rows["step"]) == steps
    assert len(rows) == 3 * len(steps)
    last = rows[rows["step"] == max(steps)]
    assert sorted(last["response"]) == [f"I count to {at + len(steps) - 1}." for at in range(3)]


def _of_question(number: int) -> list[dict[str, Any]]:
    return [{**each, "prompt": f"Question number {number}"} for each in _samples(number)]


@pytest.mark.parametrize(
    "document",
    [
        {"0": _of_question(0), "10": _of_question(10)},
        {"0": _samples(), "1": _samples(1)},
        {"20": _samples(), "10": _samples(1)},
        {"step_1": [_samples()[0]], "step_2": [_samples()[1]]},
        {"step_1": [{**each, "step": 3} for each in _samples()], "step_2": _samples()},
        {"a": _samples(), "b": _samples(1)},
    ],
)
def test_other_documents_are_not_arranged(document: dict[str, Any]) -> None:
    assert arrange_by_step(document) is None


def test_what_is_around_the_samples_stays() -> None:
    arranged = arrange_by_step({"model": "m", "steps": {"1": _samples(), "3": _samples()}})
    assert arranged is not None
    assert arranged["model"] == "m"
    assert [each["step"] for each in arranged[BY_STEP]] == [1, 1, 1, 3, 3, 3]


def test_numbers_that_count_from_zero_are_read_with_a_remark() -> None:
    found = infer_document({"0": _samples(), "1": _samples(1), "2": _samples(2)})
    assert found is not None
    assert found.is_run
    assert found.doubts == ("the numbers 0 to 2 around the samples may be steps",)


def test_lists_by_name_in_the_only_object_are_all_read(tmp_path: Path) -> None:
    document = {"runs": {"first": _samples(), "second": _samples(1)}}
    (tmp_path / "all.json").write_text(json.dumps(document), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        assert len(run.samples()) == 6
