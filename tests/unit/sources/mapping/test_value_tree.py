"""The tree of a record: bounded, and each key that it names is one that a mapping reaches."""

from __future__ import annotations

from typing import Any

import pytest

from rlpanel.sources.mapping.mapping_text import MAX_LINES, VALUE_CHARS, tree_lines, value_text

RECORD: dict[str, Any] = {
    "task": {"prompt": "2 + 2?", "ids": [1, 2]},
    "turns": [{"role": "user", "content": "hi"}, {"role": "assistant"}],
    "a.b": 1,
    "ok": True,
    "none": None,
    "deep": {"x.y": 1},
}


def test_lines_name_key_type_and_value() -> None:
    lines = {line.key or line.name: line for line in tree_lines(RECORD)}
    assert [
        (lines[key].kind, lines[key].value) for key in ("task.prompt", "task.ids", "a.b", "ok", "none")
    ] == [
        ("text", '"2 + 2?"'),
        ("list", "[1, 2]"),
        ("number", "1"),
        ("true or false", "true"),
        ("null", "null"),
    ]
    assert (lines["turns"].count, lines["task"].count) == (2, 2)


def test_a_key_with_a_dot_inside_an_object_cannot_be_named() -> None:
    (inside,) = (line for line in tree_lines(RECORD) if line.name == "x.y")
    assert inside.key == ""


@pytest.mark.parametrize(
    "record",
    [
        {str(at): at for at in range(100_000)},
        {"x": ["y" * 10_000] * 1000},
        {"x": [[[[[[["deep"]]]]]] * 1000] * 1000},
        {"k" * 10_000: {"v" * 10_000: "w" * 10_000}},
    ],
    ids=["many keys", "long texts", "nested lists", "long keys"],
)
def test_a_tree_is_bounded(record: dict[str, Any]) -> None:
    lines = tree_lines(record)
    assert 0 < len(lines) <= MAX_LINES
    assert all(len(line.name) <= VALUE_CHARS and len(line.value) <= VALUE_CHARS + 2 for line in lines)


def test_a_value_nested_as_deep_as_json_allows_is_shown() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert value_text(value) == "[[…]]"
