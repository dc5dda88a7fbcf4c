"""A series of numbers becomes one bar per value."""

from __future__ import annotations

import math

import pytest

from rlpanel.cli.terminal_text import sparkline


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([7.0, 0.0], "█▁"),
        ([1, None, math.nan, 2], "▁  █"),
        ([3, 3], "▄▄"),
        ([], ""),
        ([None, math.nan], ""),
        ([-math.inf, 0, 1], " ▁█"),
    ],
)
def test_bars_reach_from_the_lowest_to_the_highest(values: list[float | None], shown: str) -> None:
    assert sparkline(values) == shown
