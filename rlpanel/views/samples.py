"""Which sample? The step's samples in a grid: sorted, filtered and paged on the server.

A click is resolved by the uid that stood in the clicked row in the browser, not by the row's number:
while a sort is on its way the two differ.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel import schema
from rlpanel.store.index import RunIndex
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context, Found
from rlpanel.views.samples_table import PICK, Table, grid_columns, table_of
from rlpanel.views.samples_texts import READ_NOW, read_texts
from rlpanel.views.text import clean
from rlpanel.views.theme import safe_text

#: Characters of a text that a row carries; the search looks at all of it.
TEXT_CHARS = 2000
_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-texts")


class Samples(Viewer):
    """The grid with its head: count, search, and what came since."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._rows = np.empty(0, int)
        self._texts: list[dict[str, str]] = []
        self._shown: tuple[str, int | None] = ("", None)
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
        self._table = Table(pd.DataFrame({"uid": pd.Series(dtype=str)}))
        self._place = pn.Column(sizing_mode="stretch_both", margin=0)
        self._card = pn.Column(
            pn.Row(
                self._head,
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
        selection.param.watch(self._on_step, "step")
        selection.param.watch(self._highlight, "uid")
        context.param.watch(self._highlight, "first")
        display.param.watch(lambda _: self.load(), ["kl_estimator", "max_samples", "pad_token", "system_end"])
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
        self._shown = (snapshot.name, step)
        self._pill.visible = False
        self._rows = (
            snapshot.sampled_rows(step, context.display.max_samples) if step is not None else np.empty(0, int)
        )
        self._texts = [{} for _ in self._rows]
        if context.index is None or not len(self._rows):
            self._show()
        elif snapshot.place("length")[self._rows].sum() <= READ_NOW:
            self._texts = read_texts(context.index, snapshot, self._rows)
            self._show()
        else:
            self._show()
            self._read_later(context.index, snapshot)
        context.first = str(self._table.value["uid"].iloc[0]) if len(self._table.value) else ""
        self._highlight()

    # -- reacting --------------------------------------------------------------------------------

    def _on_snapshot(self, event: Any) -> None:
        step = self.context.selection.step
        if self._shown != (event.new.name, step):
            self.load()
            return
        if step is None or event.new.steps.position(step) not in event.new.steps.changed_since(
            event.old.version
        ):
            return
        count = len(event.new.sampled_rows(step, self.context.display.max_samples))
        if self.context.selection.follow or not len(self._rows) or count < len(self._rows):
            self.load()
        elif count > len(self._rows):
            self._pill.param.update(label=f"↻ {count - len(self._rows):,} new", visible=True)

    def _on_step(self, _: Any) -> None:
        if self._shown != (self.context.snapshot.name, self.context.selection.step):
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
            self.context.found = Found(self.context.snapshot, self._rows[np.array(hits, bool)])
        else:
            self.context.found = Found(self.context.snapshot, self._rows)
        self._fill(frame)
        self._write_head(len(frame), total, bool(sought))

    def _fill(self, frame: pd.DataFrame) -> None:
        """Give the table these rows; other columns are another table.

        A table that gets new columns while the browser is still building it throws there.
        """
        if list(frame.columns) == list(self._table.value.columns):
            self._table.value = frame
        elif len(frame):
            self._table = table_of(frame)
            self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": PICK})
            self._place[:] = [self._table]
        else:
            self._table.value = self._table.value.iloc[:0]

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
        data = {"uid": frame["uid"]}
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
        all_of = int(self.context.snapshot.steps.samples[at]) if at >= 0 else 0
        count = (
            f"{shown:,} of {total:,} hit" if searched else f"{shown:,} of step {step}" if at >= 0 else "none"
        )
        drawn = f" · drawn from {all_of:,}" if all_of > total else ""
        tip = "A reproducible draw by uid; statistics use all samples." if drawn else ""
        self._head.object = (
            f'<div class="head" title="{tip}"><b>Samples</b>'
            f'<span class="unit">{safe_text(count)}{drawn}</span></div>'
        )

    def _read_later(self, index: RunIndex, snapshot: Snapshot) -> None:
        """Read a big step's texts on a thread; show them if the step is still the one shown."""
        document, rows = pn.state.curdoc, self._rows
        reading = _pool.submit(read_texts, index, snapshot, rows)

        def arrived() -> None:
            if self._rows is rows:
                self._texts = reading.result()
                self._show()
                self._highlight()

        if document is None:
            arrived()
        else:
            reading.add_done_callback(lambda _: document.add_next_tick_callback(arrived))
