"""A row shows an agent's calls and last words, in all markups of calls that logs have."""

from __future__ import annotations

import pytest

from rlpanel.texts.agent_line import agent_line, ends_of
from rlpanel.texts.shorten import shorten

HERMES = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 5}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HERMES, "add(a=2, b=5)"),
        (f"{HERMES}<|im_end|><think>\n\n</think>\n\nIt is 9.<|im_end|>", "add(a=2, b=5) → It is 9."),
        (
            f"{HERMES}<|im_end|>\n<|im_start|>user\n<tool_response>\n7\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\nIt is 7.<|im_end|>",
            "add(a=2, b=5) → It is 7.",
        ),
        (f"{HERMES}\n{HERMES}", "add(a=2, b=5), add(a=2, b=5)"),
        (f"{HERMES}{HERMES}{HERMES}Done.", "add(a=2, b=5), 2 more calls → Done."),
        (
            '[assistant] I need it.\n[call] add({"a":2,"b":2})\n[tool] 4\n[assistant] The answer is 4.',
            "add(a=2, b=2) → The answer is 4.",
        ),
        ("[call] look()\n[tool] a room\nwith a door", "look()"),
        (
            "<tool_call>\n<function=run>\n<parameter=code>\nprint(1)\n</parameter>\n</function>\n</tool_call>",
            'run(code="print(1)")',
        ),
        ('<function=run>{"code": "1"}</function>', 'run(code="1")'),
        ('[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]</s>', "add(a=1)"),
        ('{"name": "search", "parameters": {"query": "12*7"}}<|eom_id|>', 'search(query="12*7")'),
        ('<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', "add(a=1)"),
        ('<tool_call>{"name": "add", "arguments": {"a": im}}</tool_call>', "add(unreadable arguments)"),
        ("<tool_call>\n<think>", "unreadable call <think>"),
        ('<tool_call>{"name": "add", "argum', "add(unreadable arguments)"),
    ],
)
def test_a_row_shows_calls_and_last_words(text: str, line: str) -> None:
    assert agent_line(text) == line


@pytest.mark.parametrize(
    "text", ["", "It is 9.", "<think>2</think> 9", '{"name": "x"} is no call', "a [call] is a word", "[1, 2]"]
)
def test_a_text_without_calls_is_left_as_it_is(text: str) -> None:
    assert agent_line(text) == text


def test_messages_without_calls_show_the_first_and_the_last_turn() -> None:
    two = "[assistant] look\n[tool] a room\n[assistant] take"
    assert agent_line(two) == "look → take"
    assert (
        agent_line(f"{two}\n[user] more\n[assistant] <think>so</think>drop<|im_end|>")
        == "look → 1 more turn → drop"
    )
    assert agent_line("[assistant] look") == "[assistant] look"
    assert agent_line("see [assistant] look\n[assistant] take") == "see [assistant] look\n[assistant] take"


def test_the_ends_of_a_long_text_show_its_first_call_and_its_last_words() -> None:
    long = f"{HERMES}{'I see, then ' * 500}{HERMES}<tool_response>7</tool_response>It is 7."
    ends = ends_of(long, 400)
    assert len(ends) < 410
    assert agent_line(ends) == "add(a=2, b=5), … → It is 7."
    assert ends_of("word " * 500, 400) == shorten("word " * 500, 400)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            "<tool_response>\n{'error': 'calculator unavailable'}\n</tool_response>",
            "{'error': 'calculator unavailable'}",
        ),
        ("\n[tool] Traceback (most recent call last): ValueError in line 7 of x\n[assistant] ", None),
        ("<tool_response>no terrors here</tool_response>", ""),
    ],
)
def test_the_last_error_stands_before_the_last_words(result: str, said: str | None) -> None:
    line = agent_line(f"{HERMES}{result}It is 4.")
    middle = line.removeprefix("add(a=2, b=5) → ").removesuffix("It is 4.").removesuffix(" → ")
    assert middle == (f"✗ {said}" if said else "") if said is not None else middle.startswith("✗ Traceback (")


def test_long_arguments_are_shortened() -> None:
    line = agent_line(f'<tool_call>{{"name": "run", "arguments": {{"code": "{"x" * 500}"}}}}</tool_call>')
    assert len(line) < 60
    assert line.endswith("…)")
