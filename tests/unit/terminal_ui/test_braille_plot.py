"""Curves in braille: their extremes, gaps and peaks."""

from __future__ import annotations

from rlpanel.terminal_ui.widgets import braille_lines


def dots(lines: list[str]) -> set[tuple[int, int]]:
    """Return column and row of each dot, as the Unicode standard numbers them."""
    places = {1: (0, 0), 2: (0, 1), 4: (0, 2), 8: (1, 0), 16: (1, 1), 32: (1, 2), 64: (0, 3), 128: (1, 3)}
    return {
        (2 * at + x, 4 * row + y)
        for row, line in enumerate(lines)
        for at, char in enumerate(line)
        for bit, (x, y) in places.items()
        if (ord(char) - 0x2800) & bit
    }


def test_a_rise_goes_from_the_lower_left_to_the_upper_right() -> None:
    found = dots(braille_lines([0.0, 1.0], 10, 3))
    assert (0, 11) in found
    assert (19, 0) in found
    assert {x for x, _ in found} == set(range(20))


def test_a_peak_of_one_step_among_thousands_is_drawn() -> None:
    values = [0.0] * 5000
    values[2500] = 1.0
    assert any(row == 0 for _, row in dots(braille_lines(values, 20, 4)))


def test_missing_values_are_gaps() -> None:
    found = dots(braille_lines([1.0, None, None, float("nan"), 1.0], 5, 1))
    assert {x for x, _ in found} < set(range(10))
    assert 5 not in {x for x, _ in found}


def test_sizes_without_room_and_values_without_span() -> None:
    assert braille_lines([], 4, 2) == ["⠀" * 4] * 2
    assert braille_lines([1.0], 0, 1) == [""]
    assert len({row for _, row in dots(braille_lines([2.0] * 9, 4, 2))}) == 1
