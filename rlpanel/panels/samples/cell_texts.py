"""Texts of a table's cells: numbers as the heads write them, and what an agent did as one line."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rlpanel.number_text import number
from rlpanel.panels.ui.field_names import field_of
from rlpanel.texts.agent_line import agent_line

#: Maximum characters of a text in a row; the search looks at the whole text.
TEXT_CHARS = 2000
#: Attribute of a frame: True if its responses are shown as `agent_line` writes them.
AGENT_LINES = "agent_lines"


def page_cells(frame: pd.DataFrame, rows: range) -> dict[str, list[Any]]:
    """Return the cells of some rows in the browser's format; the browser sorts and filters nothing."""
    page = frame.iloc[rows.start : rows.stop]
    return {"index": page.index.tolist()} | {field_of(name): cells_of(page, name) for name in page.columns}


def cells_of(page: pd.DataFrame, name: str) -> list[Any]:
    """Return the cells of a column: numbers as texts, and other values as they are."""
    values = page[name]
    if pd.api.types.is_numeric_dtype(values):
        return [number(value, whole=True) for value in values.tolist()]
    if name == "response" and page.attrs.get(AGENT_LINES):
        return [agent_line(text, whole=len(text) <= TEXT_CHARS) for text in values.tolist()]
    return list(values.tolist())
