"""Which sample? The step's samples in a grid: sorted, filtered and paged on the server.

A click is resolved by the uid that stood in the clicked row in the browser, not by the row's number:
while a sort is on its way the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
from bokeh.models.widgets.tables import NumberFormatter
from panel.viewable import Viewer

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics import registry
from rlpanel.store.index import RunIndex
from rlpanel.store.run import fetch_record
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.range_chip import RangeChip
from rlpanel.views.shown import attempt_column, drawn_html, shown_rows
from rlpanel.views.text import clean
from rlpanel.views.theme import safe_text

#: Characters of a text that a row carries; the search looks at all of it.
TEXT_CHARS = 2000
#: Bytes of log that are read on the event loop; more is read on a thread while the numbers stand.
READ_NOW = 8 << 20
#: Rows a page. A size taken from the height on screen comes out as none while the page is being laid out.
PAGE = 20

_HIDDEN = frozenset({"prompt_chars", "response_chars", "time", "response_length", "logged_uid"})
_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-texts")


class Samples(Viewer):
    """The grid with its head: count, search, and what came since."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._rows = np.empty(0, int)
        self._texts: list[dict[str, str]] = []
        self._shown: tuple[str, int | None, str] = ("", None, "")
        self._head = pn.pane.HTML("", stylesheets=[theme.CSS], margin=(9, 8, 0, 12), width=210, height=24)
        self._search = pmui.TextInput(
            placeholder="search prompts and responses  /",
            size="small",
            sizing_mode="stretch_width",
            margin=(6, 8),
            css_classes=["rl-search"],
            sx=theme.FIELD_SX,
        )
        self._pill = pmui.Button(
            label="",
            visible=False,
            size="small",
            variant="outlined",
            margin=(5, 8),
            css_classes=["rl-new"],
            on_click=lambda _: self.load(),
        )
        self._picked = pn.widgets.TextInput(visible=False)
        self._table = _Table(pd.DataFrame({"uid": pd.Series(dtype=str)}))
        self._place = pn.Column(sizing_mode="stretch_both", margin=0)
        self._card = pn.Column(
            pn.Row(
                self._head,
                RangeChip(context),
                self._search,
                self._pill,
                self._picked,
                sizing_mode="stretch_width",
                height=42,
                margin=0,
            ),
            self._place,
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=240,
            css_classes=["rl-card", "rl-samples"],
        )
        self._picked.param.watch(self._pick, "value")
        self._search.param.watch(self._searched, "value")
        selection, display = context.selection, context.display
        context.param.watch(self._on_snapshot, "snapshot")
        selection.param.watch(self._on_step, ["step", "within"])
        selection.param.watch(self._highlight, "uid")
        context.param.watch(self._highlight, "first")
        settings = ["kl_estimator", "max_samples", "older_attempts", "pad_token", "system_end"]
        display.param.watch(lambda _: self.load(), settings)
        self.load()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    # -- for the board ---------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """To the sample ``by`` rows further down, as the grid is sorted and filtered now."""
        order = list(self._table.current_view["uid"]) if len(self._table.value) else []
        if order:
            uid = self.context.selection.uid or self.context.first
            at = order.index(uid) + by if uid in order else 0
            at = min(max(at, 0), len(order) - 1)
            size = self._table.page_size or self._table.initial_page_size
            self._table.page = at // size + 1
            self.context.choose_sample(order[at])

    def load(self, *_: Any) -> None:
        """Read the step's rows and texts anew."""
        context = self.context
        snapshot, step = context.snapshot, context.selection.step
        self._shown = (snapshot.name, step, context.selection.within)
        self._pill.visible = False
        self._rows = self._rows_of(snapshot)
        self._texts = [{} for _ in self._rows]
        if context.index is None or not len(self._rows):
            self._show()
        elif snapshot.place("length")[self._rows].sum() <= READ_NOW:
            self._texts = _read_texts(context.index, snapshot, self._rows)
            self._show()
        else:
            self._show()
            self._read_later(context.index, snapshot)
        context.first = str(self._table.value["uid"].iloc[0]) if len(self._table.value) else ""
        self._highlight()

    # -- reacting --------------------------------------------------------------------------------

    def _on_snapshot(self, event: Any) -> None:
        step = self.context.selection.step
        if self._shown[:2] != (event.new.name, step):
            self.load()
            return
        if step is None or event.new.steps.position(step) not in event.new.steps.changed_since(
            event.old.version
        ):
            return
        count = len(self._rows_of(event.new))
        if self.context.selection.follow or not len(self._rows) or count < len(self._rows):
            self.load()
        elif count > len(self._rows):
            self._pill.param.update(label=f"↻ {count - len(self._rows):,} new", visible=True)

    def _rows_of(self, snapshot: Snapshot) -> np.ndarray:
        """What the grid shows: the step's rows in the chosen range, or a draw of them."""
        selection = self.context.selection
        if selection.step is None:
            return np.empty(0, int)
        return shown_rows(snapshot, selection.step, self.context.display, selection.within)

    def _on_step(self, *_: Any) -> None:
        selection = self.context.selection
        if self._shown != (self.context.snapshot.name, selection.step, selection.within):
            self.load()

    def _pick(self, event: Any) -> None:
        if event.new:
            self.context.choose_sample(event.new.partition("\n")[0])

    def _searched(self, event: Any) -> None:
        self.context.selection.search = event.new
        self._show()

    def _highlight(self, *_: Any) -> None:
        uid = self.context.selection.uid or self.context.first
        uids = self._table.value["uid"] if len(self._table.value) else pd.Series(dtype=str)
        found = np.flatnonzero(uids == uid)
        selection = [int(found[0])] if len(found) else []
        if selection == self._table.selection and selection:
            self._table.param.trigger("selection")  # new rows were sent since; the browser has lost it
        self._table.selection = selection

    # -- showing ---------------------------------------------------------------------------------

    def _show(self) -> None:
        frame = self._frame()
        sought = self.context.selection.search.strip().lower()
        total = len(frame)
        if sought:
            hits = [any(sought in text.lower() for text in texts.values()) for texts in self._texts]
            frame = frame[np.array(hits, bool)].reset_index(drop=True)
        self._fill(frame)
        self._tell_passing()
        self._write_head(len(frame), total, bool(sought))

    def _fill(self, frame: pd.DataFrame) -> None:
        """Give the table these rows; other columns are another table.

        A table that gets new columns while the browser is still building it throws there.
        """
        if list(frame.columns) == list(self._table.value.columns):
            self._table.value = frame
        elif len(frame):
            self._table = _table(frame)
            self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": _PICK})
            self._table.param.watch(self._tell_passing, "filters")
            self._place[:] = [self._table]
        else:
            self._table.value = self._table.value.iloc[:0]

    def _tell_passing(self, *_: Any) -> None:
        """Which samples pass, for views of the same samples."""
        asked = bool(self.context.selection.search.strip() or self._table.filters)
        self.context.passing = frozenset(self._table.current_view["uid"]) if asked else None

    def _frame(self) -> pd.DataFrame:
        """The rows with the columns that the run has, in reading order."""
        snapshot, display = self.context.snapshot, self.context.display
        columns = grid_columns(snapshot, display.kl_estimator)
        frame = snapshot.frame(self._rows, columns)
        texts = {
            name: [self._shorten(name, found.get(name, "")) for found in self._texts]
            for name in schema.TEXTS
            if any(name in found for found in self._texts) or name in ("prompt", "response")
        }
        data: dict[str, Any] = {"uid": frame["uid"], **attempt_column(snapshot, self._rows)}
        for name in ["prompt", "response", *columns, "ground_truth", "ref_response", "rank", "line"]:
            if name in texts:
                data[name] = texts[name]
            elif name in frame:
                data[name] = frame[name]
        return pd.DataFrame(data)

    def _shorten(self, name: str, text: str) -> str:
        display = self.context.display
        text = clean(text, display.pad_token, display.system_end if name == "prompt" else "")
        return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"

    def _write_head(self, shown: int, total: int, searched: bool) -> None:
        step = self.context.selection.step
        at = self.context.snapshot.steps.position(step) if step is not None else -1
        count = (
            f"{shown:,} of {total:,} hit" if searched else f"{shown:,} of step {step}" if at >= 0 else "none"
        )
        within = self.context.selection.within
        drawn = "" if step is None else drawn_html(self.context.snapshot, step, self.context.display, within)
        self._head.width = 300 if drawn else 210
        said = f"{safe_text(count)} · {drawn}" if drawn and searched else drawn or safe_text(count)
        self._head.object = f'<div class="head"><b>Samples</b><span class="unit">{said}</span></div>'

    def _read_later(self, index: RunIndex, snapshot: Snapshot) -> None:
        """Read a big step's texts on a thread; show them if the step is still the one shown."""
        document, rows = pn.state.curdoc, self._rows
        reading = _pool.submit(_read_texts, index, snapshot, rows)

        def arrived() -> None:
            if self._rows is rows:
                self._texts = reading.result()
                self._show()
                self._highlight()

        if document is None:
            arrived()
        else:
            reading.add_done_callback(lambda _: document.add_next_tick_callback(arrived))


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
    derived = {f"{m.name}_{r}" for m in registry.of_level("token") for r in m.reductions}
    custom = [
        n for n in (*snapshot.labels, *snapshot.numbers) if n not in usual and n not in derived | _HIDDEN
    ]
    found = {*snapshot.labels, *(name for name in snapshot.numbers if snapshot.has(name))}
    return [name for name in dict.fromkeys([*usual, *custom]) if name in found]


def _read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[dict[str, str]]:
    return [_texts_of(index, snapshot, row) for row in rows.tolist()]


def _texts_of(index: RunIndex, snapshot: Snapshot, row: int) -> dict[str, str]:
    try:
        return fetch_record(index, snapshot, row).texts
    except RLPanelError as error:  # the file changed under us; its rows are replaced in a moment
        return {"prompt": f"({error})"}


class _Table(pn.widgets.Tabulator):
    """A table that nobody edits.

    Panel takes some of its own updates for edits made in the browser, and would write a page of rows that
    may be old by then over those it has now.
    """

    def _process_data(self, data: Mapping[str, Any]) -> None:
        pass


def _table(frame: pd.DataFrame) -> _Table:
    """A table for these rows and for others with the same columns."""
    columns = list(frame.columns)
    return _Table(
        frame,
        titles={name: _title(name) for name in columns},
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
        stylesheets=[theme.style("table")],
        css_classes=["rl-grid"],
        row_height=27,
        configuration={"columnDefaults": {"headerSortTristate": True}, "placeholder": "no samples match"},
    )


#: The uid of the clicked row as the browser shows it; the tail makes a second click on it news.
_PICK = """
const uids = cb_obj.origin.source.data.uid
if (uids && cb_obj.row < uids.length) { picked.value = uids[cb_obj.row] + "\\n" + Date.now() }
"""


def _format(values: pd.Series) -> Any:
    """Plain text for text, whole numbers whole, other numbers to three places, NaN as a dash."""
    if not _is_number(values):
        return {"type": "plaintext"}
    finite = values[np.isfinite(values)]
    whole = len(finite) > 0 and bool((finite == np.round(finite)).all()) and finite.name in _WHOLE
    return NumberFormatter(format="0,0" if whole else "0.000", nan_format="–")


#: Counts and places; a reward that happens to be whole in one step still shows its decimals.
_WHOLE = frozenset({"rank", "line", "response_tokens", "truncated", "episode", "generation"})


def _title(name: str) -> str:
    """A column's title; Tabulator reads titles as HTML, so names from a log are escaped."""
    column = registry.describe(name)
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
    return 150 if name in schema.TEXTS else 84 if _is_number(values) else 90
