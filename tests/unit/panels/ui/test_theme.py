"""Texts of numbers."""

from __future__ import annotations

import pytest

from rlpanel.panels.ui.theme import change_text


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
