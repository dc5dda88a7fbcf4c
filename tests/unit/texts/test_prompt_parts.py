"""A prompt is divided into parts without losing a character, and its question is found."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.texts.prompt_parts import MAX_TURNS, TextStyle, parts_of, question_of
from tests.unit.texts.prompts import PROMPTS, QUESTION, SYSTEM

PLAIN = TextStyle()
#: Pieces that make any text look like a template.
PIECES = st.sampled_from(
    [
        *PROMPTS.values(),
        "<|im_start|>",
        "user\n",
        "<|im_end|>",
        "[INST]",
        "<|pad|>",
        "\n",
        "User: ",
        "hi",
        "</s>",
    ]
)


def names(text: str, style: TextStyle = PLAIN) -> list[str]:
    """The parts' names; those that are open have a star."""
    return [part.name + ("" if part.folded else "*") for part in parts_of(text, style)]


@pytest.mark.parametrize("name", PROMPTS)
def test_the_question_is_the_last_turn_of_the_user(name: str) -> None:
    assert question_of(PROMPTS[name], PLAIN).strip() == QUESTION


@pytest.mark.parametrize("name", PROMPTS)
def test_padding_around_a_template_changes_nothing(name: str) -> None:
    text = f"{'<|endoftext|>' * 3}{PROMPTS[name]}{'<|pad|>' * 2}"
    assert question_of(text, PLAIN).strip() == QUESTION
    assert [names(text)[at] for at in (0, -1)] == ["padding", "padding"]


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(["", "<|im_end|>"]), st.booleans())
def test_the_parts_are_the_text(text: str, system_end: str, fold: bool) -> None:
    style = TextStyle("<|pad|>", system_end, fold, ("hi",))
    parts = parts_of(text, style)
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert all(one.end == two.start for one, two in pairwise(parts))
    assert all(part.start <= part.begin <= part.finish <= part.end for part in parts)
    assert [part.question for part in parts].count(True) == 1


def test_only_the_question_and_what_the_response_continues_are_open() -> None:
    assert names(PROMPTS["Qwen"]) == ["system", "user*", "assistant*"]
    assert names(PROMPTS["Qwen, tools"]) == ["user*", "assistant", "tool", "assistant*"]
    assert names("Hello") == ["*"]


def test_the_marker_of_the_settings_wins_over_recognition() -> None:
    style = TextStyle(system_end="<|im_end|>")
    assert names(PROMPTS["Qwen"], style) == ["system prompt", "*"]
    assert question_of(PROMPTS["Qwen"], style).startswith(f"<|im_start|>user\n{QUESTION}")
    assert question_of("no marker", style) == "no marker"


def test_a_token_of_the_settings_is_left_out_everywhere_in_the_question() -> None:
    assert question_of("!one! two!", TextStyle("!")) == "one two"


def test_nothing_is_recognised_if_it_is_switched_off() -> None:
    text = f"<pad>{PROMPTS['Qwen']}"
    assert question_of(text, TextStyle(fold=False, beginnings=("<pad>",))) == text


def test_a_shared_beginning_is_folded_in_plain_prompts_and_in_the_last_user_turn() -> None:
    style = TextStyle(beginnings=("What is ", "What "))
    assert names("What is 2 + 2?", style) == ["shared beginning", "*"]
    assert names(PROMPTS["Qwen"], style) == ["system", "shared beginning", "user*", "assistant*"]
    assert question_of(PROMPTS["Qwen"], style) == "2 + 2?"


def test_a_prompt_that_is_nothing_but_the_shared_beginning_is_shown() -> None:
    assert question_of("What is ", TextStyle(beginnings=("What is ",))) == "What is "


def test_an_empty_turn_of_the_user_is_no_question() -> None:
    text = f"[user] {QUESTION}\n[assistant] yes\n[user] "
    assert question_of(text, PLAIN).strip() == QUESTION
    assert question_of(f"[system] {SYSTEM}\n[assistant]", PLAIN).strip() == SYSTEM


def test_the_oldest_of_very_many_turns_are_one_part() -> None:
    text = "[user] one\n[assistant] two\n" * 500 + "[user] last"
    parts = parts_of(text, PLAIN)
    assert (len(parts), parts[0].name) == (MAX_TURNS + 1, "earlier turns")
    assert question_of(text, PLAIN) == "last"
