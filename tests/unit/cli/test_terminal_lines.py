"""Long lines of a terminal break between words, also where a character takes two cells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from rlpanel.cli.terminal_text import wrapped


@pytest.mark.parametrize("width", [20, 37, 80])
def test_a_long_line_breaks_between_words_and_keeps_its_indent(width: int) -> None:
    text = "From step 21 on, 75% of the rollouts that call add have an error, while the reward fell."
    parts = wrapped(f"    {text}", width)
    assert all(part.startswith("    ") and cell_len(part) <= width for part in parts)
    assert " ".join(part.strip() for part in parts) == text


def test_characters_of_two_cells_are_counted() -> None:
    line = "  " + "响应里有乱码" * 9
    parts = wrapped(line, 30)
    assert max(map(cell_len, parts)) <= 30
    assert "".join(part.strip() for part in parts) == line.strip()


def test_a_pipe_has_any_width() -> None:
    line = "  " + "word " * 100
    assert wrapped(line, 0) == [line]
