"""Chat messages in one shape: tool calls, reasoning, parts, images."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.sources.records.embedded_media import without_embedded, without_embedded_values
from rlpanel.sources.records.messages import messages_text, read_messages

PNG = "data:image/png;base64," + "iVBORw0K" * 100


def message(**fields: Any) -> Any:
    return read_messages({"role": "assistant", **fields})[0]


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}},
        {"id": "c1", "name": "add", "arguments": '{"a": 2}'},
        {"id": "c1", "type": "tool_use", "name": "add", "input": {"a": 2}},
    ],
    ids=["json text", "object", "flat", "input"],
)
def test_tool_calls_of_all_writers_have_one_shape(call: dict[str, Any]) -> None:
    read = message(content=None, tool_calls=[call])
    assert read["tool_calls"] == [{"name": "add", "arguments": '{"a": 2}', "id": "c1"}]
    assert messages_text([read]) == '[assistant] [call] add({"a": 2})'


@pytest.mark.parametrize(
    ("logged", "calls"),
    [
        ({"tool_calls": '[{"id": "c1", "function": {"name": "add", "arguments": "{\\"a\\": 2}"}}]'},
         [{"name": "add", "arguments": '{"a": 2}', "id": "c1"}]),
        ({"tool_calls": ['{"function": {"name": "add", "arguments": "{}"}}', '{"name": "f"}']},
         [{"name": "add", "arguments": "{}"}, {"name": "f", "arguments": ""}]),
        ({"tool_calls": {"function": '{"name": "add", "arguments": {"a": 2}}'}},
         [{"name": "add", "arguments": '{"a": 2}'}]),
        ({"tool_calls": None, "function_call": {"name": "add", "arguments": "{}"}},
         [{"name": "add", "arguments": "{}"}]),
        ({"tool_calls": [None, {"name": "k", "args": {"a": 1}}, {"name": "k", "parameters": {"a": 1}}]},
         [{"name": "k", "arguments": '{"a": 1}'}] * 2),
        ({"tool_calls": ["add(2, 2)", {"call": "add", "with": [2, 2]}]},
         [{"name": "?", "arguments": "add(2, 2)"},
          {"name": "?", "arguments": '{"call": "add", "with": [2, 2]}'}]),
        ({"tool_calls": ["ToolCall(id='c1', function=Function(arguments='{}', name='add'))"]},
         [{"name": "add", "arguments": "{}", "id": "c1"}]),
        ({"tool_calls": "[{'name': 'add', 'args': {'a': None}}]"},
         [{"name": "add", "arguments": '{"a": null}'}]),
        ({"tool_calls": "[{broken"}, [{"name": "?", "arguments": "[{broken"}]),
        ({"tool_calls": "[]", "function_call": None}, []),
    ],
    ids=["text", "items of text", "one object", "old", "null, args, parameters", "unknown", "objects",
         "Python", "broken", "none"],
)  # fmt: skip
def test_no_spelling_of_a_call_loses_its_name_or_its_arguments(
    logged: dict[str, Any], calls: list[dict[str, str]]
) -> None:
    assert message(content=None, **logged).get("tool_calls", []) == calls


def test_reasoning_comes_before_the_content_and_calls_after_it() -> None:
    read = message(content="Let me see.", reasoning_content="2 + 2", tool_calls=[{"function": {"name": "f"}}])
    assert messages_text([read]) == "[assistant] 2 + 2\nLet me see.\n[call] f()"


def test_a_message_without_content_is_its_role() -> None:
    assert messages_text([message(content=None), message(content="")]) == "[assistant]\n[assistant]"


@pytest.mark.parametrize(
    ("part", "image"),
    [
        ({"type": "image_url", "image_url": {"url": PNG}}, {"media_type": "image/png", "size": 600}),
        ({"type": "image_url", "image_url": PNG}, {"media_type": "image/png", "size": 600}),
        ({"type": "image", "image": "iVBORw0K" * 1000}, {"size": 6000}),
        ({"type": "image", "source": {"data": "iVBORw0K" * 1000}}, {"size": 6000}),
        ({"type": "image_url", "image_url": {"url": "a/b.png"}}, {"url": "a/b.png"}),
        ({"type": "image"}, {}),
    ],
)
def test_an_image_is_a_mark_in_the_text_and_never_its_bytes(part: dict[str, Any], image: Any) -> None:
    read = message(content=[{"type": "text", "text": "Look:"}, part, {"type": "text", "text": "What?"}])
    assert read["content"] == "Look:\n[image]\nWhat?"
    (found,) = read["images"]
    key = found.pop("key", None)
    assert found == image
    assert (key is not None) == ("size" in image)


def test_other_long_media_are_named_by_their_type() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "UklG" * 1000}}
    assert message(content=[part])["content"] == "[audio]"


WAV = "UklGRg" * 50


@pytest.mark.parametrize(
    ("part", "medium"),
    [
        ({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}, {"size": 225}),
        ({"type": "input_audio", "input_audio": {"data": f"data:;base64,{WAV}"}}, {"size": 225}),
        (
            {"type": "input_audio", "input_audio": {"url": "media/a.wav", "format": "wav"}},
            {"url": "media/a.wav"},
        ),
        ({"type": "audio", "audio": "a.wav"}, {"url": "a.wav"}),
        ({"type": "audio", "audio_url": "a.wav"}, {"url": "a.wav"}),
        ({"type": "audio", "path": "a.wav"}, {"url": "a.wav"}),
        ({"type": "audio_url", "audio_url": {"url": "a.wav"}}, {"url": "a.wav"}),
        ({"audio": f"data:audio/wav;base64,{WAV}"}, {"media_type": "audio/wav", "size": 225}),
        ({"type": "video", "video": "a.mp4", "fps": 2}, {"url": "a.mp4"}),
        ({"type": "video_url", "video_url": {"url": "file:///a.mp4"}}, {"url": "file:///a.mp4"}),
        ({"type": "video", "video": "AAAA" * 1000}, {"size": 3000}),
        ({"type": "video"}, {}),
    ],
)
def test_audio_and_video_are_a_mark_in_the_text_and_never_their_bytes(part: Any, medium: Any) -> None:
    kind = "video" if "video" in str(part) else "audio"
    read = message(content=["Hear:", part])
    assert read["content"] == f"Hear:\n[{kind}]"
    (found,) = read["media"]
    assert found.pop("kind") == kind
    assert (found.pop("key", None) is not None) == ("size" in medium)
    assert found == medium


def test_a_video_of_frames_is_images() -> None:
    read = message(content=[{"type": "video", "video": ["1.png", "2.png"]}])
    assert read["content"] == "[video]"
    assert read["images"] == [{"url": "1.png"}, {"url": "2.png"}]
    assert "media" not in read


def test_an_image_inside_a_text_is_left_out() -> None:
    assert without_embedded(f"before <img src='{PNG}'> after") == "before <img src='[image/png]'> after"
    assert without_embedded("no image;base64 here") == "no image;base64 here"


def test_base64_in_other_fields_is_left_out() -> None:
    value = {"images": ["iVBORw0K" * 500, PNG], "note": "word " * 600}
    assert without_embedded_values(value) == value | {"images": ["[3,000 bytes of base64]", "[image/png]"]}


@pytest.mark.parametrize("item", ["text", 3, None, {"a": 1}, ["x"], {"role": None, "content": {"deep": 1}}])
def test_what_is_no_message_is_kept_as_text(item: Any) -> None:
    (read,) = read_messages([item])
    assert read["role"] == "?"
    assert read["content"]
