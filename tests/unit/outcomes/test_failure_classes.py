"""Classes of failures: the log decides first, then words, and without words there is no class."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.outcomes.failure_classes import Ending, Failure, inferred_failure, logged_failure
from rlpanel.sources.records.fields import build_record
from tests.ended_runs import call, plain_talk, tool_talk


def infer(end: Ending, **fields: Any) -> Failure:
    record = build_record(1, fields.items(), "f", full=True)
    return inferred_failure(end, record, {})


FAILED = Ending(reward=0.0)
ENDED_WELL = Ending(status="ok", reward=0.0)


@pytest.mark.parametrize(
    ("end", "name", "place"),
    [
        (Ending("timeout"), "timeout", "status"),
        (Ending("environment_error"), "environment_crash", "status"),
        (Ending("environment_error", "SandboxError: died"), "environment_crash", "status_reason"),
        (Ending("environment_error", "VerifierTimeoutError: 600 s"), "grader_crash", "status_reason"),
        (Ending("environment_error", "AgentTimeoutError: timed out"), "timeout", "status_reason"),
        (Ending("environment_error", "AgentSafetyRefusalError"), "refusal", "status_reason"),
        (Ending("tool_error", "JSONDecodeError: line 1"), "malformed_call", "status_reason"),
        (Ending("tool_error"), "tool_error", "status"),
        (Ending("truncated", "max_turns"), "cut_off", "status"),
        (Ending("truncated", "ContextWindowExceededError"), "context_full", "status_reason"),
        (Ending(finish="length", reward=0.0), "cut_off", "finish_reason"),
        (Ending(truncated=1.0, reward=0.0), "cut_off", "truncated"),
        (Ending(finish="context_window_exceeded", reward=0.0), "context_full", "finish_reason"),
    ],
)
def test_a_logged_end_names_the_class(end: Ending, name: str, place: str) -> None:
    found = logged_failure(end)
    assert found is not None
    assert (found.name, found.place, found.inferred) == (name, place, False)
    assert found.evidence


def test_an_end_that_says_nothing_names_no_class() -> None:
    for end in (FAILED, ENDED_WELL, Ending(finish="stop", reward=0.0), Ending("ok", "picked by the batch")):
        assert logged_failure(end) is None


@pytest.mark.parametrize(
    ("end", "failed"),
    [
        (Ending("ok", reward=1.0), False),
        (Ending("truncated", reward=1.0), False),
        (Ending("truncated"), True),
        (Ending("timeout", reward=1.0), True),
        (Ending("ok"), False),
        (Ending(), False),
        (Ending(reward=0.2, least=float("nan")), False),
        (Ending("truncated", reward=0.2, least=float("nan")), True),
    ],
)
def test_a_low_reward_is_a_failure_only_beside_a_reward_that_passes(end: Ending, failed: bool) -> None:
    assert end.failed == failed


@pytest.mark.parametrize(
    ("result", "name"),
    [
        ("Error: command timed out after 60 seconds", "timeout"),
        ("bash: exit code 124", "timeout"),
        ("Error: Connection refused", "environment_crash"),
        ("Error: container 3f2 was killed", "environment_crash"),
        ("Error: No space left on device", "environment_crash"),
        ("Error: maximum context length is 32768 tokens", "context_full"),
        ("Error: could not parse tool call arguments", "malformed_call"),
        ("Error: unknown tool 'serch'", "malformed_call"),
    ],
)
def test_the_last_result_of_a_tool_names_the_class_with_its_words(result: str, name: str) -> None:
    found = infer(FAILED, messages=tool_talk(result))
    assert (found.name, found.inferred, found.place) == (name, True, "message 3 (tool)")
    assert found.evidence in result


def test_an_earlier_result_does_not_count_because_the_policy_went_on() -> None:
    talk = tool_talk("Error: Connection refused", answer="Again.")
    talk += tool_talk("391")[1:]
    assert infer(FAILED, messages=talk).name == "unclassified"


def test_a_status_ok_rules_out_a_crash_of_the_environment_but_no_malformed_call() -> None:
    found = infer(ENDED_WELL, messages=tool_talk("Error: Connection refused"))
    assert (found.name, found.inferred) == ("wrong_answer", False)
    assert infer(ENDED_WELL, messages=tool_talk("Error: unknown tool 'x'")).name == "malformed_call"


def test_a_word_in_the_policys_own_answer_is_no_evidence() -> None:
    assert (
        infer(FAILED, messages=plain_talk("The server timed out, so the answer is 4.")).name == "unclassified"
    )
    assert infer(FAILED, response="Connection refused means that no one listens.").name == "unclassified"


@pytest.mark.parametrize(
    "words",
    [
        "I'm sorry, but I can't help with that.",
        "I cannot assist with this request.",
        "I won't provide that.",
        "Sorry, but I am unable to comply.",
    ],
)
def test_a_short_refusal_is_found_with_and_without_messages(words: str) -> None:
    for fields in ({"messages": plain_talk(words)}, {"response": words}):
        found = infer(FAILED, **fields)
        assert (found.name, found.inferred) == ("refusal", True)
        assert found.evidence in words


def test_words_within_a_long_or_other_answer_are_no_refusal() -> None:
    assert infer(FAILED, response="The set is empty, so I cannot divide.").name == "unclassified"
    assert infer(FAILED, response="I can't use that. " + "So I try again. " * 100).name == "unclassified"


def test_a_failed_judge_and_a_harness_that_did_not_run_are_crashes_of_the_grader() -> None:
    failed = infer(FAILED, response="r", judge_calls=[call("a", 1.0), call("b", None, error="HTTP 500")])
    assert (failed.name, failed.inferred, failed.place) == ("grader_crash", False, "judge call 2 (b)")
    empty = infer(FAILED, response="r", judge_calls=[call("a", None, answer="Hm.")])
    assert (empty.name, empty.inferred, empty.evidence) == ("grader_crash", True, "no verdict: 'Hm.'")
    harness = infer(ENDED_WELL, response="r", verifier={"log": "INTERNALERROR> no module named x"})
    assert (harness.name, harness.place) == ("grader_crash", "verifier: log")


def test_a_wrong_answer_needs_something_that_checked_it() -> None:
    assert infer(FAILED, response="r") == Failure("unclassified")
    tested = infer(FAILED, response="r", verifier={"log": "2 passed\nFAILED test_a - assert 1 == 2\n"})
    assert (tested.name, tested.evidence) == ("wrong_answer", "FAILED test_a - assert 1 == 2")
    judged = infer(FAILED, response="r", judge_calls=[call("a", 0.0)])
    assert (judged.name, judged.evidence) == ("wrong_answer", "score 0 of a, reward 0")
    ended = infer(Ending(finish="stop", reward=0.0), response="r")
    assert (ended.name, ended.inferred) == ("wrong_answer", True)
