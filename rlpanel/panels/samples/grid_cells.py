"""The texts of the grid's cells: what many rows share is left out, and states have a sign and words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from rlpanel.panels.samples.thumbnails import COLUMN
from rlpanel.panels.tables.data_table import cells_of
from rlpanel.texts.agent_line import agent_line
from rlpanel.texts.final_answers import DIFFERENT, EQUAL, UNCLEAR
from rlpanel.texts.shorten import ELLIPSIS, shorten

#: Maximum characters that a cell shows: about as many as fit into a column as wide as a large screen.
CELL_CHARS = 400
#: Attributes of a frame: True if its responses are shown in short, and the name of the column of matches.
AGENT_LINES, MATCH = "agent_lines", "match"
#: Cell of a prompt that is the same as that of the row above.
DITTO = "″"
#: Least texts whose beginnings are compared, least characters of one, and the share of texts that begin so.
_FEW, _BEGINNING, _SHARE = 3, 10, 0.75
#: Sign by the text of a state; the words stay beside it.
_SIGNS = {
    **dict.fromkeys(("ok", "stop", "completed", "success", "succeeded", EQUAL), "✓"),
    **dict.fromkeys(("truncated", "length", "max_tokens", "discarded", "aborted", "abort", UNCLEAR), "○"),
    **dict.fromkeys(("failed", "error", "environment_error", "tool_error", "timeout", DIFFERENT), "✗"),
}
_STATES = ("status", "finish_reason")


def sample_cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the cells of a column of the grid's page."""
    if name == COLUMN or pd.api.types.is_numeric_dtype(page[name]):
        return cells_of(page, name)
    cells = cells_of(page, name)
    if name in (*_STATES, page.attrs.get(MATCH)):
        cells = [f"{sign} {cell}" if cell and (sign := _SIGNS.get(cell.lower())) else cell for cell in cells]
    elif name == "prompt":
        cells = _once(cells)
    elif name == "response" and page.attrs.get(AGENT_LINES):
        errors = page["tool_errors"].tolist() if "tool_errors" in page else [0] * len(page)
        lines = zip(cells, errors, strict=True)
        cells = without_shared_beginning([agent_line(cell or "", failed=count > 0) for cell, count in lines])
    return [cell and shorten(cell, CELL_CHARS) for cell in cells]


def _once(cells: Sequence[str | None]) -> list[str | None]:
    """Return the prompts; one that follows the same prompt is a ditto mark."""
    pairs = zip(cells, [None, *cells], strict=False)
    return [DITTO if cell and cell == before else cell for cell, before in pairs]


def without_shared_beginning(texts: Sequence[str]) -> list[str]:
    """Return responses from the first word on in which they differ, with an ellipsis before it.

    A beginning is left out if at least three quarters of the texts have it. A text that is no longer stays.
    """
    several = sorted({*texts})
    if len(several) < _FEW:
        return [*texts]
    # In sorted texts, those with the same beginning follow each other.
    pairs = zip(several, several[math.ceil(len(several) * _SHARE) - 1 :], strict=False)
    shared = max((_common(*pair) for pair in pairs), key=len)
    shared = shared[: len(shared.rstrip()) and max(shared.rfind(" "), shared.rfind("\n")) + 1]
    if len(shared) < _BEGINNING:
        return [*texts]
    return [
        ELLIPSIS + rest if text.startswith(shared) and (rest := text[len(shared) :].strip()) else text
        for text in texts
    ]


def _common(first: str, second: str) -> str:
    """Return the beginning that two texts share."""
    least = min(len(first), len(second))
    at = next((at for at in range(least) if first[at] != second[at]), least)
    return first[:at]
