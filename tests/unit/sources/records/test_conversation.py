"""The texts of a sample from its messages, and its messages from its texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rlpanel.sources.records.fields import build_record, build_texts
from rlpanel.sources.records.record_types import Record

SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"function": {"name": "add", "arguments": ""}}],
}
TOOL, ANSWER = {"role": "tool", "content": "4"}, {"role": "assistant", "content": "It is 4."}
WHOLE = [SYSTEM, USER, CALL, TOOL, ANSWER]
PROMPT = "[system] Be brief.\n[user] 2 + 2?"
RESPONSE = "[assistant] [call] add()\n[tool] 4\n[assistant] It is 4."


def read(full: bool = True, **fields: Any) -> Record:
    return build_record(1, fields.items(), "x.jsonl", full=full)


def roles(record: Record) -> tuple[list[str], int]:
    return [message["role"] for message in record.messages], record.prompt_messages


@pytest.mark.parametrize(
    "fields",
    [{"messages": WHOLE}, {"prompt": WHOLE[:2], "response": WHOLE[2:]}],
    ids=["whole", "in two parts"],
)
def test_the_response_begins_with_the_policys_first_message(fields: dict[str, Any]) -> None:
    record = read(**fields)
    assert record.texts == {"prompt": PROMPT, "response": RESPONSE}
    assert roles(record) == (["system", "user", "assistant", "tool", "assistant"], 2)


def test_logged_texts_are_kept_beside_the_messages() -> None:
    record = read(messages=WHOLE, prompt="<s>2 + 2?", response="It is 4.")
    assert record.texts == {"prompt": "<s>2 + 2?", "response": "It is 4."}
    assert roles(record) == (["system", "user", "assistant", "tool", "assistant"], 2)


def test_messages_that_end_before_the_policy_are_the_prompt() -> None:
    record = read(messages=[SYSTEM, USER, ANSWER, USER], response="5")
    assert record.texts["prompt"].endswith("[assistant] It is 4.\n[user] 2 + 2?")
    assert roles(record) == (["system", "user", "assistant", "user", "assistant"], 4)


def test_the_logged_number_of_prompt_messages_decides() -> None:
    record = read(messages=[*WHOLE, USER, CALL, TOOL], prompt_messages=6, response="cut off")
    assert roles(record)[1] == 6
    assert "prompt_messages" not in record.numbers


def test_texts_alone_are_no_conversation() -> None:
    assert read(prompt="p", response="r").messages == []


@pytest.mark.parametrize(
    "fields",
    [{"messages": WHOLE}, {"messages": WHOLE, "prompt": "p"}, {"prompt": [USER], "response": [ANSWER]}],
)
def test_columns_and_texts_are_the_same_however_a_sample_is_read(fields: dict[str, Any]) -> None:
    full, lean = read(**fields), read(full=False, **fields)
    assert full.numbers == lean.numbers
    assert full.texts == lean.texts == build_texts(fields.items())


def test_messages_that_are_none_are_noted_and_the_sample_is_kept() -> None:
    record = read(messages=[1, 2], prompt="p", response="r")
    assert record.notes == ["'messages' is not a list of chat messages; the sample is kept without it"]
    assert record.texts == {"prompt": "p", "response": "r"}


def test_messages_that_are_none_stay_in_the_sample_as_they_are() -> None:
    record = read(messages={"deep": [1]}, response="r")
    assert record.extra == {"messages": {"deep": [1]}}
    assert len(record.notes) == 1


@pytest.mark.parametrize("dump", [json.dumps, repr, lambda value: json.dumps(value, indent=1)])
def test_a_prompt_and_a_response_may_be_the_text_of_messages(dump: Callable[[Any], str]) -> None:
    record = read(prompt=dump(WHOLE[:2]), response=dump(WHOLE[2:]))
    assert record.texts == {"prompt": PROMPT, "response": RESPONSE}
    assert roles(record) == (["system", "user", "assistant", "tool", "assistant"], 2)
    assert record.numbers["turns"] == 2


@pytest.mark.parametrize(
    "text",
    [
        "[HumanMessage(content='2 + 2?', additional_kwargs={}), AIMessage(content='4', id=None)]",
        "[ChatMessage(role='user', content='2 + 2?', score=nan), ChatMessage(role='model', content='4')]",
        """[{'role': 'user', 'content': "2 + 2?", 'x': array([-1.5])}, {'role': 'ai', 'content': '4'}]""",
    ],
)
def test_messages_that_a_logger_wrote_as_pythons_objects_are_read(text: str) -> None:
    record = read(messages=text)
    assert record.texts == {"prompt": "[user] 2 + 2?", "response": "4"}
    assert record.notes == []


@pytest.mark.parametrize(
    "text",
    [
        "[INST] What is 2 + 2? [/INST]",
        "[1, 2, 3]",
        '{"answer": 4}',
        '{"role": "captain", "content": "Ahoy"}',
        '[{"role": "user", "content": "cut off',
        '[{"role": "user"}, {"name": "x"}]',
        '[{"text": "no role"}]',
        "[{'role': open('file', 'w')}]",
        "[{'role': 'user', 'content': 'a' + 'b'}]",
        "[{'role': 'user', 'content': x}]",
        "[{'role': 'user', 'content': b'x'}, {**other}]",
        "[HumanMessage(**fields)]",
        "[" * 10_000,
        '[{"role":' + "[" * 10_000,
        "",
    ],
)
def test_an_ordinary_text_that_begins_with_a_bracket_stays_a_text(text: str) -> None:
    record = read(prompt=text, response=text)
    assert record.texts == {"prompt": text, "response": text}
    assert (record.messages, record.notes) == ([], [])


def test_a_response_that_writes_a_conversation_of_its_own_stays_a_text() -> None:
    text = json.dumps([USER, ANSWER])
    assert read(prompt="Write a dialogue.", response=text).texts["response"] == text


def test_messages_without_one_of_the_policy_are_remarked_unless_the_rollout_failed() -> None:
    unknown = {"role": "player", "content": "e4"}
    remark = "'messages' has no message of the policy, and there is no response: 'user', 'player'"
    roles_remark = "'messages' has the unknown role 'player'; it does not count as the policy's"
    record = read(messages=[USER, unknown])
    assert record.notes == [remark, roles_remark]
    assert record.texts["prompt"].endswith("[player] e4")
    assert read(messages=[USER]).notes == [remark.replace(", 'player'", "")]
    for more in (
        {"response": "r"},
        {"prompt_messages": 1},
        {"status": "timeout"},
        {"response_tokens": ["a"]},
    ):
        assert read(messages=[USER], **more).notes == []


def test_what_cannot_be_read_of_messages_is_kept_as_json_and_remarked() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"do": "add"}]}
    record = read(messages=[USER, call, {"odd": None}, ANSWER])
    assert record.texts["response"] == (
        '[assistant] [call] ?({"do": "add"})\n[?] {"odd": null}\n[assistant] It is 4.'
    )
    assert record.notes == [
        "'messages' has 1 items without a role; they are kept as they are",
        "'tool_calls' has 1 calls without a name; their text is kept",
    ]


def test_objects_under_prompt_response_and_truth_are_json() -> None:
    record = read(prompt={"a": None}, response=[{"b": True}, "c"], ground_truth={"x": "é", "y": [1, None]})
    assert record.texts == {
        "prompt": '{"a": null}',
        "response": '{"b": true}\nc',
        "ground_truth": '{"x": "é", "y": [1, null]}',
    }


def test_media_beside_the_messages_and_of_a_prompt_with_a_plain_response_are_counted() -> None:
    asked = [{"role": "user", "content": [{"type": "audio", "audio": "a.wav"}]}]
    record = read(messages=asked, response="r", audios=["b.wav", "data:;base64,AAAA"], videos="c.mp4")
    assert (record.numbers["audios"], record.numbers["videos"]) == (3, 1)
    assert record.agent is not None
    assert [medium.get("url") for medium in record.agent.media] == ["b.wav", None, "c.mp4"]
    assert "AAAA" not in str(record.texts) + str(record.extra)


def test_an_embedded_image_in_a_prompt_is_left_out() -> None:
    record = read(prompt="see data:image/png;base64,AAAA====", images=["data:image/png;base64,AAAA"])
    assert record.texts["prompt"] == "see [image/png]"
    assert record.agent is not None
    embedded = {"media_type": "image/png", "size": 3, "key": "c4a60ab824c912a1"}
    assert record.agent.images == [embedded]
