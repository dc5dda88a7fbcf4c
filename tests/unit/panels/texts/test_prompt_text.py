"""Texts of a log are made readable and safe."""

from __future__ import annotations

import html
import re

import pytest

from rlpanel.panels.texts.sample_texts import answer_html, prompt_html
from rlpanel.texts.prompt_parts import TextStyle, answer_cell, clean, prompt_cell, prompt_line, without_system
from rlpanel.texts.shorten import first_line
from tests.unit.texts.prompts import PROMPTS, QUESTION, SYSTEM

PLAIN = TextStyle()
ATTACK = "<img src=x onerror=alert(1)><|im_start|><script>alert(1)</script>\" onmouseover='alert(1)"
#: All that the HTML of a text may contain besides text.
ALLOWED = {
    *("<div>", "</div>", "<details>", "<details open>", "</details>", "<summary>", "</summary>"),
    *("<span>", '<span class="markup">', "</span>", "<mark>", "</mark>"),
}


def text_of(markup: str) -> str:
    """The text that a browser shows with all folds open, without their summaries."""
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<summary>.*?</summary>", "", markup, flags=re.S)))


def test_a_token_of_the_settings_is_left_out_everywhere() -> None:
    assert clean("<|pad|>one<|pad|>two<|pad|>", TextStyle("<|pad|>")) == "onetwo"
    assert clean("<pad>one<pad>two<pad>", PLAIN) == "one<pad>two"


def test_the_system_prompt_of_the_settings_is_cut() -> None:
    style = TextStyle("<|pad|>", "<|end|>")
    assert without_system("<|pad|>be kind<|end|>\nhi<|pad|>", style) == "hi"
    assert without_system("hi", style) == "hi"


def test_lines() -> None:
    assert first_line("\n\none\ntwo", 2) == "on"
    assert first_line(" \n") == "–"
    assert prompt_line(PROMPTS["Llama 3"], PLAIN) == QUESTION
    assert prompt_line(None, PLAIN) == "–"


def test_the_system_prompt_is_folded_not_lost() -> None:
    markup = prompt_html("<be kind><|end|>2 < 3", TextStyle(system_end="<|end|>"))
    assert markup.startswith("<details><summary>system prompt · 9 characters</summary>&lt;be kind&gt;")
    assert markup.endswith("</details><div>2 &lt; 3</div>")


@pytest.mark.parametrize("name", PROMPTS)
def test_the_html_of_a_prompt_contains_it_as_it_was_logged(name: str) -> None:
    text = f"<|endoftext|><|endoftext|>{PROMPTS[name]}<pad>"
    assert text_of(prompt_html(text, PLAIN)) == text
    assert text_of(prompt_html(text, PLAIN, [(3, 40), (45, 50)])) == text


@pytest.mark.parametrize("name", PROMPTS)
def test_markup_of_a_log_is_text(name: str) -> None:
    text = f"<pad>{PROMPTS[name].replace(QUESTION, ATTACK).replace('assistant.', ATTACK)}"
    place = text.index("onerror")
    style = TextStyle("<i>", beginnings=(ATTACK[:30],))
    for markup in (
        prompt_html(text, style),
        prompt_html(text, style, [(place - 9, place + 4)]),
        answer_html(text, style, [(place, len(text))]),
    ):
        assert {*re.findall(r"<[^>]*>", markup)} <= ALLOWED
        assert text_of(markup).count("onerror") == text.count("onerror")


def test_a_role_is_text() -> None:
    text = "<|im_start|><b>\nx<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert {*re.findall(r"<[^>]*>", prompt_html(text, PLAIN))} <= ALLOWED
    odd = "<|im_start|>&amp;\"'\nx<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert "<summary>&amp;amp;&quot;&#x27; · 1 character<" in prompt_html(odd, PLAIN)


def test_a_fold_with_a_found_place_is_open_and_names_it() -> None:
    text = PROMPTS["Qwen"]
    start = text.index("helpful")
    markup = prompt_html(text, PLAIN, [(start, start + 7)])
    summary = "<details open><summary>system · 28 characters · <span>You are a <mark>helpful</mark> assist"
    assert markup.startswith(summary)
    assert "You are a <mark>helpful</mark> assistant.<span" in markup
    assert "<details open>" not in prompt_html(text, PLAIN)
    assert "<details open>" not in prompt_html(text, PLAIN, [(text.index("2 + 2"), text.index("?"))])


@pytest.mark.parametrize(
    "text", ["line\n" * 400 + "a needle", "word " * 400 + "a needle", "[user] " + "x" * 900 + "needle"]
)
def test_what_stands_far_before_a_found_place_is_folded(text: str) -> None:
    start = text.index("needle")
    markup = prompt_html(text, PLAIN, [(start, start + 6)])
    size, seen = re.search(
        r"<details><summary>([\d,]+) characters before</summary>.*?</details>(.*)<mark>", markup, re.S
    ).groups()
    assert int(size.replace(",", "")) >= 600
    assert len(seen) <= 300
    assert text_of(markup) == text
    assert " before" not in prompt_html(text, PLAIN)


def test_many_earlier_turns_are_one_fold_which_opens_with_the_place_in_it() -> None:
    text = "[system] kind\n[user] one\n[assistant] two\n[user] three\n[assistant] four\n[user] five"
    markup = prompt_html(text, PLAIN)
    assert re.findall(r"<summary>(.*?)</summary>", markup) == [
        "system · 4 characters",
        "4 earlier turns · 15 characters",
        *(
            "user · 3 characters",
            "assistant · 3 characters",
            "user · 5 characters",
            "assistant · 4 characters",
        ),
    ]
    assert text_of(markup) == text
    start = text.index("three")
    assert prompt_html(text, PLAIN, [(start, start + 5)]).count("<details open>") == 2
    short = prompt_html(PROMPTS["DeepSeek"], PLAIN)
    assert "earlier turns" not in short


def test_found_places_are_marked_in_answers_though_padding_is_left_out() -> None:
    assert answer_html("<pad>a b<!>c<pad>", TextStyle("<!>"), [(7, 12)]) == "a <mark>bc</mark>"
    assert answer_html("<pad>a<pad>", PLAIN, [(0, 3)]) == "a"


def test_a_line_shows_where_the_text_was_found() -> None:
    text = PROMPTS["Qwen"]
    system, asked = text.index("helpful"), text.index("What")
    assert prompt_cell(text, PLAIN, [(asked, asked + 4)]) == QUESTION
    assert prompt_cell(text, PLAIN, [(system, system + 7)]) == "…helpful assistant."
    assert prompt_cell(text, PLAIN, [(system + 2, system + 7)]) == "…helpful assistant."
    assert prompt_cell(text, PLAIN, [(system, system + 7), (asked, asked + 4)]) == QUESTION
    assert prompt_cell(text, PLAIN, [(0, 12)]) == f"<|im_start|>system {SYSTEM}<|im_end|> "
    late = text.index("+ 2?")
    assert prompt_cell(text, PLAIN, [(late, late + 4)]) == QUESTION
    assert prompt_cell(text, PLAIN, [(late, late + 9)]).startswith("…+ 2?")
    lines = "one two three four\nfive needle"
    assert prompt_cell(lines, PLAIN, [(24, 30)]) == "…needle"
    assert prompt_cell("x" * 40 + "needle", PLAIN, [(40, 46)]) == "…needle"
    long = f"{'word ' * 100}needle{' word' * 100}"
    for cell in (prompt_cell, answer_cell):
        assert cell(long, PLAIN) == long
        assert cell(long, PLAIN, [(500, 506)]).startswith("…needle word word ")
