"""Runs the selection's query: small queries on the event loop, large ones on a thread, and exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlpanel.errors import FilterError, RLPanelError
from rlpanel.number_text import number, size_text
from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.export.python_cell import samples_cell
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.sample_bar import PRESETS, QueryBar, chips_of, names_of, presets_of, without
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.sample_texts import READ_NOW
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from rlpanel.store.query.samples_export import FORMATS, ExportPart, available_formats, export_parts
from rlpanel.store.snapshot.run_view import RunView

#: Maximum number of rows to query on the event loop; more are queried on a thread.
ASK_NOW = 100_000
#: Maximum bytes of an exported file, which the browser keeps in memory.
MAX_EXPORT_BYTES = 256 << 20


@dataclass(frozen=True)
class Download:
    """A file for the browser, produced in parts.

    Attributes
    ----------
    name : str
        The file's name.
    media : str
        Its media type, such as ``text/html``.
    title : str
        Name of the file in the query bar's messages.
    pieces : iterator of ExportPart
        The file's bytes in parts, which may be produced on any thread.
    """

    name: str
    media: str
    title: str
    pieces: Iterator[ExportPart]


#: Exports the whole board, given the context and the parameters of its selection to change.
BoardExport = Callable[..., Download]


class QueryRunner:
    """Runs the selection's query and exports, and shows their progress and errors in the query bar.

    Parameters
    ----------
    context : Context
    on_result : callable
        Called with each result of the query on the session's loop.
    rows_to_export : callable
        Returns the view and its rows to export.
    board : callable, optional
        Exports the whole board; without it the export menu has no such entry.

    Attributes
    ----------
    bar : QueryBar
    busy : bool
        Whether a query is running.
    total : int
        Number of rows in the scope of the newest query, also while it is running.
    """

    def __init__(
        self,
        context: Context,
        on_result: Callable[[QueryResult], None],
        rows_to_export: Callable[[], tuple[RunView, np.ndarray]],
        board: BoardExport | None = None,
    ) -> None:
        self._context, self._board = context, board
        self._show_result, self._rows_to_export = on_result, rows_to_export
        pool = context.threads.queries
        self._query_task: BackgroundTask[QueryResult | FilterError] = BackgroundTask(self._on_result, pool)
        self._export_task: BackgroundTask[ExportPart | RLPanelError | None] = BackgroundTask(
            self._on_export_part, pool
        )
        self._export_size, self._match_count = 0, 0
        self._export_file: dict[str, str] = {}
        self._export_title = ""
        self._filter_valid = True
        self._query: Query | None = None
        self.busy, self.total = False, 0
        #: Columns that should filter in the heads of the grid, which does not have them.
        self.missing: frozenset[str] = frozenset()
        self.bar = QueryBar(self._on_action)
        whole_board = [[tr("Board as one HTML file"), "board", None]] if board is not None else []
        kinds = [[kind, kind, None] for kind in available_formats()]
        copies = [[tr("Copy link"), "link", None], [tr("Copy as Python"), "python", None]]
        self.bar.takes = [*kinds, *whole_board, *copies]
        self.bar.param.watch(self._on_edit, ["filter", "scope"])

    def run(self) -> None:
        """Run the selection's query; this cancels the running query and export."""
        context, selection = self._context, self._context.selection
        self._cancel()
        self.bar.param.update(
            filter=selection.filter, scope=selection.scope, error="", note="", progress=-1.0
        )
        notes = context.notes
        if context.index is None or notes is None or (selection.scope == "step" and selection.step is None):
            self.total, self._query = 0, None
            self.show_chips()
            self._show_result(QueryResult(np.empty(0, int), 0))
            return
        notes.refresh()
        self._filter_valid = True
        try:
            query = Query(context.index, context.snapshot, self._query_spec(), notes)
        except FilterError as error:
            self._filter_valid = False
            self.bar.param.update(error=str(error), error_at=error.at)
            query = Query(context.index, context.snapshot, self._unfiltered_spec(), notes)
        self.total = len(query.rows)
        self._query = query
        self._update_bar(query.scope)
        self.show_chips()
        if query.reads <= READ_NOW and not query.patient and len(query.rows) <= ASK_NOW:
            self._on_result(list(query.results())[-1])
        else:
            self.busy = True
            self.bar.param.update(progress=0.0, note=tr("searching …"))
            self._query_task.start(_with_error(query.results()))

    @property
    def is_querying(self) -> bool:
        """True if a filter, a search or a sort order is set and valid."""
        selection = self._context.selection
        return self.is_filtering or bool(selection.sort and self._filter_valid)

    @property
    def is_filtering(self) -> bool:
        """True if a valid filter or search is set, which may leave out samples."""
        selection = self._context.selection
        return bool(selection.filter.strip() or selection.search.strip()) and self._filter_valid

    def _query_spec(self) -> QuerySpec:
        """Return the query that the selection describes."""
        selection = self._context.selection
        return replace(
            self._unfiltered_spec(), filter=selection.filter, search=selection.search, sort=selection.sort
        )

    def _unfiltered_spec(self) -> QuerySpec:
        """Return the query for all rows of the selected step or run."""
        selection = self._context.selection
        step = selection.step if selection.scope == "step" else None
        display = self._context.display
        return QuerySpec(step, older=display.older_attempts, answer_rule=display.answer_rule)

    # -- results ---------------------------------------------------------------------------------

    def _on_result(self, result: QueryResult | FilterError) -> None:
        if isinstance(result, FilterError):
            self._cancel()
            self.bar.param.update(error=str(result), error_at=0, progress=-1.0, note="")
            return
        self.busy, self._match_count = not result.finished, len(result.rows)
        if result.finished and self.is_filtering and result.total and not len(result.rows):
            self.show_chips(alone=True)
        done = result.bytes_done / result.bytes_total if result.bytes_total else 0.0
        self.bar.param.update(note=self._status(result), progress=done if self.busy else -1.0)
        self._show_result(result)

    def show_chips(self, *, alone: bool = False) -> None:
        """Show what narrows the grid down; with ``alone``, also what each condition finds by itself."""
        chips = [[key, label, ""] for key, label in chips_of(self._context.selection, self.missing)]
        for chip in chips:
            if alone and self._filter_valid and self._query is not None and chip[0].startswith("filter:"):
                count = self._query.count_alone(chip[1])
                chip[2] = "" if count is None else tr("{count:,} alone", count=count)
        self.bar.chips = chips

    def _status(self, result: QueryResult) -> str:
        """Return the status line: percentiles of the filter, searched bytes, and unreadable samples."""
        where = (
            tr("all steps")
            if self._context.selection.scope == "run"
            else tr("step {step}", step=self._context.selection.step)
        )
        parts = [
            tr("{name} of {where} = {value}", name=name, where=where, value=number(value))
            for name, value in result.percentiles.items()
        ]
        if result.bytes_total > READ_NOW:
            rate = result.bytes_done / max(result.seconds, 1e-3)
            done, total = size_text(result.bytes_done), size_text(result.bytes_total)
            parts.append(
                tr(
                    "{done} of {total} searched, {size_text}/s",
                    done=done,
                    total=total,
                    size_text=size_text(rate),
                )
            )
        if self.busy:
            parts.append(tr("{rows:,} found so far", rows=len(result.rows)))
        if result.finished and self.is_filtering and result.total and not len(result.rows):
            parts.append(tr("no sample of {where} matches all of it", where=where))
        if result.unread:
            parts.append(tr("{unread:,} samples cannot be read at the moment", unread=result.unread))
        return " · ".join(parts)

    def _update_bar(self, scope: FilterScope) -> None:
        """Give the bar the columns for completion and the presets."""
        display, whole_run = self._context.display, self._context.selection.scope == "run"
        names, presets = names_of(scope), presets_of(scope, display.kl_estimator, whole_run=whole_run)
        self.bar.param.update(names=names, presets=presets)

    def _on_edit(self, *events: Any) -> None:
        self._context.selection.param.update(**{event.name: event.new for event in events})

    # -- actions of the bar ----------------------------------------------------------------------

    def _on_action(self, action: str, argument: str) -> None:
        if action == "stop":
            note = (
                tr("stopped; {match_count:,} found until then", match_count=self._match_count)
                if self.busy
                else "stopped"
            )
            self._cancel()
            self.bar.param.update(progress=-1.0, note=note)
        elif action == "preset" and (argument in PRESETS or not argument):
            kl = self._context.display.kl_estimator
            _, sort, text = PRESETS.get(argument, ((), "", ""))
            self._context.selection.param.update(sort=sort.format(kl=kl), filter=text, search="")
        elif action == "off":
            self._context.selection.param.update(**without(self._context.selection, argument))
        elif action == "take" and argument in FORMATS:
            self._export_samples(argument)
        elif action == "take" and argument == "board":
            self._export_board()
        elif action == "take" and argument == "python" and self._context.index is not None:
            self._copy_python()

    def _copy_python(self) -> None:
        uids = None
        if self._context.selection.columns:
            view, rows = self._rows_to_export()
            uids = [str(uid) for uid in view.snapshot.uids(rows)]
        self.bar.send({"cell": samples_cell(self._context, uids)})
        self.bar.note = tr("copied")

    def _cancel(self) -> None:
        self._query_task.stop()
        self._export_task.stop()
        self.busy = False

    def _export_samples(self, kind: str) -> None:
        """Export the matching samples, sending the file in parts as they are produced."""
        context = self._context
        if context.index is None or context.notes is None or self.busy:
            return
        view, rows = self._rows_to_export()
        ending, media, _ = FORMATS[kind]
        rule = context.display.answer_rule
        parts = export_parts(context.index, view, rows, context.notes, kind, answer_rule=rule)
        name = f"{file_name(view.snapshot.name)}.{ending}"
        self._start_export(
            Download(name, media, tr("{kind}: {rows:,} samples", kind=kind, rows=len(rows)), parts)
        )

    def _export_board(self) -> None:
        """Export the board as it is shown now as one file; an invalid filter is left out."""
        context, selection = self._context, self._context.selection
        if self._board is None or context.index is None or selection.step is None or self.busy:
            return
        changes = {} if self._filter_valid else {"filter": "", "search": "", "sort": ""}
        self._start_export(self._board(context, **changes))

    def _start_export(self, download: Download) -> None:
        """Start a download and show its progress."""
        self._export_size, self._export_title = 0, download.title
        self._export_file = {"name": download.name, "kind": download.media}
        self.bar.send({"name": None})
        self.bar.param.update(progress=0.0, note=tr("exporting {title} …", title=download.title))
        self._export_task.start(_with_end(download.pieces))

    def _on_export_part(self, part: ExportPart | RLPanelError | None) -> None:
        """Send a part of the file to the browser; None marks the end of the file."""
        if isinstance(part, RLPanelError):
            self.bar.param.update(progress=-1.0, note="", error=str(part))
            return
        if part is None:
            self.bar.send(self._export_file)
            note = f"{self._export_title}, {size_text(self._export_size)}"
            self.bar.param.update(progress=-1.0, note=note)
            return
        self._export_size += len(part.data)
        if self._export_size > MAX_EXPORT_BYTES:
            self._cancel()
            error = tr(
                "the file is larger than {size_text}: export fewer samples",
                size_text=size_text(MAX_EXPORT_BYTES),
            )
            self.bar.param.update(progress=-1.0, note="", error=error)
        else:
            self.bar.send({"piece": part.data})
            self.bar.progress = part.done


def _with_error(results: Iterator[QueryResult]) -> Iterator[QueryResult | FilterError]:
    """Yield the results, and finally the error if one occurs."""
    try:
        yield from results
    except FilterError as error:
        yield error


def _with_end(parts: Iterator[ExportPart]) -> Iterator[ExportPart | RLPanelError | None]:
    """Yield the parts, and finally None, or the error if one occurs."""
    try:
        yield from parts
        yield None
    except RLPanelError as error:
        yield error
