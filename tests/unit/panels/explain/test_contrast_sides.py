"""Ranges of steps as a user writes them."""

from __future__ import annotations

import pytest

from rlpanel.errors import SettingError
from rlpanel.panels.explain.contrast_sides import parse_range


@pytest.mark.parametrize(
    ("text", "bounds"), [("7", (7, 7)), (" 3 – 9 ", (3, 9)), ("9-3", (3, 9)), ("1:4", (1, 4))]
)
def test_a_range_is_read(text: str, bounds: tuple[int, int]) -> None:
    assert parse_range(text) == bounds


@pytest.mark.parametrize("text", ["", "a", "1-", "1-2-3", "-5"])
def test_what_is_no_range_gets_a_message(text: str) -> None:
    with pytest.raises(SettingError, match="not a range of steps"):
        parse_range(text)
