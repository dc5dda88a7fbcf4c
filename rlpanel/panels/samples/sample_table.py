"""The grid's table: a read-only Tabulator, its columns, and their formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

# Panel imports it with the first table, while the server answers.
import pandas.io.formats.style

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.panel_fixes.grid_table import GridTable
from rlpanel.panels.language.labels import tr
from rlpanel.panels.language.table_labels import pager_labels
from rlpanel.panels.samples.cell_texts import page_cells
from rlpanel.panels.samples.thumbnails import COLUMN
from rlpanel.panels.samples.visible_rows import PAGE
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.field_names import field_of, name_of
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on

_HIDDEN = frozenset({"prompt_chars", "response_chars", "time", "response_length", "logged_uid"})


def grid_columns(snapshot: Snapshot, kl: str) -> list[str]:
    """Return the grid's number and label columns that the run has, in reading order.

    Runs with agents show turns and tool calls first.
    """
    usual = [
        "reward",
        *(_TURNS if _has_agents(snapshot) else ()),
        f"{kl}_mean",
        f"{kl}_sum",
        "log_ratio_mean",
        "log_ratio_sum",
        "response_tokens",
        "trajectory_tokens",
        "lag",
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
        *_TURNS,
    ]
    derived = {f"{m.name}_{r}" for m in column_info.of_level("token") for r in m.reductions}
    custom = [
        n for n in (*snapshot.labels, *snapshot.numbers) if n not in usual and n not in derived | _HIDDEN
    ]
    available = {*snapshot.labels, *(name for name in snapshot.numbers if snapshot.has_number(name))}
    return [name for name in dict.fromkeys([*usual, *custom]) if name in available]


_TURNS = ("turns", "tool_calls", "tool_errors")


def _has_agents(snapshot: Snapshot) -> bool:
    """Return whether samples have several turns or call tools."""
    means = {name: snapshot.steps.statistic(name, "mean") for name in _TURNS[:2] if snapshot.has_number(name)}
    return any(bool((values > (name == "turns")).any()) for name, values in means.items())


class SampleTable(GridTable):
    """The grid's table: its cells are made of one page of rows, once for all sessions that show them.

    In Python the columns have the log's names. The browser gets and sends the encoded names of
    `rlpanel.panels.ui.field_names`.
    """

    def cells(self, frame: pd.DataFrame, rows: range) -> dict[str, Any]:
        """Return the texts of some rows, by position, for each column."""
        if frame is self.value and isinstance(frame.index, pd.RangeIndex):
            return dict(cached_on(frame, "page", rows, lambda: page_cells(frame, rows), most=4))
        return page_cells(frame, rows)

    def encode(self, name: str) -> str:
        """Return the name of a column in the browser."""
        return field_of(name)

    def decode(self, field: str) -> str:
        """Return the log's name of a column."""
        return name_of(field)


#: Rows with thumbnails.
_TALL_ROWS = """
.pnx-tabulator.tabulator .tabulator-row .tabulator-cell,
.pnx-tabulator.tabulator .tabulator-row .tabulator-col-resize-handle {
  height: 44px !important; line-height: 36px !important; }
.tabulator-cell img { display: block; max-width: 58px; height: 36px; object-fit: contain; }
"""


def table_of(frame: pd.DataFrame) -> SampleTable:
    """Return a table for these rows, and for later rows with the same columns."""
    columns = list(frame.columns)
    right = {name: "right" for name in columns if _is_number(frame[name])}
    return SampleTable(
        frame,
        titles={name: title_html(name) for name in columns},
        header_tooltips=header_tips(columns),
        formatters=_formats(frame),
        text_align=right,
        header_align=right,
        header_filters={name: _filter(name, frame[name]) for name in columns if name not in ("uid", COLUMN)},
        widths={name: column_width(name, frame[name]) for name in columns},
        hidden_columns=["uid"],
        pagination="remote",
        page_size=PAGE,
        show_index=False,
        selectable=1,
        disabled=True,
        sizing_mode="stretch_both",
        margin=0,
        layout="fit_data",
        stylesheets=[
            read_assets("panels/ui/table.css", "panels/samples/sample_table.css"),
            *([_TALL_ROWS] if COLUMN in columns else []),
        ],
        css_classes=["rl-grid"],
        row_height=44 if COLUMN in columns else 27,
        # A page is short, so all its rows are rendered, whatever the grid's height.
        configuration={
            "columnDefaults": {"headerSortTristate": True},
            "placeholder": tr("No samples match"),
            **pager_labels(),
            "renderVertical": "basic",
        },
    )


def header_tips(columns: Iterable[str]) -> dict[str, str]:
    """Return each column's header tooltip. Tabulator reads them as HTML, so names from a log are escaped."""
    return {name: safe_text(column_info.describe(name).tip) for name in columns if name != "uid"}


#: Script that sends the uid of the clicked row, as the browser shows it. The time makes every click a change.
PICK = f"""
const uids = cb_obj.origin.source.data.{field_of("uid")}
if (uids && cb_obj.row < uids.length) {{ picked.value = uids[cb_obj.row] + "\\n" + Date.now() }}
"""


def _formats(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the formats: all cells are plain text, also numbers, but images."""
    formats: dict[str, Any] = dict.fromkeys(frame.columns, "plaintext")
    # Tabulator makes an image of the cell's data URL, which this process has encoded itself.
    return formats | ({COLUMN: {"type": "image", "height": "38px"}} if COLUMN in frame else {})


def title_html(name: str) -> str:
    """Return a column's title. Tabulator reads titles as HTML, so names from a log are escaped."""
    if name == COLUMN:
        return "media"
    return safe_text(f"{column_info.describe(name).label}{_reduction(name)}")


def _reduction(name: str) -> str:
    """Return the suffix for the title of a token metric's mean or sum; empty for other columns."""
    suffix = {"mean": " mean", "sum": " sum"}.get(name.rpartition("_")[2], "")
    return suffix if column_info.describe(name).detail else ""


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values)


def _filter(name: str, values: pd.Series) -> dict[str, Any]:
    """Return a column's filter. Tab skips it: thirty of them would stand before the rows."""
    label = f"{column_info.describe(name).label}{_reduction(name)}"
    attributes = {
        "tabindex": "-1",
        "aria-label": (tr("{column} at least") if _is_number(values) else tr("{column} contains")).format(
            column=label
        ),
    }
    kind = {"type": "input", "func": "like", "placeholder": tr("contains")}
    if _is_number(values):
        kind = {"type": "number", "func": ">=", "placeholder": "≥"}
    return {**kind, "elementAttributes": attributes}


#: Maximum width of a number column, in pixels; a name of the log may have any length.
_WIDEST = 146


def column_width(name: str, values: pd.Series) -> int:
    """Return the width of a column in pixels, from its title and its values."""
    if name in ("prompt", "response"):
        return 128
    if name == COLUMN:
        return 72
    if name == "step":
        return 64
    if _is_number(values):
        # 6 pixels per character of the title, 38 for padding and sort arrow.
        title = column_info.describe(name).label + _reduction(name)
        return min(max(84, 38 + 6 * len(title)), _WIDEST)
    return 150 if name in schema.TEXTS else 90
