"""Texts of numbers."""

from __future__ import annotations

import math

import pytest

from rlpanel.panels.ui.theme import change_text, delta, number, safe_text


@pytest.mark.parametrize(
    ("value", "before", "text"),
    [
        (0.3, 0.1, "▲ 0.2"),
        (0.1 + 0.2, 0.3, "＝ 0"),
        (1e-20, 2e-20, "▼ 1.00e-20"),
        (0.0, 0.0, "＝ 0"),
        (float("nan"), 1.0, ""),
    ],
)
def test_a_change_is_no_rounding_error_of_the_values(value: float, before: float, text: str) -> None:
    assert change_text(value, before) == text


def test_markup_is_text() -> None:
    assert safe_text("<img src=x onerror='a' \">") == "&lt;img src=x onerror=&#x27;a&#x27; &quot;&gt;"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1.171875, "1.17"), (-0.0451, "−0.0451"), (13.21, "13.2"), (3840.4, "3,840"),
        (2e7, "2.00e+07"), (1e-6, "1.00e-06"), (math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_change_needs_both_its_ends() -> None:
    assert delta(1.0, math.nan) == ""
    assert "▼ 0.5" in delta(1.0, 1.5)
