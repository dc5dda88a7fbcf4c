"""Tool calls as a person writes them, and which arguments count as unreadable."""

from __future__ import annotations

import json

import pytest

from rlpanel.texts.agent_line import ONE_LINE, is_unreadable, written_call


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"a": 5, "b": 1}', "add(a=5, b=1)"),
        ('{"q": "東京", "deep": {"x": [1, null, true]}}', 'add(q="東京", deep={"x": [1, null, true]})'),
        ("{}", "add()"),
        ("", "add()"),
        ("print(1)", "add(print(1))"),
        ("[1, 2]", "add([1, 2])"),
    ],
)
def test_a_call_that_fits_is_one_line(arguments: str, text: str) -> None:
    assert written_call("add", arguments) == text


def test_code_keeps_its_lines_and_other_arguments_have_one_each() -> None:
    text = written_call("edit", json.dumps({"path": "a.py", "new": "if x:\n    y()\n"}))
    assert text == 'edit(\n  path="a.py",\n  new="""\nif x:\n    y()\n""",\n)'


def test_a_long_call_has_a_line_per_argument_and_a_single_argument_stays_on_one() -> None:
    long = "x" * ONE_LINE
    assert written_call("f", json.dumps({"a": long, "b": 1})) == f'f(\n  a="{long}",\n  b=1,\n)'
    assert written_call("f", json.dumps({"a": long})) == f'f(a="{long}")'


@pytest.mark.parametrize(
    ("arguments", "unreadable"),
    [('{"a": im}', True), ('  {"a": 1', True), ('{"a": 1}', False), ("print({})", False), ("", False)],
)
def test_what_is_meant_to_be_json_and_is_broken_is_unreadable(arguments: str, unreadable: bool) -> None:
    assert is_unreadable(arguments) == unreadable
