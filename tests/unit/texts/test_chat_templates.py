"""Chat templates are recognised in a prompt's text, and nothing else is."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from rlpanel.texts import chat_templates
from rlpanel.texts.chat_templates import TEMPLATES, open_turn, turns_of
from tests.unit.texts.prompts import PROMPTS, QUESTION, ROLES, SYSTEM, USUAL


@pytest.mark.parametrize("name", PROMPTS)
def test_each_template_gives_its_turns(name: str) -> None:
    text = PROMPTS[name]
    turns = turns_of(text)
    assert [turn.role for turn in turns] == ROLES.get(name, USUAL).split()
    asked = [turn for turn in turns if turn.role == "user"][-1]
    assert text[asked.begin : asked.finish].strip() == QUESTION


@pytest.mark.parametrize("name", PROMPTS)
def test_the_turns_cover_the_text_without_gaps(name: str) -> None:
    turns = turns_of(PROMPTS[name])
    assert (turns[0].start, turns[-1].end) == (0, len(PROMPTS[name]))
    assert all(one.end == two.start for one, two in pairwise(turns))
    assert all(turn.start <= turn.begin <= turn.finish <= turn.end for turn in turns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        QUESTION,
        "user\nList the names of the users.",
        "user\nWhat does a model\nof an assistant\n",
        "Explain what <|im_start|>user\n means.",
        "Explain the token <|user|> of Phi.",
        "Write a dialogue.\nUser: hi\nAssistant: hello\nUser: and then?",
        "User: hi\nUser: again\nAssistant:",
        "Question: which is right?\nA: 1\nB: 2\nAnswer:",
        "Answer:",
        f"User: hi\nAssistant: {'hello ' * 40}as an Assistant: would",
        "See [user] guide.",
        "Sort [system] and [user] logs.",
        "def turn(model):\n    return model",
    ],
)
def test_ordinary_text_is_no_conversation(text: str) -> None:
    assert turns_of(text) == []


def test_a_prompt_that_was_cut_at_its_beginning_keeps_its_first_part() -> None:
    text = PROMPTS["Qwen"][19:]
    assert text.startswith("You are")
    [first, *rest] = turns_of(text)
    assert (first.role, text[first.begin : first.finish]) == ("earlier text", f"{SYSTEM}<|im_end|>\n")
    assert [turn.role for turn in rest] == ["user", "assistant"]


def test_a_role_in_brackets_begins_a_turn_only_at_the_beginning_of_a_line() -> None:
    assert [turn.role for turn in turns_of("[user] Sort [system] and\n [tool] logs")] == ["user"]


def test_markup_of_another_template_inside_a_turn_is_content() -> None:
    text = PROMPTS["Qwen"].replace(QUESTION, "What is <|user|> in [INST] ?")
    assert [turn.role for turn in turns_of(text)] == USUAL.split()


PATTERNS = {name: template.header for name, template in TEMPLATES.items()} | {
    style.header.pattern: style.header for style in chat_templates.STYLES
}


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_looks_far_from_where_it_begins(name: str) -> None:
    """So a search looks at each character a bounded number of times, whatever the text."""
    parsed = re._parser.parse(PATTERNS[name].pattern, PATTERNS[name].flags)  # type: ignore[attr-defined]
    assert parsed.getwidth()[1] <= 300


class CountingText(str):
    """Text that counts the characters that it is searched through with ``find``."""

    searched = 0

    def find(self, text: str, start: int = 0, end: int = 0) -> int:  # type: ignore[override]
        found = super().find(text, start, end)
        self.searched += (end if found < 0 else found) - start
        return found


@pytest.mark.parametrize("turns", [10, 100, 1000])
def test_the_ends_of_turns_are_looked_for_within_them_only(turns: int) -> None:
    text = CountingText("<|im_start|>user\nno end\n" * turns)
    assert len(turns_of(text)) == turns
    assert 0 < text.searched <= len(text)


@pytest.mark.parametrize(
    "name", ["Qwen", "Llama 3", "Llama 2", "Gemma", "DeepSeek", "Phi 3", "GLM", "Command"]
)
def test_a_prompt_that_is_cut_inside_an_answer_ends_in_an_open_turn(name: str) -> None:
    cut = f"{PROMPTS[name]}I think"
    found = open_turn(cut)
    assert found is not None
    assert (found.role, cut[found.begin : found.finish].endswith("I think")) == ("assistant", True)


@pytest.mark.parametrize("name", ["rlpanel's adapters", "ChatML, plain", "HH", "few shots", "Alpaca"])
def test_without_markup_that_ends_turns_no_turn_is_open(name: str) -> None:
    assert turns_of(f"{PROMPTS[name]}I think")
    assert open_turn(f"{PROMPTS[name]}I think") is None
