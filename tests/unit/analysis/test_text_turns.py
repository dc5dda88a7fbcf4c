"""Messages that are found in texts: markup of chat templates, tool calls and reasoning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel import open_run
from rlpanel.analysis.text_turns import conversation_of
from rlpanel.schema import Sample

#: A response of two turns around a tool's result, as templates of several families write it.
RESPONSES = {
    "Qwen": '<think>\nadd\n</think>\n<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'
    "<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    "It is 4.<|im_end|>",
    "Qwen without special tokens": '<think>\nadd\n</think>\n<tool_call>\n{"name": "add", "arguments": '
    '{"a": 2}}\n</tool_call>\nuser\n<tool_response>\n4\n</tool_response>\nassistant\nIt is 4.',
}
LLAMA = (
    "I look it up.<|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n4<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nIt is 4.<|eot_id|>"
)


def sample(**fields: Any) -> Sample:
    return Sample(uid="log.jsonl:0", step=1, **fields)


@pytest.mark.parametrize("response", RESPONSES.values(), ids=list(RESPONSES))
def test_an_episode_in_one_text_is_divided_into_its_turns(response: str) -> None:
    found = conversation_of(sample(prompt="2 + 2?", response=response))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "tool", "assistant"]
    called, result, answer = found.messages[1:]
    assert called["reasoning_content"] == "add"
    assert called["tool_calls"] == [{"name": "add", "arguments": '{"a": 2}'}]
    assert called["content"] == ""
    assert (result["content"], answer["content"]) == ("4", "It is 4.")
    assert (found.prompt_messages, found.from_text, found.has_turns) == (1, True, True)


def test_a_template_without_tags_around_tools() -> None:
    found = conversation_of(sample(prompt="2 + 2?", response=LLAMA))
    assert [(message["role"], message["content"]) for message in found.messages[1:]] == [
        ("assistant", "I look it up."),
        ("tool", "4"),
        ("assistant", "It is 4."),
    ]


def test_a_prompt_in_a_chat_template_is_divided_too() -> None:
    prompt = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n"
    )
    found = conversation_of(sample(prompt=prompt, response="4"))
    contents = [(message["role"], message["content"]) for message in found.messages]
    assert contents[:2] == [("system", "Be brief."), ("user", "2 + 2?")]
    assert contents[-1] == ("assistant", "4")


def test_a_turn_that_the_prompt_begins_is_shown_whole() -> None:
    begun = '<tool_call>\n{"name": "add", "argum'
    prompt = f"<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n{begun}"
    rest = (
        'ents": {"a": 2}}\n</tool_call><|im_end|>\n<|im_start|>tool\n4<|im_end|>\n'
        "<|im_start|>assistant\nIt is 4."
    )
    found = conversation_of(sample(prompt=prompt, response=rest))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.messages[1]["tool_calls"] == [{"name": "add", "arguments": '{"a": 2}'}]
    assert (found.prompt_messages, found.begun) == (1, begun)
    assert [message["content"] for message in found.response] == [
        'ents": {"a": 2}}\n</tool_call>',
        "4",
        "It is 4.",
    ]


def test_a_tools_result_that_the_prompt_begins_is_shown_whole() -> None:
    call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    prompt = (
        f"<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n{call}<|im_end|>\n<|im_start|>tool\n10"
    )
    found = conversation_of(
        sample(prompt=prompt, response="8<|im_end|>\n<|im_start|>assistant\nIt is 108.<|im_end|>")
    )
    contents = [(message["role"], message["content"]) for message in found.messages]
    assert contents[2:] == [("tool", "108"), ("assistant", "It is 108.")]
    assert (found.prompt_messages, found.begun) == (2, "10")


def test_an_answer_that_the_template_begins_with_a_tag_is_one_message() -> None:
    prompt = "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    found = conversation_of(sample(prompt=prompt, response="add</think>\n4"))
    assert len(found.messages) == 2
    assert (found.messages[1]["reasoning_content"], found.messages[1]["content"]) == ("add", "4")
    assert (found.prompt_messages, found.begun) == (1, "")


@pytest.mark.parametrize(
    "prompt",
    [
        "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n5<|im_end|>\n",
        "[user] 2 + 2?\n[assistant] 5",
        "Question: 2 + 2?\nAnswer: with a number only",
    ],
    ids=["closed", "rlpanel's markup", "plain dialogue"],
)
def test_a_turn_that_the_prompt_may_have_ended_is_not_joined(prompt: str) -> None:
    found = conversation_of(sample(prompt=prompt, response="4"))
    assert found.messages[-1]["content"] == "4"
    assert found.begun == ""


def test_plain_texts_are_one_question_and_one_answer() -> None:
    """A model that writes the names of roles itself has not begun another turn."""
    found = conversation_of(sample(prompt="2 + 2?", response="4\nuser\nAnd 3 + 3?\nassistant\n6"))
    assert len(found.messages) == 2
    assert not found.has_turns
    assert not found.from_text


def test_logged_messages_stay_as_they_are() -> None:
    """Markup inside of a logged message with further fields is the model's own text."""
    logged = [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "<|im_start|>user\nb",
            "tool_calls": [{"name": "f", "arguments": ""}],
        },
    ]
    found = conversation_of(sample(messages=logged, prompt_messages=1))
    assert found.messages == logged


def test_a_broken_tool_call_keeps_its_text() -> None:
    found = conversation_of(sample(response='<tool_call>{"name": "add", "argu</tool_call>'))
    assert found.messages[0]["tool_calls"] == [
        {"name": "unreadable call", "arguments": '{"name": "add", "argu'}
    ]


def test_deeply_nested_json_in_a_call_does_no_harm() -> None:
    found = conversation_of(sample(response=f"<tool_call>{'[' * 100_000}</tool_call>"))
    assert found.messages[0]["tool_calls"][0]["name"] == "unreadable call"


def test_the_loss_mask_divides_a_response_without_markup() -> None:
    mask = np.array([1, 1, 0, 0, 1.0])
    found = conversation_of(sample(response="ab e", loss_mask=mask), ["a", "b", "c", "d", "e"])
    assert [(message["role"], message["content"]) for message in found.messages] == [
        ("assistant", "ab"),
        ("environment", "cd"),
        ("assistant", "e"),
    ]


def test_tokens_of_a_real_recording_tell_the_turns_that_its_text_leaves_out() -> None:
    with open_run(Path("tests/data/trl_tools"), follow=False) as run:
        first = run.sample(run.samples().uid.iloc[0])
    assert not first.messages
    assert first.response is not None
    assert "tool" not in first.response
    found = conversation_of(first, first.response_tokens or [])
    assert [message["role"] for message in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.messages[1]["tool_calls"][0]["name"] == "add"


def test_markup_that_repeats_is_divided_in_linear_time() -> None:
    """Each doubling of the text takes about twice as many steps of the pattern: none of them looks back."""
    unit = "<tool_call>{</tool_call><tool_response>\n<think>"
    found = conversation_of(sample(response=unit * 20_000))
    assert len(re.findall("tool", "".join(message["role"] for message in found.messages))) >= 1


def test_a_call_written_by_tags_is_read() -> None:
    text = "<tool_call>\n<function=run>\n<parameter=code>\nprint(1)\n</parameter>\n</function>\n</tool_call>"
    sample = Sample(uid="a:0", step=1, prompt="q", response=text)
    call = conversation_of(sample).messages[1]["tool_calls"][0]
    assert call == {"name": "run", "arguments": '{"code": "print(1)"}'}


def test_a_call_whose_markup_was_not_decoded_is_found_and_a_broken_one_keeps_its_text() -> None:
    broken = '\n{"name": "add", "arguments": {"a": im}}\n\nassistant\n'
    message = conversation_of(sample(prompt="4 + 3?", response=broken)).messages[-1]
    assert message["tool_calls"] == [
        {"name": "unreadable call", "arguments": '{"name": "add", "arguments": {"a": im}}'}
    ]
    assert message["content"] == "assistant"
    whole = conversation_of(sample(prompt="", response='{"name": "add", "parameters": {"a": 4}}')).messages[
        -1
    ]
    assert whole["tool_calls"] == [{"name": "add", "arguments": '{"a": 4}'}]
    text = 'I say {"name": "add", "arguments": {}} here'
    assert conversation_of(sample(prompt="", response=text)).messages[-1]["content"] == text
