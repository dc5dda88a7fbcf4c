"""Texts on the page are escaped."""

from __future__ import annotations

from rlpanel.panels.ui.theme import safe_text


def test_markup_is_text() -> None:
    assert safe_text("<img src=x onerror='a' \">") == "&lt;img src=x onerror=&#x27;a&#x27; &quot;&gt;"
