"""Table of samples, prompts, groups or tokens: Tabulator draws the rows of one page.

Rows are sorted, filtered and paged here, and only the current page is sent, as texts. A click reaches Python
as the row's key and not as its number, which may belong to another row while a new order is being sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd
import param

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Height of a row of text, in pixels.
ROW_HEIGHT = 27
#: Most different texts of a column that are sent once each.
MAX_PACKED = 10
#: Most rows of a page that has as many as there is room for.
MAX_ROWS = 60
#: Most characters of a filter that the browser sends.
MAX_FILTER = 1000
_OTHER = re.compile(r"[^A-Za-z0-9_]")


def field_of(name: str) -> str:
    """Return the key of a column in the browser: ``c_reward`` for ``reward``, ``c_a-2e-b`` for ``a.b``.

    A log may name a number ``constructor`` or ``__proto__``, which every object of JavaScript has. Tabulator
    looks for a nested object where a name has a dot.
    """
    return "c_" + _OTHER.sub(lambda match: f"-{ord(match[0]):x}-", name)


@dataclass(frozen=True)
class DataColumn:
    """A column as the browser shows it; all texts are shown as text.

    Attributes
    ----------
    name : str
        Name in the frame.
    title, tip : str
        The head, and the tooltip of the head.
    width : int
        In pixels; 0 shares the width that the others leave.
    grow : int
        Pixels up to which the column takes its part of the room that the others leave; 0 for a fixed width.
        With ``width`` here, it grows only as letters do on a large screen.
    align : str
        ``left``, ``center`` or ``right``.
    filter : str
        ``text`` or ``number`` if the head has a field that filters; empty if it has none.
    filter_label : str
        What a screen reader calls this field.
    swatch : bool
        Whether a cell begins with a colour of CSS, which this process has chosen, and a tab.
    image : bool
        Whether the cells are data URLs of images that this process has encoded.
    group : str
        Head above it and its neighbours of the same group; empty for none.
    hidden : bool
        Whether the column is filtered and sorted by, but not shown.
    """

    name: str
    title: str = ""
    tip: str = ""
    width: int = 0
    grow: int = 0
    align: str = "left"
    filter: str = ""
    filter_label: str = ""
    swatch: bool = False
    image: bool = False
    group: str = ""
    hidden: bool = False


class DataTable(Component):
    """A read-only table of a frame, drawn by Tabulator.

    Parameters
    ----------
    columns : sequence of DataColumn
        Columns of the frame to show, in this order.
    key : str
        Column of the frame that identifies a row; clicks and `chosen` name its values.
    page_size : int
        Rows of a page; 0 shows all rows.
    by_room : bool
        Whether a page has more rows where the browser has room for them, up to `MAX_ROWS`.
    pick : callable, optional
        Called with the key of a clicked row and the name of the clicked column.
    cells : callable, optional
        Returns the texts of a column of some rows; by default `cells_of`.
    row_height : int
        In pixels.
    sortable : bool
        Whether a click on a head sorts.
    empty : str
        Text of a table without rows.
    """

    chosen = param.String(default="", doc="Key of the highlighted row; empty for none.")
    page = param.Integer(default=1, bounds=(1, None), doc="The current page; the first is 1.")
    pages = param.Integer(default=1, bounds=(0, None), doc="Number of pages; 0 if the table has no pager.")
    order = param.List(default=[], doc="Sort order: pairs of a column and whether it falls; the first leads.")
    filters = param.Dict(default={}, doc="Column → text of the filter in its head.")
    shape = param.Dict(default={}, doc="What changes with the columns: definitions, height, labels.")
    rows = param.String(default="", doc="JSON of the current page: cells by column, and keys.")

    _esm = read_assets("panels/ui/dom.js", "panels/tables/data_table.js")

    def __init__(
        self,
        columns: Sequence[DataColumn] = (),
        *,
        key: str = "uid",
        page_size: int = 0,
        by_room: bool = False,
        pick: Callable[[str, str], object] | None = None,
        cells: Callable[[pd.DataFrame, str], Sequence[str | None]] | None = None,
        row_height: int = ROW_HEIGHT,
        sortable: bool = True,
        empty: str = "",
        **params: Any,
    ) -> None:
        sheets = [read_assets("panels/tables/data_table.css"), *params.pop("stylesheets", ())]
        super().__init__(stylesheets=sheets, pages=min(page_size, 1), **params)
        self._key, self._page_size, self._pick = key, page_size, pick
        self._least = page_size if by_room else 0
        self._cells = cells or cells_of
        self._options = {"sortable": sortable, "empty": empty, "rowHeight": row_height, "byRoom": by_room}
        self._columns: tuple[DataColumn, ...] = ()
        names = (key, *(column.name for column in columns))
        self._frame = self._current = pd.DataFrame({name: pd.Series(dtype=str) for name in names})
        self.define(columns)
        self.param.watch(self._arrange, ["order", "filters"])
        self.param.watch(self._send, "page")

    # -- content ---------------------------------------------------------------------------------

    @property
    def frame(self) -> pd.DataFrame:
        """All rows, in the order in which they were given."""
        return self._frame

    @property
    def current(self) -> pd.DataFrame:
        """The rows of all pages that pass the filters, in the table's order."""
        return self._current

    @property
    def page_size(self) -> int:
        """Rows of a page; 0 if there are no pages."""
        return self._page_size

    @property
    def on_page(self) -> pd.DataFrame:
        """The rows of the current page."""
        return self._current.iloc[self._page_rows.start : self._page_rows.stop]

    def define(self, columns: Sequence[DataColumn], row_height: int = 0) -> None:
        """Show other columns, or the same ones otherwise; filters and orders of columns that are gone end."""
        if row_height:
            self._options["rowHeight"] = row_height
        if tuple(columns) == self._columns and self.shape.get("rowHeight") == self._options["rowHeight"]:
            return
        names = {column.name for column in columns}
        with param.parameterized.batch_call_watchers(self):
            self.order = [(name, falls) for name, falls in self.order if name in names]
            self.filters = {name: text for name, text in self.filters.items() if name in names}
            shown = [asdict(each) | {"field": field_of(each.name)} for each in columns if not each.hidden]
            self.shape = {"columns": shown, **self._options}
            if names <= {*self._frame.columns}:
                self._columns = tuple(columns)
                self._arrange()
        self._columns = tuple(columns)  # the rows of new ones follow: a new order above arranges the old ones

    def hide(self, name: str, hidden: bool = True) -> None:
        """Hide a column, or show it again."""
        self.define([replace(each, hidden=hidden) if each.name == name else each for each in self._columns])

    def draw(
        self,
        frame: pd.DataFrame,
        order: Sequence[tuple[str, bool]] | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> None:
        """Show the rows of a frame.

        Parameters
        ----------
        frame : DataFrame
            With the table's columns and its key.
        order : sequence of (str, bool), optional
            Another sort order.
        filters : mapping, optional
            Other filters in the heads of columns.
        """
        self._frame = frame
        wanted = {"order": None if order is None else list(order), "filters": filters}
        changed = {
            name: value
            for name, value in wanted.items()
            if value is not None and value != getattr(self, name)
        }
        if changed:
            self.param.update(**changed)  # arranges the rows
        else:
            self._arrange()

    def open_row(self, position: int) -> None:
        """Open the page of the row at a position of `current`."""
        if self._page_size:
            self.page = position // self._page_size + 1

    # -- order and pages -------------------------------------------------------------------------

    @property
    def _page_rows(self) -> range:
        """The positions of the rows on the current page."""
        if not self._page_size:
            return range(len(self._current))
        return range((self.page - 1) * self._page_size, self.page * self._page_size)

    def _arrange(self, *_: Any) -> None:
        """Filter and sort the rows, and send the current page."""
        frame = self._frame
        for name, text in self.filters.items():
            if name in frame:
                frame = frame[_passes(frame[name], text)]
        order = [(name, falls) for name, falls in self.order if name in frame]
        if order:
            names, falling = zip(*order, strict=True)
            frame = frame.sort_values(
                list(names), ascending=[not each for each in falling], kind="stable", key=_sort_key
            )
        self._current = frame
        if self._page_size:
            pages = max(1, -(-len(frame) // self._page_size))
            self.param.update(pages=pages, page=min(self.page, pages))
        self._send()

    def _send(self, *_: Any) -> None:
        def make() -> str:
            page = self.on_page
            columns = [self._cells(page, each.name) for each in self._columns if not each.hidden]
            sent = {"cells": [*map(_packed, columns)], "keys": page[self._key].tolist()}
            return json.dumps(sent, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

        frame, rows = self._current, self._page_rows
        # All sessions that show the same rows share their text.
        shared = frame is self._frame and isinstance(frame.index, pd.RangeIndex)
        key = (rows, self._columns)
        self.rows = cached_on(frame, "page", key, make, most=4) if shared else make()

    # -- messages --------------------------------------------------------------------------------

    def receive(self, data: Any) -> None:
        """Apply what the viewer did: ``{"pick": [key, column]}``, ``page``, ``order`` or ``filters``.

        Anything else is ignored, such as a column that is gone since the browser sent it.
        """
        match data:
            case {"pick": [str(key), str(name)]} if self._pick is not None:
                self._pick(key, name)
            case {"fits": int(rows)} if self._least:
                self._fit(rows)
            case {"page": int(page)} if 1 <= page <= self.pages:
                self.page = page
            case {"order": [*pairs]}:
                self.order = [(pair[0], pair[1]) for pair in pairs if self._is_order(pair)]
            case {"filters": {**texts}}:
                self.filters = self._valid_filters(texts)

    def _fit(self, rows: int) -> None:
        """Let a page have as many rows as fit, and stay at the first row that is shown."""
        size = min(max(rows, self._least), MAX_ROWS)
        if size != self._page_size:
            first = self._page_rows.start
            self._page_size = size
            self.page = max(1, min(first // size + 1, -(-len(self._current) // size)))
            self._arrange()

    def _is_order(self, pair: Any) -> bool:
        return (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[1], bool)
            and any(pair[0] == column.name for column in self._columns)
        )

    def _valid_filters(self, texts: Mapping[Any, Any]) -> dict[str, str]:
        filtered = {column.name for column in self._columns if column.filter}
        return {
            name: text[:MAX_FILTER]
            for name, text in texts.items()
            if name in filtered and isinstance(text, str) and text.strip()
        }


def _packed(column: Sequence[str | None]) -> Sequence[Any]:
    """Return cells in the shortest form: one text, few texts with a digit per row, or all texts."""
    texts = [*dict.fromkeys(column)]
    if len(texts) == 1:
        return texts
    if len(texts) > MAX_PACKED or 2 * len(texts) > len(column):
        return column
    digit = {text: str(at) for at, text in enumerate(texts)}
    return [texts, "".join(digit[text] for text in column)]


def cells_of(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the texts of a column: numbers as heads of cards write them, None for a missing text."""
    values = page[name]
    if pd.api.types.is_numeric_dtype(values):
        return [number(value, whole=True) for value in values.tolist()]
    return [None if pd.isna(value) else str(value) for value in values.tolist()]


def _passes(values: pd.Series, text: str) -> pd.Series:
    """Return which values pass a head's filter: numbers from its number on, texts that contain it."""
    if not pd.api.types.is_numeric_dtype(values):
        return values.fillna("").str.contains(text, case=False, regex=False)
    try:
        return values >= float(text)
    except ValueError:
        return pd.Series(data=True, index=values.index)


def _sort_key(values: pd.Series) -> pd.Series:
    """Return texts in lower case, so that sorting ignores case; numbers stay as they are."""
    return values if pd.api.types.is_numeric_dtype(values) else values.fillna("").str.lower()
