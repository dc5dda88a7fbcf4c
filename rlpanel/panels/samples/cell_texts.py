"""Texts of the grid's cells: what an agent did as one line, and other cells as in any table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rlpanel.panels.samples.thumbnails import COLUMN
from rlpanel.panels.tables.data_table import cells_of
from rlpanel.texts.agent_line import agent_line
from rlpanel.texts.shorten import shorten

#: Maximum characters of a text in a row, for filters of columns; the search looks at the whole text.
TEXT_CHARS = 2000
#: Maximum characters that a cell shows: about as many as fit into a column as wide as a large screen.
CELL_CHARS = 400
#: Attribute of a frame: True if its responses are shown as `agent_line` writes them.
AGENT_LINES = "agent_lines"


def sample_cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the cells of a column of the grid."""
    if name == "response" and page.attrs.get(AGENT_LINES):
        cells: Sequence[str | None] = [
            agent_line(text, whole=len(text) <= TEXT_CHARS) for text in page[name].tolist()
        ]
    else:
        cells = cells_of(page, name)
    return cells if name == COLUMN else [cell and shorten(cell, CELL_CHARS) for cell in cells]
