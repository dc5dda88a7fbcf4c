"""Texts of a log are made readable and safe."""

from __future__ import annotations

import math

from rlpanel.panels.ui.prompt_text import clean, prompt_html, split_system
from rlpanel.panels.ui.theme import delta, safe_text


def test_pads_are_dropped_and_the_system_prompt_is_cut() -> None:
    assert clean("<|pad|>be kind<|end|>\nhi<|pad|>", "<|pad|>", "<|end|>") == "hi"


def test_without_its_marker_all_is_prompt() -> None:
    assert split_system("hi", "<|end|>") == ("", "hi")


def test_the_system_prompt_is_folded_not_lost() -> None:
    html = prompt_html("<be kind><|end|>2 < 3", "", "<|end|>")
    assert html.startswith("<details><summary>system prompt, 16 characters</summary>&lt;be kind&gt;")
    assert html.endswith("</details>2 &lt; 3")


def test_markup_is_text() -> None:
    assert safe_text("<img src=x onerror='a' \">") == "&lt;img src=x onerror=&#x27;a&#x27; &quot;&gt;"


def test_a_change_needs_both_its_ends() -> None:
    assert delta(1.0, math.nan) == ""
    assert "▼ 0.5" in delta(1.0, 1.5)
