"""Which sample? What the query finds in a grid: sorted, filtered and paged on the server.

A click is resolved by the uid that stood in the clicked row in the browser, not by the row's number:
while a sort is on its way the two differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel import schema
from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.samples.query_runner import BoardExport, QueryRunner
from rlpanel.panels.samples.sample_table import PICK, SampleTable, table_of
from rlpanel.panels.samples.text_loader import RowTexts, table_frame, texts_of
from rlpanel.panels.samples.visible_rows import drawn_html, shown_rows
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.event_loop import drawing_loop
from rlpanel.panels.session.redraw_queue import draw_in_turn
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.table_click import click_field
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes import NOTED
from rlpanel.store.query.order import Order, parse_order
from rlpanel.store.query.query import QueryResult
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds that a step is shown before the texts of further pages are read, while the newest is followed:
#: of a run whose steps are shorter they would be read for nobody.
STANDS = 3.0


class SampleGrid(Viewer):
    """The grid with its head: count, search, query, and what came since.

    Parameters
    ----------
    context : Context
    board : callable, optional
        Exports the whole board, as an entry of the menu.
    """

    def __init__(self, context: Context, board: BoardExport | None = None) -> None:
        super().__init__()
        self.context = context
        self._rows = np.empty(0, int)
        self._outcome = QueryResult(np.empty(0, int), 0)
        self._texts = RowTexts()
        self._view = context.view
        self._asking = QueryRunner(context, self._found, self._taken, board)
        self._shown: tuple[str, int | None] = ("", None)
        self._sorting = False
        self._rest: Callable[[], None] | None = None
        self._head = HtmlPane("", stylesheets=[theme.CSS], margin=(9, 8, 0, 12), width=210, height=24)
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
        self._picked = click_field(self._pick)
        self._table = SampleTable(pd.DataFrame({"uid": pd.Series(dtype=str)}))
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
            self._asking.bar,
            self._place,
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=240,
            css_classes=["rl-card", "rl-samples"],
        )
        self._search.param.watch(self._searched, "value")
        selection, display = context.selection, context.display
        context.param.watch(self._on_snapshot, "view")
        selection.param.watch(self._on_step, "step")
        selection.param.watch(self._highlight, "uid")
        context.param.watch(self._highlight, "first")
        selection.param.watch(self._asked, ["filter", "scope", "search", "sort"])
        context.param.watch(self._on_noted, "noted")
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
        """Ask the run anew."""
        context = self.context
        self._view = context.view
        self._shown = (context.snapshot.name, context.selection.step)
        self._pill.visible = False
        if self._search.value != context.selection.search:
            self._search.value = context.selection.search
        self._asking.ask()

    def _found(self, outcome: QueryResult) -> None:
        """Show what was found, at most as many rows as the settings say."""
        context, view, step = self.context, self._view, self.context.selection.step
        self._outcome = outcome
        if step is not None and not self._asking.asks and not self._whole:
            self._rows = shown_rows(view, step, context.display)
        else:
            self._rows = outcome.rows[: context.display.max_samples]
        self._texts = texts_of(context.index, view, self._rows)
        self._show()
        if context.index is not None and not self._texts.whole:
            self._read_rest(context.index, view.snapshot)
        uids = self._uids()
        context.first = uids[0] if uids else ""
        self._highlight()

    @property
    def _whole(self) -> bool:
        """Whether all steps are asked."""
        return self.context.selection.scope == "run"

    def _taken(self) -> tuple[RunView, np.ndarray]:
        """What a file of the grid holds: all that is found, or what the heads' filters leave of it."""
        if not self._table.filters:
            return self._view, self._outcome.rows
        row_of = dict(zip(self._table.value["uid"], self._rows.tolist(), strict=True))
        return self._view, np.array([row_of[uid] for uid in self._table.current_view["uid"]], int)

    # -- reacting --------------------------------------------------------------------------------

    def _on_snapshot(self, event: Any) -> None:
        if self._view is event.new:  # its newest step was followed, and loaded with it
            return
        selection, new = self.context.selection, event.new.snapshot
        if self._shown[0] != new.name or (not self._whole and self._shown[1] != selection.step):
            self.context.afterwards(self.load)
            return
        if not self._whole and (
            selection.step is None
            or new.steps.position(selection.step) not in new.steps.changed_since(event.old.snapshot.version)
        ):
            return
        step = None if self._whole else selection.step
        count, of = len(new.rows_of(step, older=self.context.display.older_attempts)), self._outcome.of
        if count < of or not of or (selection.follow and not self._whole and not self._asking.busy):
            self.context.afterwards(self.load)
        elif count > of:
            self._pill.param.update(label=f"↻ {count - of:,} new", visible=True)

    def _on_step(self, _: Any) -> None:
        if self._whole:
            self._shown = (self._shown[0], self.context.selection.step)
        elif self._shown != (self.context.snapshot.name, self.context.selection.step):
            self.context.afterwards(self.load)

    def _asked(self, *events: Any) -> None:
        """Ask anew, unless the table has sorted all there is by itself."""
        alone = len(events) == 1 and events[0].name == "sort"
        if not (alone and self._sorting and len(self._rows) == len(self._outcome.rows)):
            self.load()

    def _on_noted(self, _: Any) -> None:
        """A tag or note was left; a long search is not begun anew unless it asks for them."""
        if not {*NOTED}.isdisjoint(self._outcome.columns):
            self.load()
        else:
            self._show()
            self._highlight()

    def _pick(self, event: Any) -> None:
        if event.new:
            self.context.choose_sample(event.new.partition("\n")[0])

    def _searched(self, event: Any) -> None:
        self.context.selection.search = event.new

    def _sorted(self, event: Any) -> None:
        """A column's head was clicked; sorting by a text stays with the table."""
        order = Order(event.new[0]["field"], event.new[0]["dir"] == "desc") if event.new else None
        column = self._table.value.get(order.name) if order else None
        if order and (column is None or not pd.api.types.is_numeric_dtype(column)):
            return
        wish = order.text if order else ""
        if wish != self.context.selection.sort:
            self._sorting = True
            self.context.selection.sort = wish
            self._sorting = False

    def _highlight(self, *_: Any) -> None:
        uid = self.context.selection.uid or self.context.first
        uids = self._uids()
        selection = [uids.index(uid)] if uid in uids else []
        if selection == self._table.selection and selection:
            self._table.param.trigger("selection")  # new rows were sent since; the browser has lost it
        self._table.selection = selection

    def _uids(self) -> list[str]:
        frame = self._table.value
        return cached_on(frame, "uids", None, frame["uid"].tolist)

    # -- showing ---------------------------------------------------------------------------------

    def _show(self) -> None:
        context = self.context
        frame = table_frame(
            self._view, self._rows, self._texts, self._outcome, context.notes, context.display,
            whole_run=self._whole,
        )  # fmt: skip
        self._fill(frame)
        self._tell_passing()
        self._write_head(len(frame))

    def _fill(self, frame: pd.DataFrame) -> None:
        """Give the table these rows; other columns are another table.

        A table that gets new columns while the browser is still building it throws there.
        """
        if list(frame.columns) == list(self._table.value.columns):
            self._table.value = frame
            if self._sorters(frame) != [_bare(sorter) for sorter in self._table.sorters]:
                self._table.sorters = self._sorters(frame)
        elif len(frame):
            self._table = table_of(frame)
            self._table.sorters = self._sorters(frame)
            self._table.param.watch(self._sorted, "sorters")
            self._table.param.watch(self._tell_passing, "filters")
            self._table.param.watch(self._turned, ["page", "filters", "sorters"])
            self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": PICK})
            self._place[:] = [self._table]
        else:
            self._table.value = self._table.value.iloc[:0]

    def _sorters(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """The query's sort, and a sort by a text that the viewer chose."""
        order = parse_order(self.context.selection.sort)
        if order and order.name in frame:
            return [{"field": order.name, "dir": "desc" if order.falling else "asc"}]
        return [_bare(s) for s in self._table.sorters if s["field"] in ("prompt", "response", *schema.LABELS)]

    def _tell_passing(self, *_: Any) -> None:
        """Which samples of the step pass, for views of the same samples."""
        selection, rows = self.context.selection, self._outcome.rows
        if self._table.filters:
            passing = frozenset(self._table.current_view["uid"])
        elif self._asking.narrows:
            rows = rows[self._view.snapshot.place("step")[rows] == selection.step]
            passing = frozenset(self._view.snapshot.uids(rows))
        else:
            passing = None
        self.context.passing = passing

    def _write_head(self, shown: int) -> None:
        selection, display, outcome = self.context.selection, self.context.display, self._outcome
        found, step = len(outcome.rows), selection.step
        drawn = shown < found and not self._whole and not self._asking.asks
        said = f"{found:,} of all steps" if self._whole else f"{found:,} of step {step}"
        if not outcome.of:
            said = "none"
        elif self._asking.narrows:
            said = f"{found:,} of {outcome.of:,} hit"
        if shown < found:
            said += f" · {shown:,} shown"
        said = (
            drawn_html(self._view.snapshot, step, display) if drawn and step is not None else safe_text(said)
        )
        self._head.width = 300 if shown < found else 210
        self._head.object = f'<div class="head"><b>Samples</b><span class="unit">{said}</span></div>'

    # -- texts -----------------------------------------------------------------------------------

    def _read_rest(self, index: RunIndex, snapshot: Snapshot) -> None:
        """Read the texts of further pages on a thread, and show them if their rows are still shown."""
        place, rows, texts = drawing_loop(), self._rows, self._texts

        def arrived() -> None:
            if self._texts is texts:
                self._show()
                self._highlight()

        def read() -> None:
            if self._texts is texts and self._rest is read and place is not None:
                self._rest = None
                done = texts.read_rest(index, snapshot, rows)
                done.add_done_callback(lambda _: draw_in_turn(place, arrived))

        self._rest = read
        if place is None:
            texts.read_rest(index, snapshot, rows).result()
            arrived()
        elif self.context.selection.follow and not self._looks_further:
            place.call_later(STANDS, read)
        else:
            read()

    @property
    def _looks_further(self) -> bool:
        """Whether the table shows more than its first rows, or asks all of them for their texts."""
        numbers = self._table.value.select_dtypes("number").columns
        by_text = any(sorter["field"] not in numbers for sorter in self._table.sorters)
        return by_text or bool(self._table.filters) or self._table.page > 1

    def _turned(self, *_: Any) -> None:
        if self._rest is not None and self._looks_further:
            self._rest()


def _bare(sorter: dict[str, Any]) -> dict[str, str]:
    """A sorter without what the browser adds to it."""
    return {"field": sorter["field"], "dir": sorter["dir"]}
