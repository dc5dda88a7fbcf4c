"""The list of runs below a folder, with their findings; it is read again every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from rlpanel.errors import RLPanelError
from rlpanel.queries.runs import MAX_READ
from rlpanel.queries.table import Table
from rlpanel.terminal_ui.cell_texts import MARKS, SEVERITY_COLORS, age_text, sparkline
from rlpanel.terminal_ui.token_colors import number_cell, text_cell
from rlpanel.terminal_ui.widgets import FilterLine

#: Orders of the list, and the words for them.
ORDERS = (
    ("", "newest first"), ("run", "by name"), ("-reward", "highest reward first"),
    ("-step", "latest step first"), ("-severity", "worst finding first"),
)  # fmt: skip

#: Most rows and megabytes of the first lists: the newest runs are shown before all have been read.
LISTS: tuple[tuple[int | None, int], ...] = ((64, 16), (512, 64), (None, MAX_READ))
#: Part of the time that may be spent on reading the list.
SHARE = 0.05


class RunListScreen(Screen[None]):
    """The runs; Enter opens one.

    Parameters
    ----------
    read : callable
        Returns the table of runs in an order, with at most so many rows and after reading so many megabytes;
        it is called on a thread.
    open_run : callable
        Opens a run by its folder and name.
    every : float
        Seconds between two readings; more if a reading takes long.
    lists : sequence of (int or None, int)
        Rows and megabytes of the first readings; of all others, those of the last.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("slash", "filter", "Filter"),
        ("s", "order", "Order"),
        ("r", "again", "Read again"),
        ("question_mark", "app.help", "Keys"),
        ("q", "app.quit", "Quit"),
    ]
    DEFAULT_CSS = """
    RunListScreen #where { height: auto; padding: 0 1; }
    RunListScreen DataTable { height: 1fr; }
    """

    def __init__(
        self,
        read: Callable[[str, int | None, int], Table],
        open_run: Callable[[str, str], None],
        every: float,
        lists: Sequence[tuple[int | None, int]] = LISTS,
    ) -> None:
        super().__init__()
        self._read, self._open, self._every, self._lists = read, open_run, every, lists
        self._order, self._filter = 0, ""
        self._rows: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._total, self._due = 0, 0.0
        self._cells: dict[str, list[Text]] = {}

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
        self.set_interval(self._every, self._again_if_due)

    def _again_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.action_again()

    def action_again(self) -> None:
        """Read the list on a thread, unless it is being read."""
        if not any(worker.group == "list" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._read_list(), group="list")

    async def _read_list(self) -> None:
        for limit, megabytes in self._lists[-1:] if self._cells or self._order else self._lists:
            began = time.monotonic()
            try:
                table = await asyncio.to_thread(self._read, ORDERS[self._order][0], limit, megabytes)
            except RLPanelError as error:
                self.query_one("#where", Static).update(text_cell(str(error), "red", 500))
                return
            self._rows, self._facts, self._total = table.rows, table.about, table.total
            self._show()
            now = time.monotonic()
            self._due = now + (now - began) / SHARE
            if len(self._rows) == self._total and not self._facts.get("unread"):
                return

    def _show(self) -> None:
        rows = [row for row in self._rows if self._filter.lower() in row["run"].lower()]
        self._fill({row["path"]: self._row_cells(row) for row in rows})
        filtered = f" · {len(rows):,} match {self._filter}" if self._filter else ""
        count = f"{len(self._rows):,} runs"
        if len(self._rows) < self._total:
            count = f"{len(self._rows):,} of {self._total:,} runs, reading the others …"
        line = text_cell(
            f"{self._facts.get('root', '')} · {count}{filtered} · {ORDERS[self._order][1]}", most=300
        )
        if self._facts.get("unread"):
            line.append("\n")
            line.append_text(text_cell(self._facts["unread"], "yellow", 400))
        self.query_one("#where", Static).update(line)

    @staticmethod
    def _row_cells(row: dict[str, Any]) -> list[Text]:
        """Return the cells of a run, in the order of the columns."""
        severity = row["severity"]
        color = SEVERITY_COLORS.get(severity or "", "green" if severity == "" else "dim")
        modified = row["modified"]
        age = time.time() - datetime.fromisoformat(modified).timestamp() if modified else None
        finding = row["finding"] or (f"unread: {row['unread']}" if row["unread"] else "")
        return [
            Text(MARKS.get(severity, "·") or "·", color),
            text_cell(row["run"], "bold"),
            number_cell(row["step"]),
            number_cell(row["reward"]),
            text_cell(None if age is None else age_text(age)),
            Text(sparkline(row["trend"] or ()), "cyan"),
            number_cell(row["samples"]),
            text_cell(finding, color if row["finding"] else "dim"),
        ]

    def _fill(self, cells: dict[str, list[Text]]) -> None:
        """Show rows by their keys. If the runs are the same as before, only changed cells are drawn anew."""
        table: DataTable[Text] = self.query_one(DataTable)
        before, self._cells = self._cells, cells
        if list(before) == list(cells):
            for place, (old, new) in enumerate(zip(before.values(), cells.values(), strict=True)):
                for column, (was, now) in enumerate(zip(old, new, strict=True)):
                    if was != now or was.style != now.style:
                        table.update_cell_at(Coordinate(place, column), now, update_width=True)
            return
        kept = self._at_cursor()
        table.clear()
        for key, row in cells.items():
            table.add_row(*row, key=key)
        if kept in cells:
            table.move_cursor(row=list(cells).index(kept), animate=False)

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
