"""Requests' verdicts, shares in percent, and words against an answer are not rewards in silence."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.sources.inference.infer import infer


def _records(**more: list[Any]) -> list[dict[str, Any]]:
    """Return one record per value, with a prompt and a response of its own."""
    count = len(next(iter(more.values())))
    return [
        {"question": f"How tall is tower number {at}?", "response": f"It is {at} metres tall."}
        | {key: values[at] for key, values in more.items()}
        for at in range(count)
    ]


REFUSED = "success is not the reward: it says that the request succeeded"


@pytest.mark.parametrize("codes", [[200, 200, 200], [200, 503, 429], [500, 201, 200]])
def test_a_verdict_that_agrees_with_the_http_codes_is_not_the_reward(codes: list[int]) -> None:
    found = infer(_records(success=[code < 300 for code in codes], status_code=codes, model=["qwen-7b"] * 3))
    assert found.keys == {"prompt": "question", "response": "response"}
    assert found.is_run
    assert found.doubts == (REFUSED,)


def test_a_verdict_that_does_not_agree_with_the_codes_is_the_reward() -> None:
    found = infer(_records(success=[True, False, True], status_code=[200, 200, 200]))
    assert found.keys["reward"] == "success"
    assert found.doubts == ()


def test_a_verdict_that_is_false_where_there_is_an_error_and_no_text_is_not_the_reward() -> None:
    records = _records(success=[True, False, True], error=[None, "timed out", None])
    records[1]["response"] = ""
    found = infer(records)
    assert "reward" not in found.keys
    assert not found.is_run
    assert found.problem == f"{REFUSED}, and nothing else shows that a policy wrote the texts"


@pytest.mark.parametrize(
    ("verdicts", "errors"), [([True, True], [None, None]), ([True, False], ["", "assertion failed"])]
)
def test_a_verdict_that_may_be_the_tasks_is_read_with_a_remark(
    verdicts: list[Any], errors: list[Any]
) -> None:
    found = infer(_records(success=verdicts, error=errors))
    assert found.keys["reward"] == "success"
    assert found.doubts == ("success may say that the request succeeded, not the task",)


def test_the_score_beside_the_status_of_a_request_is_the_reward() -> None:
    found = infer(_records(success=[True, True], status_code=[200, 200], score=[0.5, 0.25]))
    assert found.keys["reward"] == "score"


def test_the_status_may_be_in_an_object() -> None:
    call = [{"ok": True, "http_status": 200}, {"ok": False, "http_status": 500}]
    assert "reward" not in infer(_records(call=call, status=["a", "b"])).keys


@pytest.mark.parametrize("key", ["error", "failed", "is_incorrect", "was_truncated"])
def test_a_word_against_the_answer_is_not_the_reward(key: str) -> None:
    found = infer(_records(**{key: [True, False, True]}, target=["1", "2", "3"]))
    assert "reward" not in found.keys
    assert infer(_records(judged=[True, False, True], target=["1", "2", "3"])).keys["reward"] == "judged"


@pytest.mark.parametrize("key", ["accuracy", "accuracy %", "accuracy_percent", "exact_match", "score_pct"])
def test_shares_above_one_are_read_as_they_are_with_a_remark(key: str) -> None:
    found = infer(_records(**{key: [87.5, 0.0, 100.0]}))
    assert found.keys["reward"] == key
    assert found.doubts == (f"{key} has values above 1, perhaps percent; they are read as they are",)


@pytest.mark.parametrize(
    ("key", "values"), [("accuracy", [0.5, 1.0]), ("accuracy", [250.0, 3.0]), ("score", [87.5, 12.0])]
)
def test_other_values_get_no_remark(key: str, values: list[float]) -> None:
    assert infer(_records(**{key: values})).doubts == ()


@pytest.mark.parametrize("measure", ["latency_ms", "usage", "elapsed_s"])
def test_a_verdict_beside_what_a_request_took_is_read_with_a_remark(measure: str) -> None:
    found = infer(_records(success=[True, True, True], model=["qwen-7b"] * 3, **{measure: [1.5, 2.0, 0.5]}))
    assert found.keys["reward"] == "success"
    assert found.doubts == ("success may say that the request succeeded, not the task",)


def test_a_verdict_that_is_true_exactly_where_a_request_gave_a_text_is_not_the_reward() -> None:
    records = _records(success=[True, False, True], model=["qwen-7b"] * 3, latency_ms=[15, 30, 12])
    records[1]["response"] = ""
    found = infer(records)
    assert "reward" not in found.keys
    assert found.doubts == (REFUSED,)


def test_a_verdict_that_differs_beside_texts_is_the_reward() -> None:
    found = infer(_records(success=[True, False, True], model=["qwen-7b"] * 3, latency_ms=[15, 30, 12]))
    assert found.keys["reward"] == "success"
    assert found.doubts == ()
