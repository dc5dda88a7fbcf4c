"""Columns that messages give: turns, calls, errors by tool, images."""

from __future__ import annotations

from typing import Any

from rlpanel.sources.records.conversation import message_columns, tool_results
from rlpanel.sources.records.messages import read_messages


def call(*names: str, ids: bool = True) -> dict[str, Any]:
    calls = [{"name": name, "arguments": {}} | ({"id": name} if ids else {}) for name in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, **fields}


ANSWER = {"role": "assistant", "content": "done"}


def columns(*messages: dict[str, Any]) -> dict[str, float]:
    return message_columns(read_messages(list(messages)))


def test_calls_and_errors_are_counted_by_tool() -> None:
    found = columns(
        call("add", "look"), result("Error: no", tool_call_id="look"), result("4", tool_call_id="add"), ANSWER
    )
    assert found == {
        "turns": 2,
        "tool_calls": 2,
        "tool_errors": 1,
        "tool_calls.add": 1,
        "tool_calls.look": 1,
        "tool_errors.add": 0,
        "tool_errors.look": 1,
    }


def test_a_conversation_without_calls_has_no_tool_errors() -> None:
    assert columns(ANSWER) == {"turns": 1, "tool_calls": 0, "tool_errors": 0}


def test_errors_of_calls_without_results_are_unknown() -> None:
    found = columns(call("add"), ANSWER)
    assert found == {"turns": 2, "tool_calls": 1, "tool_calls.add": 1}


def test_results_without_ids_belong_to_the_calls_in_order() -> None:
    messages = read_messages([call("a", "b", ids=False), result("1"), result("2"), result("3")])
    assert [name for name, _ in tool_results(messages)] == ["a", "b", "other"]


def test_a_tool_with_a_long_or_odd_name_is_other() -> None:
    assert columns(call("x" * 65, "a\nb"))["tool_calls.other"] == 2


def test_images_of_prompt_and_response_are_counted() -> None:
    image = read_messages({"role": "user", "content": [{"type": "image", "image": "a.png"}]})
    assert message_columns(read_messages(ANSWER), image)["images"] == 1
    assert message_columns(image, image)["images"] == 2


def test_an_error_is_logged_or_inferred_from_the_whole_text() -> None:
    def marks(content: Any, **fields: Any) -> tuple[bool | None, bool | None]:
        (message,) = read_messages(result(content, **fields))
        return message.get("is_error"), message.get("error_inferred")

    for fields in ({"is_error": True}, {"error": "no"}, {"status": "error"}):
        assert marks("4", **fields) == (True, None)
    for fields in ({"is_error": False}, {"status": "success"}):
        assert marks("Error: 4", **fields) == (False, None)
    for text in (
        '{"error": "division by zero"}',
        "{'error': 'calculator unavailable'}",
        "Traceback (most recent call last):\n  File",
        "ZeroDivisionError: division by zero",
        "Error: no such file",
        "requests.exceptions.HTTPError: 404",
        "Exception: no",
    ):
        assert marks(text) == (True, True), text
    for text in (
        "4",
        "",
        '{"error": null}',
        "{'error': None}",
        "{'error': open('file')}",
        '{"error": "", "value": 4}',
        '{"value": 4, "error": "rounded"}',
        "The log says Error: none",
        "Errors: 0",
        "No error: all good",
    ):
        assert marks(text) == (None, None), text


def test_only_tools_have_errors() -> None:
    (message,) = read_messages({"role": "user", "content": "Error: no"})
    assert "is_error" not in message
