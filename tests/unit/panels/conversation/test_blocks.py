"""Blocks of a conversation: results beside their calls, rewards of turns, JSON that is indented."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.panels.conversation.blocks import MessageBlock, blocks_of, turn_tokens
from rlpanel.schema import Sample


def call(name: str, identifier: str = "", arguments: str = "{}") -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({"id": identifier} if identifier else {})}


def made(*messages: dict[str, Any], prompt: int = 1, **fields: Any) -> list[MessageBlock]:
    sample = Sample(uid="log.jsonl:0", step=1, messages=messages, prompt_messages=prompt, **fields)
    conversation = conversation_of(sample)
    response = conversation.messages[prompt:]
    return blocks_of(sample, conversation, turn_tokens(response, [], None))


USER = {"role": "user", "content": "go"}


def assistant(*calls: dict[str, Any], content: str = "") -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def tool(content: str, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, **fields}


def results(block: MessageBlock) -> list[str | None]:
    return [each.result.text if each.result else None for each in block.calls]


def test_results_go_to_the_call_with_their_id_in_any_order() -> None:
    blocks = made(
        USER,
        assistant(call("a", "1"), call("b", "2")),
        tool("B", tool_call_id="2"),
        tool("A", tool_call_id="1"),
    )
    assert results(blocks[1]) == ["A", "B"]
    assert len(blocks) == 2


def test_without_ids_results_go_to_calls_in_order() -> None:
    blocks = made(USER, assistant(call("a"), call("b")), tool("A"), tool("B"))
    assert results(blocks[1]) == ["A", "B"]


def test_a_result_without_a_call_has_a_block_of_its_own() -> None:
    blocks = made(USER, assistant(call("a", "1")), tool("x", tool_call_id="9"), tool("y", tool_call_id="1"))
    assert results(blocks[1]) == ["y"]
    assert [block.text for block in blocks[2:]] == ["x"]
    assert made(USER, tool("alone"))[1].text == "alone"


def test_a_result_does_not_answer_a_call_of_an_earlier_turn() -> None:
    blocks = made(USER, assistant(call("a")), USER, tool("late"))
    assert results(blocks[1]) == [None]
    assert blocks[-1].text == "late"


def test_turns_count_the_policys_messages_of_the_response_and_have_its_rewards() -> None:
    given = {"role": "assistant", "content": "an example"}
    blocks = made(
        USER,
        given,
        USER,
        assistant(call("a")),
        tool("x"),
        {"role": "assistant", "content": "end"},
        prompt=3,
        turn_rewards=np.array([0.25, np.nan]),
    )
    assert [block.turn for block in blocks] == [0, 0, 0, 1, 2]
    assert blocks[3].reward == 0.25
    assert blocks[1].given
    assert blocks[1].reward is None


def test_json_is_indented_and_other_text_is_not_touched() -> None:
    blocks = made(USER, assistant(call("a", arguments='{"b":[1]}')), tool('{"c": "國"}'))
    assert blocks[1].calls[0].arguments == '{\n  "b": [\n    1\n  ]\n}'
    assert results(blocks[1]) == ['{\n  "c": "國"\n}']
    assert made(USER, assistant(call("a", arguments="{broken")))[1].calls[0].arguments == "{broken"


def test_invisible_characters_are_escaped_everywhere() -> None:
    hidden = "a\u202eb"
    message = assistant(call(hidden, arguments=hidden), content=hidden) | {"reasoning_content": hidden}
    block = made(USER, message, tool(hidden))[1]
    texts = [block.text, block.reasoning, block.calls[0].name, block.calls[0].arguments, *results(block)]
    assert texts == [r"a\u202eb"] * 5


def test_each_turn_has_the_versions_that_wrote_its_tokens() -> None:
    messages = [{"role": "assistant", "content": "ab"}, tool("x"), {"role": "assistant", "content": "cd"}]
    sample = Sample(
        uid="log.jsonl:0",
        step=9,
        messages=messages,
        prompt_messages=0,
        policy_versions=((7, 2), (8, 2), (9, 1)),
    )
    conversation = conversation_of(sample)
    tokens = turn_tokens(messages, ["a", "b", "x", "c", "d"], np.array([1, 1, 0, 1, 1.0]))
    assert [block.versions for block in blocks_of(sample, conversation, tokens)] == [(7, 7), None, (8, 9)]


def test_images_beside_the_messages_belong_to_the_question() -> None:
    blocks = made(USER, assistant(content="seen"), images=({"url": "a.png"}, {"url": "b.png"}))
    assert blocks[0].images == [(0, 0), (0, 1)]


def test_a_call_that_cannot_be_read_keeps_its_text_and_is_marked() -> None:
    blocks = made(USER, assistant(call("add", arguments='{"a": im}'), call("add", arguments='{"a": 5}')))
    broken, fine = blocks[1].calls
    assert (broken.unreadable, broken.text) == (True, '{"a": im}')
    assert (fine.unreadable, fine.text) == (False, "add(a=5)")


def test_a_broken_call_of_a_text_has_the_name_that_it_holds() -> None:
    blocks = made(
        USER,
        {"role": "assistant", "content": '<tool_call>{"name": "add", "arguments": {"a": im}}</tool_call>'},
    )
    assert (blocks[1].calls[0].name, blocks[1].calls[0].unreadable) == ("add", True)


def test_images_of_a_result_belong_to_the_result() -> None:
    seen = tool("[image]", images=[{"url": "a.png"}])
    blocks = made(USER, assistant(call("look")), seen)
    assert blocks[1].images == []
    assert blocks[1].calls[0].result is not None
    assert blocks[1].calls[0].result.images == [(2, 0)]
