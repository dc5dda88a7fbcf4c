"""The list of runs below a folder, with their findings; it is read again every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from rlpanel.errors import RLPanelError
from rlpanel.queries.table import Table
from rlpanel.terminal_ui.filter_line import FilterLine
from rlpanel.terminal_ui.run_marks import MARKS, SEVERITY_COLORS, age_text
from rlpanel.terminal_ui.safe_cells import number_cell, text_cell
from rlpanel.terminal_ui.sparkline import sparkline

#: Orders of the list, and the words for them.
ORDERS = (
    ("", "newest first"), ("run", "by name"), ("-reward", "highest reward first"),
    ("-step", "latest step first"), ("-severity", "worst finding first"),
)  # fmt: skip


class RunsScreen(Screen[None]):
    """The runs; Enter opens one.

    Parameters
    ----------
    read : callable
        Returns the table of runs in an order; it is called on a thread.
    open_run : callable
        Opens a run by its folder and name.
    every : float
        Seconds between two readings.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("slash", "filter", "Filter"),
        ("s", "order", "Order"),
        ("r", "again", "Read again"),
        ("question_mark", "app.help", "Keys"),
        ("q", "app.quit", "Quit"),
    ]
    DEFAULT_CSS = """
    RunsScreen #where { height: auto; padding: 0 1; }
    RunsScreen DataTable { height: 1fr; }
    """

    def __init__(
        self, read: Callable[[str], Table], open_run: Callable[[str, str], None], every: float
    ) -> None:
        super().__init__()
        self._read, self._open, self._every = read, open_run, every
        self._order, self._filter = 0, ""
        self._rows: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """Lay out one line about the folder, the table, and the keys."""
        yield Static(Text("Reading the runs …", "dim"), id="where")
        table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        for name in ("", "run", "step", "reward", "age", "trend", "samples", "finding"):
            table.add_column(name, key=name or "mark")
        yield table
        yield FilterLine("part of the name of a run")
        yield Footer()

    def on_mount(self) -> None:
        """Read the list now, and again and again."""
        self.query_one(DataTable).focus()
        self.action_again()
        self.set_interval(self._every, self.action_again)

    def action_again(self) -> None:
        """Read the list on a thread, unless it is being read."""
        if not any(worker.group == "list" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._read_list(), group="list")

    async def _read_list(self) -> None:
        try:
            table = await asyncio.to_thread(self._read, ORDERS[self._order][0])
        except RLPanelError as error:
            self.query_one("#where", Static).update(text_cell(str(error), "red", 500))
            return
        self._rows, self._facts = table.rows, table.about
        self._show()

    def _show(self) -> None:
        rows = [row for row in self._rows if self._filter.lower() in row["run"].lower()]
        table: DataTable[Text] = self.query_one(DataTable)
        kept = self._at_cursor()
        table.clear()
        now = time.time()
        for row in rows:
            severity = row["severity"]
            color = SEVERITY_COLORS.get(severity or "", "green" if severity == "" else "dim")
            age = now - datetime.fromisoformat(row["modified"]).timestamp() if row["modified"] else None
            finding = row["finding"] or (f"unread: {row['unread']}" if row["unread"] else "")
            table.add_row(
                Text(MARKS.get(severity, "·") or "·", color),
                text_cell(row["run"], "bold"),
                number_cell(row["step"]),
                number_cell(row["reward"]),
                text_cell(None if age is None else age_text(age)),
                Text(sparkline(row["trend"] or ()), "cyan"),
                number_cell(row["samples"]),
                text_cell(finding, color if row["finding"] else "dim"),
                key=row["path"],
            )
        paths = [row["path"] for row in rows]
        if kept in paths:
            table.move_cursor(row=paths.index(kept), animate=False)
        filtered = f" · {len(rows):,} match {self._filter}" if self._filter else ""
        line = text_cell(
            f"{self._facts.get('root', '')} · {len(self._rows):,} runs{filtered} · {ORDERS[self._order][1]}",
            most=300,
        )
        if self._facts.get("unread"):
            line.append("\n")
            line.append_text(text_cell(self._facts["unread"], "yellow", 400))
        self.query_one("#where", Static).update(line)

    def _at_cursor(self) -> str:
        table: DataTable[Text] = self.query_one(DataTable)
        if not table.is_valid_row_index(table.cursor_row):
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def action_filter(self) -> None:
        """Show the line for a filter."""
        self.query_one(FilterLine).open()

    def on_filter_line_applied(self, event: FilterLine.Applied) -> None:
        """Show the runs with this text in their names."""
        self._filter = event.text
        self._show()
        self.query_one(DataTable).focus()

    def action_order(self) -> None:
        """Take the next order."""
        self._order = (self._order + 1) % len(ORDERS)
        self.action_again()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open a run."""
        path = str(event.row_key.value)
        name = next(row["run"] for row in self._rows if row["path"] == path)
        self._open(path, name)
