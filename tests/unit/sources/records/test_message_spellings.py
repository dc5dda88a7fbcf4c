"""Each spelling of the table is read, and so are conversations that other projects wrote.

``tests/data/messages`` holds what the packages of LangChain, Anthropic, Google and OpenAI write (the version
is in the name), and parts of LLaMA-Factory's ``data/glaive_toolcall_en_demo.json`` (Apache-2.0) and of an
evaluation saved by verifiers (MIT), with the commit in the name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.sources.records.conversation import message_columns
from rlpanel.sources.records.fields import build_record, build_texts
from rlpanel.sources.records.message_spellings import SPELLINGS, Spelling
from rlpanel.sources.records.messages import Message, find_messages, messages_text, remarks_on

DATA = Path(__file__).parents[3] / "data" / "messages"


def one(value: Any) -> Message:
    found = find_messages(value)
    assert found is not None
    (message,) = found
    return message


def of_kind(kind: str) -> list[Any]:
    return [
        pytest.param(each, id=f"{kind} {each.means} {each.name}") for each in SPELLINGS if each.kind == kind
    ]


@pytest.mark.parametrize("spelling", of_kind("role"))
def test_a_role_of_any_project_is_one_of_the_products(spelling: Spelling) -> None:
    for name in (spelling.name, spelling.name.upper()):
        if spelling.means == "call":
            read = one([{"role": name, "content": '{"name": "f", "arguments": {}}'}])
            assert read == {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"name": "f", "arguments": "{}"}],
            }
        else:
            assert one([{"role": name, "content": "x"}]) == {"role": spelling.means, "content": "x"}


@pytest.mark.parametrize("spelling", of_kind("message"))
def test_a_key_of_a_message_is_read_under_any_name(spelling: Spelling) -> None:
    name = spelling.name
    if spelling.means == "role":
        role = {"role": "ai"} if name == "author" else "ai"
        read = one([{name: role, "content": "x"}])
        assert read == {"role": "assistant", "content": "x"}
    elif spelling.means == "content":
        assert one([{"role": "user", name: "x"}])["content"] == "x"
    elif spelling.means == "reasoning":
        details = [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.encrypted", "data": "E"}]
        for value, text in (("a", "a"), ({"content": "a"}, "a"), (details, "a\n[reasoning.encrypted]")):
            assert one([{"role": "assistant", "content": "x", name: value}])["reasoning_content"] == text
    elif spelling.means == "calls":
        read = one([{"role": "assistant", "content": None, name: {"name": "f", "arguments": "{}"}}])
        assert read["tool_calls"] == [{"name": "f", "arguments": "{}"}]
    else:
        assert one([{"role": "tool", "content": "x", name: 7}])["tool_call_id"] == "7"


@pytest.mark.parametrize("spelling", of_kind("part"))
def test_a_part_of_the_content_is_read_by_its_type_or_by_its_key(spelling: Spelling) -> None:
    name = spelling.name
    contents: dict[str, dict[str, Any]] = {
        "reasoning": {"text": "why"},
        "hidden": {"data": "EmwK"},
        "call": {"name": "f", "input": {"a": 1}, "id": "c"},
        "result": {"content": "4", "id": "c", "name": "f"},
    }
    fields = contents[spelling.means]
    for part in ({"type": name, **fields}, {name: fields}):
        if spelling.means == "hidden" and "type" not in part:
            continue  # only a type says so
        read = one([{"role": "user", "content": [part]}])
        if spelling.means == "result":
            assert read == {"role": "tool", "content": "4", "tool_call_id": "c", "name": "f"}
        elif spelling.means == "call":
            assert read["tool_calls"] == [{"name": "f", "arguments": '{"a": 1}', "id": "c"}]
        else:
            text = "why" if spelling.means == "reasoning" else f"[{name}]"
            assert (read["reasoning_content"], read["content"]) == (text, "")


@pytest.mark.parametrize("spelling", [*of_kind("call"), *of_kind("result")])
def test_a_key_of_a_call_or_of_a_result_is_read_under_any_name(spelling: Spelling) -> None:
    if spelling.kind == "call":
        fields = {"name": "f", "arguments": "x", "id": "c"}
        fields[spelling.name] = fields.pop(spelling.means)
        for call in (fields, {"function": fields}):
            (read,) = one([{"role": "assistant", "content": None, "tool_calls": [call]}])["tool_calls"]
            assert (read["name"], read["arguments"]) == ("f", "x")
        assert one([{"role": "assistant", "content": [{"type": "tool_use", **fields}]}])["tool_calls"] == [
            {"name": "f", "arguments": "x", "id": "c"}
        ]
    else:
        fields = {"name": "f", "content": "x", "tool_use_id": "c"}
        fields[spelling.name] = fields.pop({"id": "tool_use_id"}.get(spelling.means, spelling.means))
        read_result = one([{"role": "user", "content": [{"type": "tool_result", **fields}]}])
        assert read_result == {"role": "tool", "content": "x", "tool_call_id": "c", "name": "f"}


@pytest.mark.parametrize("spelling", of_kind("whole"))
def test_messages_inside_an_object_are_found(spelling: Spelling) -> None:
    inner = {"role": "ai", "content": "x"}
    items = {"choices": [{"message": inner}], "candidates": [{"content": inner}]}.get(spelling.name, [inner])
    assert one({spelling.name: items})["role"] == "assistant"


# -- what the projects' own code writes ----------------------------------------------------------------


def written(name: str) -> Any:
    (path,) = DATA.glob(f"{name}-*.json")
    return json.loads(path.read_bytes())


CALL = 'Let me look.\n[call] weather({"city": "Oslo"})'
ANSWER = "[assistant] It is -3 degrees."
IMAGE = "[user] How warm is it in Oslo?\n[image]"


@pytest.mark.parametrize("way", ["dumpd", "messages_to_dict", "model_dump"])
def test_langchains_messages_are_read_in_each_of_its_ways(way: str) -> None:
    messages = find_messages(written("langchain-core")[way])
    assert messages is not None
    assert messages_text(messages) == (
        "[system] Use the tool.\n[user] How warm is it in Oslo?\n"
        f"[assistant] I should look it up.\n{CALL}\n[call] search({{broken)\n"
        f"[tool] -3\n[assistant] Minus three.\nIt is -3 degrees."
    )
    assert messages[3]["tool_call_id"] == "toolu_1"
    assert messages[3]["is_error"] is False
    assert remarks_on(messages) == []


def test_anthropics_blocks_are_calls_results_and_reasoning() -> None:
    messages = find_messages(written("anthropic"))
    assert messages is not None
    assert messages_text(messages) == (
        f"[system] Use the tool.\n{IMAGE}\n[assistant] I should look it up.\n[redacted_thinking]\n{CALL}\n"
        "[tool] no such city\n[user] Try again.\n"
        f'{ANSWER}\n[call] web_search({{"query": "Oslo"}})\n[tool]'
    )
    assert messages[3]["is_error"] is True
    columns = message_columns(messages[2:], messages[:2])
    assert (columns["turns"], columns["tool_calls"], columns["images"]) == (2, 2, 1)
    assert (columns["tool_errors.weather"], columns["tool_errors.web_search"]) == (1, 0)


@pytest.mark.parametrize("way", ["camel", "snake", "full"])
def test_geminis_parts_are_calls_results_and_reasoning(way: str) -> None:
    messages = find_messages(written("google-genai")[way])
    assert messages is not None
    middle = f'[assistant] I should look it up.\n{CALL}\n[tool] {{"result": "-3"}}'
    whole = f"{IMAGE}\n{middle}\n{ANSWER}"
    system = "[system] Use the tool.\n" if way == "camel" else ""
    assert messages_text(messages) == (middle if way == "full" else system + whole)


def test_openais_messages_and_items_are_the_same_conversation() -> None:
    both = written("openai")
    chat, items = find_messages(both["chat"]), find_messages(both["responses"])
    assert chat is not None
    assert items is not None
    assert messages_text(items[2:]) == messages_text(chat[2:])
    assert items[2:] == chat[2:]
    assert messages_text(items[:2]) == f"[developer] Use the tool.\n{IMAGE}"
    assert one(both["refusal"])["content"] == "I cannot."


def test_sharegpts_calls_and_observations_are_turns_and_results() -> None:
    record = build_record(1, {"messages": written("llama-factory")}.items(), "x.jsonl", full=True)
    assert [message["role"] for message in record.messages] == ["user", "assistant", "tool", "assistant"] * 2
    assert record.numbers["turns"] == 4
    assert record.numbers["tool_calls.calculate_area"] == 2
    assert record.texts["prompt"].startswith("[user] I need to calculate the area")


def test_calls_that_are_json_in_a_text_keep_name_and_arguments() -> None:
    saved = written("verifiers")
    fields = {"prompt": saved["prompt"], "response": saved["completion"]}
    record = build_record(1, fields.items(), "x.jsonl", full=True)
    assert record.numbers["tool_calls.python"] == 1
    assert '[call] python({"code":"import math' in record.texts["response"]


CONVERSATIONS = [
    *written("langchain-core").values(),
    written("anthropic"),
    *written("google-genai").values(),
    written("openai")["responses"],
    written("llama-factory"),
]


@pytest.mark.parametrize("value", CONVERSATIONS)
@pytest.mark.parametrize("text", ["", "json", "python"])
def test_a_conversation_is_the_same_however_it_is_read(value: Any, text: str) -> None:
    """In full, lean and for its texts alone; as a value, as JSON or as Python's notation in a text."""
    logged = json.dumps(value) if text == "json" else repr(value) if text else value
    fields = {"messages": logged}
    full, lean = (build_record(1, fields.items(), "x.jsonl", full=whole) for whole in (True, False))
    assert full.numbers == lean.numbers
    assert full.texts == lean.texts == build_texts(fields.items())
    expected = build_record(1, {"messages": value}.items(), "x.jsonl", full=True)
    assert (full.messages, full.texts) == (expected.messages, expected.texts)
    assert full.notes == []


# -- anything --------------------------------------------------------------------------------------------

_NAMES = sorted({each.name for each in SPELLINGS} | {"id", "function", "kwargs", "data", "message", "image"})
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(_NAMES)
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
        inner.map(lambda value: json.dumps(value, allow_nan=False) if _is_finite(value) else repr(value)),
    ),
    max_leaves=12,
)


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@given(st.lists(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=6), max_size=4), _VALUES)
def test_whatever_stands_in_a_conversation_the_sample_is_kept(items: list[Any], value: Any) -> None:
    for fields in ({"messages": items}, {"messages": value}, {"prompt": items, "response": value}):
        full, lean = (build_record(1, fields.items(), "x.jsonl", full=whole) for whole in (True, False))
        np.testing.assert_equal(full.numbers, lean.numbers)
        assert full.texts == lean.texts == build_texts(fields.items())
        assert full.notes == lean.notes
