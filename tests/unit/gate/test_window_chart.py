"""The chart of a gate's report: its axis has round numbers that lie in the plotted range."""

from __future__ import annotations

import pytest

from rlpanel.gate.gate_files import round_ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.45, 1.01, ["0", "0.5", "1"]),
        (3.2, 3.31, ["3.2", "3.25", "3.3"]),
        (12_345, 99_999, ["20000", "40000", "60000", "80000"]),
        (-7, -2, ["-7", "-6", "-5", "-4", "-3", "-2"]),
    ],
)
def test_ticks_are_round_and_in_range(low: float, high: float, expected: list[str]) -> None:
    assert [f"{each:.6g}" for each in round_ticks(low, high)] == expected
