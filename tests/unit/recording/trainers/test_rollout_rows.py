"""Rows of trainers: the messages of a conversation."""

from __future__ import annotations

from typing import Any

from rlpanel.recording.trainers.rollout_rows import conversation

PROMPT = [{"role": "user", "content": "2 + 2?"}]
ANSWER = {"role": "assistant", "content": "4"}


def test_a_plain_answer_is_not_written_twice() -> None:
    assert conversation(PROMPT, [ANSWER]) == {"messages": PROMPT}


def test_of_a_run_with_tools_every_answer_is_a_message() -> None:
    expected: dict[str, Any] = {"messages": [*PROMPT, ANSWER], "prompt_messages": 1}
    assert conversation(PROMPT, [ANSWER], whole=True) == expected


def test_several_turns_and_calls_are_written() -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [{"name": "add"}]}
    for completion in ([called], [ANSWER, ANSWER]):
        assert conversation(PROMPT, completion)["messages"] == [*PROMPT, *completion]
