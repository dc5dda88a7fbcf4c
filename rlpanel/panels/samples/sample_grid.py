"""The grid of samples that match the query, sorted, filtered and paged on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
from panel.viewable import Viewer

from rlpanel import schema
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.grid_cells import Thumbnails, fold_episodes, sample_cells
from rlpanel.panels.samples.query_runner import BoardExport, QueryRunner
from rlpanel.panels.samples.sample_bar import GridHead, SampleBar
from rlpanel.panels.samples.sample_table import columns_of, row_height, table_frame
from rlpanel.panels.samples.visible_rows import PAGE, subset_html, visible_rows
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.event_loop import drawing_loop
from rlpanel.panels.tables.data_table import DataTable
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, RowTexts, texts_of
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes_beside_log import NOTE_COLUMNS
from rlpanel.store.query.query import Order, QueryResult, parse_order
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Seconds that a followed step is shown before the texts of further pages are read. In a run with shorter
#: steps nobody would look at them.
READ_DELAY = 3.0


class SampleGrid(Viewer):
    """The grid with its head: number of samples, search, query bar, and a button for new samples.

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
        self._result = QueryResult(np.empty(0, int), 0)
        self._texts = RowTexts()
        self._view = context.view
        self._thumbnails = Thumbnails(context, self._show_again)
        self._query = QueryRunner(context, self._on_result, self._rows_to_export, board)
        self._loaded: tuple[str, int | None] = ("", None)  # name of the run, and step
        self._widths: dict[str, int] = {}  # of the columns of this run
        self._paged_to = ""  # chosen sample whose page was opened
        self._sorting = self._defining = self._filling = False
        self._read_later: Callable[[], None] | None = None
        self._head = GridHead()
        self._head.on_message(self.load)
        self.table = DataTable(
            page_size=PAGE,
            by_room=True,
            pick=self._on_click,
            cells=sample_cells,
            empty=tr("No samples match"),
            sizing_mode="stretch_both",
            margin=0,
            css_classes=["rl-grid"],
            stylesheets=[read_assets("panels/samples/sample_table.css")],
        )
        self._card = pn.Column(
            SampleBar(self._head, self._query.bar),
            self.table,
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=240,
            css_classes=["rl-card", "rl-samples"],
        )
        self._head.param.watch(self._on_search, "search")
        self._query.bar.param.watch(self._show_head_filters, "heads")
        selection, display = context.selection, context.display
        context.param.watch(self._on_snapshot, "view")
        selection.param.watch(self._on_step, "step")
        selection.param.watch(self._on_chosen, "uid")
        context.param.watch(self._highlight, "first_uid")
        self.table.param.watch(self._on_sort, "order")
        self.table.param.watch(self._on_filter, "filters")
        self.table.param.watch(self._on_view_change, ["page", "filters", "order"])
        selection.param.watch(self._on_columns, "columns")
        selection.param.watch(self._on_query, ["filter", "scope", "search", "sort"])
        context.param.watch(self._on_noted, "notes_version")
        settings = [
            "kl_estimator",
            "max_samples",
            "older_attempts",
            "fold_episodes",
            "answer_rule",
            *STYLE_SETTINGS,
        ]
        display.param.watch(lambda _: self.load(), settings)
        self.load()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    # -- for the board ---------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Select the sample ``by`` rows further down, in the grid's current order."""
        uids = list(self.table.current["uid"])
        if uids:
            uid = self.context.selection.uid or self.context.first_uid
            position = uids.index(uid) + by if uid in uids else 0
            position = min(max(position, 0), len(uids) - 1)
            self.table.open_row(position)
            self.context.choose_sample(uids[position])

    def load(self, *_: Any) -> None:
        """Run the query on the newest snapshot."""
        context = self.context
        self._view = context.view
        if self._loaded[0] != context.snapshot.name:
            self._widths = {}
        self._loaded = (context.snapshot.name, context.selection.step)
        self._head.param.update(new="", search=context.selection.search)
        self._query.run()

    def _on_result(self, result: QueryResult) -> None:
        """Show the query's result, up to the number of rows that the settings allow."""
        context, view, step = self.context, self._view, self.context.selection.step
        self._result = result
        if step is not None and not self._query.is_querying and not self._whole_run:
            self._rows = visible_rows(view, step, context.display)
        else:
            self._rows = result.rows[: context.display.max_samples]
        if context.display.fold_episodes:
            self._rows = fold_episodes(view.snapshot, self._rows)
        self._texts = texts_of(context.index, view, self._rows, self.table.page_size)
        self._show()
        if context.index is not None and not self._texts.whole:
            self._read_rest(context.index, view.snapshot)
        context.text_conditions = result.tests
        uids = self._uids()
        context.first_uid = uids[0] if uids else ""
        if not uids and result.finished and self._query.is_filtering:
            context.message = tr("no sample matches the filter")
        self._on_chosen()

    @property
    def _whole_run(self) -> bool:
        """True if the query covers all steps of the run."""
        return self.context.selection.scope == "run"

    def _rows_to_export(self) -> tuple[RunView, np.ndarray]:
        """Return the rows to export: all matching rows, or those that pass the column headers' filters."""
        if not self.table.filters:
            return self._view, self._result.rows
        row_of = dict(zip(self.table.frame["uid"], self._rows.tolist(), strict=True))
        return self._view, np.array([row_of[uid] for uid in self.table.current["uid"]], int)

    # -- reacting --------------------------------------------------------------------------------

    def _on_snapshot(self, event: Any) -> None:
        if self._view is event.new:  # already loaded, because its newest step was followed
            return
        selection, new = self.context.selection, event.new.snapshot
        if self._loaded[0] != new.name or (not self._whole_run and self._loaded[1] != selection.step):
            self.context.draw_later(self.load)
            return
        if not self._whole_run and (
            selection.step is None
            or new.steps.position(selection.step) not in new.steps.changed_since(event.old.snapshot.version)
        ):
            return
        step = None if self._whole_run else selection.step
        count = len(new.rows_of(step, older=self.context.display.older_attempts))
        queried = self._query.total  # the result may still be that of the run shown before
        following = selection.follow and not self._whole_run and not self._query.busy
        if count < queried or not queried or following:
            self.context.draw_later(self.load)
        elif count > queried:
            self._head.new = tr("↻ {count:,} new", count=count - queried)

    def _on_step(self, _: Any) -> None:
        if self._whole_run:
            self._loaded = (self._loaded[0], self.context.selection.step)
        elif self._loaded != (self.context.snapshot.name, self.context.selection.step):
            self.context.draw_later(self.load)

    def _on_query(self, *events: Any) -> None:
        """Run the changed query, unless only the sort changed and the table has already sorted all rows."""
        only_sort = len(events) == 1 and events[0].name == "sort"
        if not (only_sort and self._sorting and len(self._rows) == len(self._result.rows)):
            self._paged_to = ""  # another query has the chosen sample on another page
            self.load()

    def _on_noted(self, _: Any) -> None:
        """Show a new tag or note. The query, which may take long, runs again only if it names them."""
        if not {*NOTE_COLUMNS}.isdisjoint(self._result.columns):
            self.load()
        else:
            self._show_again()

    def _on_click(self, uid: str, _: str) -> None:
        self.context.choose_sample(uid)
        self.context.sample_asked = True

    def _on_search(self, event: Any) -> None:
        self.context.selection.search = event.new

    def _on_sort(self, event: Any) -> None:
        """Copy the table's sort by a number column to the selection; only the table sorts by texts."""
        if self._defining:
            return
        order = Order(*event.new[0]) if event.new else None
        column = self.table.frame.get(order.name) if order else None
        if order and (column is None or not pd.api.types.is_numeric_dtype(column)):
            return
        sort = order.text if order else ""
        if sort != self.context.selection.sort:
            self._sorting = True
            self.context.selection.sort = sort
            self._sorting = False

    def _on_filter(self, _: Any) -> None:
        if not self._filling:
            self.context.selection.columns = dict(self.table.filters)
        self._update_passing()
        self._show_head_filters()

    def _on_chosen(self, *_: Any) -> None:
        """Highlight the chosen sample, and open its page once: afterwards the viewer may turn pages."""
        self._highlight()
        uid = self.context.selection.uid
        if uid and uid != self._paged_to:
            uids = list(self.table.current["uid"])
            if uid in uids:
                self.table.open_row(uids.index(uid))
                self._paged_to = uid
        elif not uid:
            self._paged_to = ""

    def _highlight(self, *_: Any) -> None:
        self.table.chosen = self.context.selection.uid or self.context.first_uid

    def _uids(self) -> list[str]:
        frame = self.table.frame
        return cached_on(frame, "uids", None, lambda: frame["uid"].tolist())

    # -- showing ---------------------------------------------------------------------------------

    def _show(self) -> None:
        context = self.context
        frame = table_frame(
            context.index, self._view, self._rows, self._texts, self._result, context.notes,
            context.display, whole_run=self._whole_run,
        )  # fmt: skip
        self._fill(self._thumbnails.add_to(frame))
        self._update_passing()
        self._write_head(len(frame))
        self._load_thumbnails()

    def _show_again(self) -> None:
        """Show the same rows with what was read meanwhile."""
        self._show()

    def _load_thumbnails(self) -> None:
        """Read the images of the rows on the current page."""
        if self._thumbnails.exist:
            self._thumbnails.load(self.table.on_page["uid"].tolist())

    def _fill(self, frame: pd.DataFrame) -> None:
        """Give the table these rows; a query without results keeps its columns."""
        self._filling = True
        if len(frame):
            order = self._order(frame)
            columns = columns_of(frame, self._widths, order[0][0] if order else "")
            self._defining = True  # the order of a column that goes is not the viewer's choice
            self.table.define(columns, row_height(frame))
            self._defining = False
        else:
            frame = self.table.frame.iloc[:0]
        self.table.draw(frame, self._order(frame), self._column_filters(frame))
        self._filling = False
        if self._missing() != self._query.missing:
            self._query.missing = self._missing()
            self._query.show_chips()

    def _column_filters(self, frame: pd.DataFrame) -> dict[str, str]:
        """Return the filters of the selection whose columns are there."""
        wanted = self.context.selection.columns
        return {name: text for name, text in wanted.items() if name in frame}

    def _missing(self) -> frozenset[str]:
        """Return the columns that should filter and are not there; none are known to be while none is."""
        frame = self.table.frame
        return (
            frozenset(self.context.selection.columns).difference(frame) if len(frame.columns) else frozenset()
        )

    def _on_columns(self, _: Any) -> None:
        self._filling = True
        self.table.filters = self._column_filters(self.table.frame)
        self._filling = False
        self._query.missing = self._missing()
        self._query.show_chips()

    def _show_head_filters(self, *_: Any) -> None:
        """Show or hide the filters of single columns; those that filter now are not hidden."""
        shown = self._query.bar.heads or bool(self.table.filters)
        self._query.bar.heads = shown
        self.table.css_classes = ["rl-grid", *(["rl-head-filters"] if shown else [])]

    def _order(self, frame: pd.DataFrame) -> list[tuple[str, bool]]:
        """Return the query's sort, else the table's own sort by texts or labels."""
        order = parse_order(self.context.selection.sort)
        if order and order.name in frame:
            return [(order.name, order.falling)]
        texts = ("prompt", "response", *schema.LABELS)
        return [(name, falls) for name, falls in self.table.order if name in texts]

    def _update_passing(self, *_: Any) -> None:
        """Publish which samples of the step pass the filters, for other views of the same samples."""
        selection, rows = self.context.selection, self._result.rows
        if self.table.filters:
            passing = frozenset(self.table.current["uid"])
        elif self._query.is_filtering:
            rows = rows[self._view.snapshot.metadata("step")[rows] == selection.step]
            passing = frozenset(self._view.snapshot.uids(rows))
        else:
            passing = None
        self.context.filtered_uids = passing

    def _write_head(self, shown: int) -> None:
        selection, display, result = self.context.selection, self.context.display, self._result
        matches, step = len(result.rows), selection.step
        is_subset = shown < matches and not self._whole_run and not self._query.is_querying
        text = (
            tr("{matches:,} of all steps", matches=matches)
            if self._whole_run
            else tr("{matches:,} of step {step}", matches=matches, step=step)
        )
        if not result.total:
            text = tr("none")
        elif self._query.is_filtering:
            text = tr("{matches:,} of {total:,} match", matches=matches, total=result.total)
        order = parse_order(selection.sort)
        if shown < matches and order:
            way = tr("the highest {column}") if order.falling else tr("the lowest {column}")
            text += tr(" · {shown:,} shown: {way}", shown=shown, way=way.format(column=order.name))
        elif shown < matches:
            text += tr(" · first {shown:,} shown", shown=shown)
        note = (
            subset_html(self._view.snapshot, step, display)
            if is_subset and step is not None
            else safe_text(text)
        )
        cut = " cut" if shown < matches else ""
        title = tr("Samples")
        self._head.html = f'<div class="head{cut}"><b>{title}</b><span class="unit">{note}</span></div>'

    # -- texts -----------------------------------------------------------------------------------

    def _read_rest(self, index: RunIndex, snapshot: Snapshot) -> None:
        """Read the texts of further pages on a thread, and show them if the grid still has these rows."""
        loop, rows, texts, pool = drawing_loop(), self._rows, self._texts, self.context.threads.texts

        def show() -> None:
            if loop is not None:
                loop.busy.discard(texts)
            if self._texts is texts:
                self._show_again()

        def read() -> None:
            if self._texts is texts and self._read_later is read and loop is not None:
                self._read_later = None
                loop.busy.add(texts)
                future = texts.read_rest(index, snapshot, rows, pool)
                future.add_done_callback(lambda _: loop.draw(show))

        self._read_later = read
        if loop is None:
            texts.read_rest(index, snapshot, rows, pool).result()
            show()
        elif self.context.selection.follow and not self._needs_all_texts:
            loop.call_later(READ_DELAY, read)
        else:
            read()

    @property
    def _needs_all_texts(self) -> bool:
        """True if the table shows another page than the first, or sorts or filters by texts."""
        numbers = self.table.frame.select_dtypes("number").columns
        by_text = any(name not in numbers for name, _ in self.table.order)
        return by_text or bool(self.table.filters) or self.table.page > 1

    def _on_view_change(self, *_: Any) -> None:
        self._load_thumbnails()
        if self._read_later is not None and self._needs_all_texts:
            self._read_later()
