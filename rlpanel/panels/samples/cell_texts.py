"""Texts of the grid's cells: what an agent did as one line, and other cells as in any table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rlpanel.panels.tables.data_table import cells_of
from rlpanel.texts.agent_line import agent_line

#: Maximum characters of a text in a row; the search looks at the whole text.
TEXT_CHARS = 2000
#: Attribute of a frame: True if its responses are shown as `agent_line` writes them.
AGENT_LINES = "agent_lines"


def sample_cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the cells of a column of the grid."""
    if name == "response" and page.attrs.get(AGENT_LINES):
        return [agent_line(text, whole=len(text) <= TEXT_CHARS) for text in page[name].tolist()]
    return cells_of(page, name)
