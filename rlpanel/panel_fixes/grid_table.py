"""A table that sends its rows by itself: one page, in a stable order, with encoded column names.

Upstream: docs/upstream/panel-tabulator-pages.md
Needed by: Panel 1.9 to 1.10
Delete when: the grid is a component of its own around Tabulator, or Panel sorts stably and sends only rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pandas as pd
import panel as pn
from bokeh.models.widgets.tables import CellEditor, CellFormatter, StringFormatter, TableColumn
from panel.util import clone_model

from rlpanel.panel_fixes.click_table import ClickTable

#: Properties, synchronised in both directions, that are lists of dicts with a column's ``field``.
_COLUMN_PROPERTIES = frozenset({"sorters", "filters"})


class GridTable(ClickTable):
    """A read-only table with stable sorting, whose columns have other names in the browser.

    Panel mistakes some of its own updates for edits in the browser, and would overwrite the current rows with
    a page of rows that may be outdated. It also sorts equal rows by the text of their row numbers.

    New rows with the same columns, in their own order, are sent straight to the browser. Panel would
    recompute the columns' configuration and the selection, which takes longer than everything else, and many
    sessions show the same rows.
    """

    def cells(self, frame: pd.DataFrame, rows: range) -> dict[str, Any]:
        """Return the values of some rows, by position, for each column, as the browser shows them."""
        raise NotImplementedError

    def encode(self, name: str) -> str:
        """Return the name of a column in the browser."""
        return name

    def decode(self, field: str) -> str:
        """Return the name of a column in Python."""
        return field

    @property
    def _in_order(self) -> bool:
        """True if the browser neither sorts nor filters the rows."""
        return not (self.sorters or self.filters or self._filters) and self.pagination == "remote"

    @property
    def _page_rows(self) -> range:
        """The positions of the rows on the current page."""
        size = self.page_size or self.initial_page_size
        return range((self.page - 1) * size, self.page * size)

    def _sort_df(self, df: pd.DataFrame) -> pd.DataFrame:
        if not self.sorters:
            return df
        rising = [sorter["dir"] == "asc" for sorter in self.sorters]
        return df.sort_values(
            [s["field"] for s in self.sorters], ascending=rising, kind="stable", key=_sort_key
        )

    def _get_data(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        frame, rows = self.value, self._page_rows
        if self._in_order:
            return frame, self.cells(frame, rows)
        paged = self.pagination == "remote"
        visible = self._filter_dataframe(frame, header_filters=paged)
        visible = self._sort_df(visible) if paged else visible
        return visible, self.cells(visible, rows if paged else range(len(visible)))

    def _update_selected(self, *events: Any, indices: Any = None) -> None:
        if not self._in_order:
            super()._update_selected(*events, indices=indices)
            return
        rows = self._page_rows
        on_page = [row - rows.start for row in self.selection if row in rows]
        super(pn.widgets.Tabulator, self)._update_selected(*events, indices=on_page)

    def _update_columns(self, event: Any, model: Any) -> None:
        if (
            event.name != "value"
            or [self.decode(column.field) for column in model.columns] != self._get_fields()
        ):
            super()._update_columns(event, model)

    def _get_column_definitions(self, col_names: list[str], df: pd.DataFrame) -> list[TableColumn]:
        # Panel would create an editor and a formatter for each column, sixty models in each page that opens.
        # The formatters are cloned, because a model belongs to one page.
        editor, plain = CellEditor(), StringFormatter()
        given: dict[str, Any] = {name: self.formatters.get(name) for name in col_names}
        models = {id(each): each for each in given.values() if isinstance(each, CellFormatter)}
        clones = {key: clone_model(model) for key, model in models.items()}
        return [
            TableColumn(
                field=name,
                title=self.titles.get(name, name),
                width=self.widths.get(name, 0),
                editor=editor,
                formatter=clones.get(id(given[name]), plain),
            )
            for name in col_names
        ]

    # -- encoded names in the browser; Panel 1.10 has a class of its own for columns -----------------

    def _get_columns(self) -> list[Any]:
        columns: list[Any] = super()._get_columns()
        for column in columns:
            column.field = self.encode(column.field)
        return columns

    def _get_configuration(self, columns: list[Any]) -> dict[str, Any]:
        # Panel looks up a column's settings by its field, so it needs the log's names here.
        named: list[Any] = [
            SimpleNamespace(field=self.decode(column.field), editor=column.editor) for column in columns
        ]
        configuration = super()._get_configuration(named)
        for column in configuration["columns"]:
            column["field"] = self.encode(column["field"])
        return configuration

    def _process_param_change(self, params: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(params)
        for name in _COLUMN_PROPERTIES & set(params):
            encoded[name] = [{**item, "field": self.encode(item["field"])} for item in params[name]]
        if "hidden_columns" in params:
            encoded["hidden_columns"] = [self.encode(name) for name in params["hidden_columns"]]
        return super()._process_param_change(encoded)

    def _process_property_change(self, props: dict[str, Any]) -> dict[str, Any]:
        decoded = dict(props)
        for name in _COLUMN_PROPERTIES & set(props):
            decoded[name] = [{**item, "field": self.decode(item["field"])} for item in props[name]]
        return super()._process_property_change(decoded)

    def _process_data(self, data: Mapping[str, Any]) -> None:
        pass


def _sort_key(values: pd.Series) -> pd.Series:
    """Return texts in lower case, so that sorting ignores case; numbers stay as they are."""
    return values if pd.api.types.is_numeric_dtype(values) else values.fillna("").str.lower()
