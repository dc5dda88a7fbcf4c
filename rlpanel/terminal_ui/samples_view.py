"""A widget: the samples of a step or of a filter as a table, in a chosen order."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import DataTable

from rlpanel.queries.table import Table
from rlpanel.terminal_ui.safe_cells import number_cell, text_cell

#: Columns that are not shown: the uid is the row's key.
_HIDDEN = frozenset({"uid", "rank", "cut", "prompt", "ground_truth", "ref_response", "note"})


class SamplesView(DataTable[Text]):
    """The samples; the key of a row is the uid."""

    DEFAULT_CSS = "SamplesView { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True)
        self.uids: list[str] = []

    def show(self, table: Table) -> None:
        """Show a table of samples; the cursor stays on its sample."""
        before = self.uids[self.cursor_row] if 0 <= self.cursor_row < len(self.uids) else ""
        rows = table.rows
        names = [
            column.name
            for column in table.columns
            if column.name not in _HIDDEN and any(row[column.name] not in (None, "", []) for row in rows)
        ]
        names.sort(key=lambda name: name == "response")  # the text is the last
        self.clear(columns=True)
        for name in names:
            self.add_column(text_cell(name), key=name)
        self.uids = [row["uid"] for row in rows]
        for row in rows:
            cells = [
                text_cell(row[name], most=160) if name == "response" else number_cell(row[name])
                for name in names
            ]
            self.add_row(*cells, key=row["uid"])
        if before in self.uids:
            self.move_cursor(row=self.uids.index(before), animate=False)
