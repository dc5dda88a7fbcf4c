"""The grid's table: which columns it has, how each is written, and a Tabulator that nobody edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
from bokeh.models.widgets.tables import NumberFormatter, TableColumn

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.field_names import field_of, name_of
from rlpanel.panels.ui.table_click import ClickTable
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.snapshot import Snapshot

#: Rows a page. A size taken from the height on screen comes out as none while the page is being laid out.
PAGE = 20

_HIDDEN = frozenset({"prompt_chars", "response_chars", "time", "response_length", "logged_uid"})


def grid_columns(snapshot: Snapshot, kl: str) -> list[str]:
    """The number and label columns of the grid, in reading order; only those the run has."""
    usual = [
        "reward",
        f"{kl}_mean",
        f"{kl}_sum",
        "log_ratio_mean",
        "log_ratio_sum",
        "response_tokens",
        "advantage",
        "ref_reward",
        "reward_gap",
        "valid_reward",
        "ref_valid_reward",
        "valid_reward_gap",
        "group",
        "truncated",
        "surprisal_mean",
        "token_entropy_mean",
        "value_mean",
        "token_reward_sum",
    ]
    derived = {f"{m.name}_{r}" for m in column_info.of_level("token") for r in m.reductions}
    custom = [
        n for n in (*snapshot.labels, *snapshot.numbers) if n not in usual and n not in derived | _HIDDEN
    ]
    found = {*snapshot.labels, *(name for name in snapshot.numbers if snapshot.has_number(name))}
    return [name for name in dict.fromkeys([*usual, *custom]) if name in found]


#: What the table tells of columns, in both directions: a list of dicts with a ``field``.
_OF_COLUMNS = frozenset({"sorters", "filters"})


class SampleTable(ClickTable):
    """A table that nobody edits, and whose equal rows keep their order when it is sorted.

    Panel takes some of its own updates for edits made in the browser, and would write a page of rows that
    may be old by then over those it has now. And it sorts equal rows by the letters of their numbers.

    New rows of the same columns, in their own order, go straight to the browser: what Panel works out anew on
    the way (the columns' configuration, a selection by the rows' index) takes longer than all the rest, and
    many sessions show the same rows.

    Columns have the log's names here; the browser gets and sends those of `rlpanel.panels.ui.field_names`.
    """

    @property
    def _in_order(self) -> bool:
        """Whether the browser's pages are the rows' own."""
        return not (self.sorters or self.filters or self._filters) and self.pagination == "remote"

    @property
    def _page_rows(self) -> range:
        """The rows of the page that is shown."""
        size = self.page_size or self.initial_page_size
        return range((self.page - 1) * size, self.page * size)

    def _sort_df(self, df: pd.DataFrame) -> pd.DataFrame:
        if not self.sorters:
            return df
        rising = [sorter["dir"] == "asc" for sorter in self.sorters]
        return df.sort_values(
            [s["field"] for s in self.sorters], ascending=rising, kind="stable", key=_folded
        )

    def _get_data(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        frame, at = self.value, self._page_rows
        if self._in_order and isinstance(frame.index, pd.RangeIndex):
            return frame, dict(cached_on(frame, "page", at, lambda: _page(frame, at), most=4))
        paged = self.pagination == "remote"
        found = self._filter_dataframe(frame, header_filters=paged)
        found = self._sort_df(found) if paged else found
        return found, _page(found, at if paged else range(len(found)))

    def _update_selected(self, *events: Any, indices: Any = None) -> None:
        if not self._in_order:
            super()._update_selected(*events, indices=indices)
            return
        at = self._page_rows
        shown = [row - at.start for row in self.selection if row in at]
        super(pn.widgets.Tabulator, self)._update_selected(*events, indices=shown)

    def _update_columns(self, event: Any, model: Any) -> None:
        if event.name != "value" or [name_of(column.field) for column in model.columns] != self._get_fields():
            super()._update_columns(event, model)

    # -- the browser's names -----------------------------------------------------------------------

    def _get_columns(self) -> list[TableColumn]:
        columns = super()._get_columns()
        for column in columns:
            column.field = field_of(column.field)
        return columns

    def _get_configuration(self, columns: list[TableColumn]) -> dict[str, Any]:
        # Panel looks up what it knows of a column under the column's field.
        named = [TableColumn(field=name_of(column.field), editor=column.editor) for column in columns]
        configuration = super()._get_configuration(named)
        for column in configuration["columns"]:
            column["field"] = field_of(column["field"])
        return configuration

    def _process_param_change(self, params: dict[str, Any]) -> dict[str, Any]:
        encoded = dict(params)
        for name in _OF_COLUMNS & set(params):
            encoded[name] = [{**of, "field": field_of(of["field"])} for of in params[name]]
        if "hidden_columns" in params:
            encoded["hidden_columns"] = [field_of(name) for name in params["hidden_columns"]]
        return super()._process_param_change(encoded)

    def _process_property_change(self, props: dict[str, Any]) -> dict[str, Any]:
        decoded = dict(props)
        for name in _OF_COLUMNS & set(props):
            decoded[name] = [{**of, "field": name_of(of["field"])} for of in props[name]]
        return super()._process_property_change(decoded)

    def _process_data(self, data: Mapping[str, Any]) -> None:
        pass


def _page(frame: pd.DataFrame, at: range) -> dict[str, list[Any]]:
    """The columns of some rows, as the browser takes them."""
    rows = frame.iloc[at.start : at.stop]
    return {"index": rows.index.tolist()} | {field_of(name): rows[name].tolist() for name in rows.columns}


def table_of(frame: pd.DataFrame) -> SampleTable:
    """A table for these rows and for others with the same columns."""
    columns = list(frame.columns)
    return SampleTable(
        frame,
        titles={name: title_html(name) for name in columns},
        header_tooltips=header_tips(columns),
        formatters={name: _format(frame[name]) for name in columns},
        text_align={name: "right" for name in columns if _is_number(frame[name])},
        header_filters={name: _filter(frame[name]) for name in columns if name != "uid"},
        widths={name: _width(name, frame[name]) for name in columns},
        hidden_columns=["uid"],
        pagination="remote",
        page_size=PAGE,
        show_index=False,
        selectable=1,
        disabled=True,
        sizing_mode="stretch_both",
        margin=0,
        layout="fit_data",
        stylesheets=[read_assets("panels/ui/table.css")],
        css_classes=["rl-grid"],
        row_height=27,
        # A page is short: all of it is drawn, so that what is there does not hang on the grid's height.
        configuration={
            "columnDefaults": {"headerSortTristate": True},
            "placeholder": "no samples match",
            "renderVertical": "basic",
        },
    )


def header_tips(columns: Iterable[str]) -> dict[str, str]:
    """What each column is, for its header; Tabulator reads tips as HTML, so names from a log are escaped."""
    return {name: safe_text(column_info.describe(name).tip) for name in columns if name != "uid"}


def _folded(values: pd.Series) -> pd.Series:
    """Texts without regard to case."""
    return values if _is_number(values) else values.fillna("").str.lower()


#: The uid of the clicked row as the browser shows it; the tail makes a second click on it news.
PICK = f"""
const uids = cb_obj.origin.source.data.{field_of("uid")}
if (uids && cb_obj.row < uids.length) {{ picked.value = uids[cb_obj.row] + "\\n" + Date.now() }}
"""


def _format(values: pd.Series) -> Any:
    """Plain text for text, whole numbers whole, other numbers to three places, NaN as a dash."""
    if not _is_number(values):
        return {"type": "plaintext"}
    return NumberFormatter(format="0,0" if is_whole(values) else "0.000", nan_format="–")


def is_whole(values: pd.Series) -> bool:
    """Whether a number column is shown without decimals."""
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and bool((finite == np.round(finite)).all()) and finite.name in _WHOLE


#: Counts and places; a reward that happens to be whole in one step still shows its decimals.
_WHOLE = frozenset(
    {"step", "copies", "rank", "line", "response_tokens", "truncated", "episode", "generation"}
)


def title_html(name: str) -> str:
    """A column's title; Tabulator reads titles as HTML, so names from a log are escaped."""
    column = column_info.describe(name)
    mark = {"mean": " ø", "sum": " Σ"}.get(name.rpartition("_")[2], "") if column.detail else ""
    return safe_text(f"{column.label}{mark}")


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values)


def _filter(values: pd.Series) -> dict[str, str]:
    if _is_number(values):
        return {"type": "number", "func": ">=", "placeholder": "≥"}
    return {"type": "input", "func": "like", "placeholder": "contains"}


def _width(name: str, values: pd.Series) -> int:
    if name in ("prompt", "response"):
        return 140
    if name == "step":
        return 64
    return 150 if name in schema.TEXTS else 84 if _is_number(values) else 90
