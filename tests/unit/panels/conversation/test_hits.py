"""Places that a search finds in a conversation: in reading order, in all parts, by field."""

from __future__ import annotations

import json
from typing import Any

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.panels.conversation.blocks import MessageBlock, blocks_of, turn_tokens
from rlpanel.panels.conversation.hits import MAX_HITS, Hit, hits_of
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import TextPredicate
from tests.conversations import called


def made(*messages: dict[str, Any]) -> list[MessageBlock]:
    calls = [
        {**message, "tool_calls": [{"id": c["id"], **c["function"]} for c in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]
    sample = Sample(uid="a:0", step=1, messages=tuple(calls), prompt_messages=1)
    conversation = conversation_of(sample)
    return blocks_of(sample, conversation, turn_tokens(conversation.response, [], None))


BLOCKS = made(
    {"role": "user", "content": "Find the needle."},
    {
        "role": "assistant",
        "content": "A needle? 🔍 Needle!",
        "reasoning_content": "needle",
        "tool_calls": [called("search", 1, query="needle", deep={"k": 1})],
    },
    {"role": "tool", "tool_call_id": "call-1", "content": "no needle here"},
)


def test_hits_stand_in_the_order_in_which_they_are_read() -> None:
    found = hits_of(BLOCKS, [TextPredicate("", "contains", "NEEDLE")])
    assert found == [
        (0, "text", 9, 15),
        (1, "reasoning", 0, 6),
        (1, "text", 2, 8),
        (1, "text", 12, 18),
        (1, "call:0", 14, 20),
        (1, "result:0", 3, 9),
    ]
    parts = {name: getattr(BLOCKS[1], name) for name in ("reasoning", "text")}
    assert all(parts[name][start:end].lower() == "needle" for _, name, start, end in found[1:4])


def test_a_condition_on_the_response_leaves_the_prompt_out() -> None:
    found = hits_of(BLOCKS, [TextPredicate("response", "matches", r"needle\W")])
    assert {block for block, *_ in found} == {1}
    assert hits_of(BLOCKS, [TextPredicate("ground_truth", "contains", "needle")]) == []


def test_words_of_the_logged_json_mark_the_whole_call() -> None:
    logged = json.dumps({"deep": {"k": 1}})[1:8]
    assert hits_of(BLOCKS, [TextPredicate("", "contains", logged)]) == [
        (1, "call:0", 0, len(BLOCKS[1].calls[0].text))
    ]


def test_the_beginning_the_end_and_all_of_a_text_are_found_in_its_parts() -> None:
    texts = {
        "prompt": "<|user|>\nFind the needle.\n",
        "response": "<think>\nneedle\n</think>\nA needle? 🔍 Needle!\n<call> {}\nno needle here",
    }

    def found(word: str, value: str, field: str = "response") -> list[Hit]:
        return hits_of(BLOCKS, [TextPredicate(field, word, value)], texts)

    whole = [(1, "reasoning", 0, 6), (1, "text", 0, 19), (1, "call:0", 0, len(BLOCKS[1].calls[0].text))]
    assert found("endswith", "Needle HERE") == [(1, "result:0", 3, 14)]
    assert found("endswith", "needle here", "") == [(1, "result:0", 3, 14)]
    begun = found("startswith", "<think>\nneedle\n</think>\nA n")
    assert begun == [(1, "reasoning", 0, 6), (1, "text", 0, 3)]
    assert found("==", texts["response"]) == [*whole, (1, "result:0", 0, 14)]
    assert found("startswith", "<|user|>\nFind", "prompt") == [(0, "text", 0, 4)]
    assert found("startswith", "Find", "prompt") == []  # the text as logged begins with markup
    assert found("startswith", "needle") == found("==", "needle") == []
    assert hits_of(BLOCKS, [TextPredicate("response", "endswith", "needle here")]) == []
    assert hits_of(BLOCKS, []) == []


def test_a_beginning_that_stands_in_two_parts_is_marked_in_both() -> None:
    blocks = made({"role": "user", "content": "q"}, {"role": "assistant", "content": "So. Yes."})
    blocks[1].begun = "Let me think."
    texts = {"response": "Let me think. So. Yes."}
    test = TextPredicate("response", "startswith", "let me think. so")
    assert hits_of(blocks, [test], texts) == [(1, "begun", 0, 13), (1, "text", 0, 2)]


def test_hits_are_bounded() -> None:
    many = made({"role": "user", "content": "q"}, *({"role": "assistant", "content": "a" * 60},) * 60)
    assert len(hits_of(many, [TextPredicate("", "contains", "a")])) == MAX_HITS
