"""Texts on the page: escaped text, and changes of numbers."""

from __future__ import annotations

import math

from rlpanel.panels.ui.theme import delta, safe_text


def test_markup_is_text() -> None:
    assert safe_text("<img src=x onerror='a' \">") == "&lt;img src=x onerror=&#x27;a&#x27; &quot;&gt;"


def test_a_change_needs_both_its_ends() -> None:
    assert delta(1.0, math.nan) == ""
    assert "▼ 0.5" in delta(1.0, 1.5)
