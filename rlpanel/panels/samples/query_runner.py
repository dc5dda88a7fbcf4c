"""The selection's query put to the run: small questions at once, large ones on a thread, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlpanel.errors import FilterError, RLPanelError
from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.samples.query_bar import PRESETS, QueryBar, names_of, presets_of
from rlpanel.panels.samples.text_cache import READ_NOW
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import number
from rlpanel.store.query.filter_columns import Scope
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from rlpanel.store.query.samples_export import FORMATS, ExportPart, available_formats, export_parts
from rlpanel.store.snapshot.run_view import RunView

#: Rows that are asked on the event loop; more on a thread.
ASK_NOW = 100_000
#: Bytes of a file to take away; a browser keeps it in memory.
MOST_TAKEN = 256 << 20
_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-asking")


@dataclass(frozen=True)
class Download:
    """A file for the browser, made piece by piece.

    Attributes
    ----------
    name : str
        The file's name.
    media : str
        Its media type, such as ``text/html``.
    title : str
        What the query bar calls it while it is made.
    pieces : iterator of ExportPart
        Its bytes; they may be made on any thread.
    """

    name: str
    media: str
    title: str
    pieces: Iterator[ExportPart]


#: Makes a download of the whole board from the context and parameters of its selection that differ.
BoardExport = Callable[..., Download]


class QueryRunner:
    """Asks what the selection says, and tells the bar how it goes.

    Parameters
    ----------
    context : Context
    found : callable
        Takes each outcome on the session's loop.
    taken : callable
        Gives the view and the rows of it that a file to take away holds.
    board : callable, optional
        Exports the whole board; without it the menu has no such entry.

    Attributes
    ----------
    bar : QueryBar
    busy : bool
        Whether an answer is on its way.
    """

    def __init__(
        self,
        context: Context,
        found: Callable[[QueryResult], None],
        taken: Callable[[], tuple[RunView, np.ndarray]],
        board: BoardExport | None = None,
    ) -> None:
        self._context, self._found, self._to_take, self._board = context, found, taken, board
        self._work: BackgroundTask[QueryResult | FilterError] = BackgroundTask(self._arrived, _pool)
        self._taking: BackgroundTask[ExportPart | RLPanelError | None] = BackgroundTask(self._taken, _pool)
        self._size, self._hits = 0, 0
        self._file: dict[str, str] = {}
        self._said = ""
        self._understood = True
        self.busy = False
        self.bar = QueryBar(self._act, margin=(0, 8, 6, 8))
        whole = [["the board as one HTML file", "board", None]] if board is not None else []
        kinds = [[kind, kind, None] for kind in available_formats()]
        self.bar.takes = [*kinds, *whole, ["copy link", "link", None]]
        self.bar.param.watch(self._written, ["filter", "scope"])

    def ask(self) -> None:
        """Ask anew; what is under way is no longer wanted."""
        context, selection = self._context, self._context.selection
        self._stop()
        self.bar.param.update(
            filter=selection.filter, scope=selection.scope, error="", note="", progress=-1.0
        )
        notes = context.notes
        if context.index is None or notes is None or (selection.scope == "step" and selection.step is None):
            self._found(QueryResult(np.empty(0, int), 0))
            return
        notes.refresh()
        self._understood = True
        try:
            query = Query(context.index, context.snapshot, self._question(), notes)
        except FilterError as error:
            self._understood = False
            self.bar.param.update(error=str(error), error_at=error.at)
            query = Query(context.index, context.snapshot, self._all_rows(), notes)
        self._offer(query.scope)
        if query.reads <= READ_NOW and not query.patient and len(query.rows) <= ASK_NOW:
            self._arrived(list(query.outcomes())[-1])
        else:
            self.busy = True
            self.bar.param.update(progress=0.0, note="asking …")
            self._work.start(_told(query.outcomes()))

    @property
    def asks(self) -> bool:
        """Whether anything is asked, so that not just a step is shown."""
        selection = self._context.selection
        return self.narrows or bool(selection.sort and self._understood)

    @property
    def narrows(self) -> bool:
        """Whether samples are left out by the question."""
        selection = self._context.selection
        return bool(selection.filter.strip() or selection.search.strip()) and self._understood

    def _question(self) -> QuerySpec:
        """The question that the selection is, over the rows that it is about."""
        selection = self._context.selection
        return replace(
            self._all_rows(), filter=selection.filter, search=selection.search, sort=selection.sort
        )

    def _all_rows(self) -> QuerySpec:
        selection = self._context.selection
        step = selection.step if selection.scope == "step" else None
        return QuerySpec(step, older=self._context.display.older_attempts)

    # -- answers ---------------------------------------------------------------------------------

    def _arrived(self, result: QueryResult | FilterError) -> None:
        if isinstance(result, FilterError):
            self._stop()
            self.bar.param.update(error=str(result), error_at=0, progress=-1.0, note="")
            return
        self.busy, self._hits = not result.finished, len(result.rows)
        done = result.bytes_done / result.bytes_total if result.bytes_total else 0.0
        self.bar.param.update(note=self._note(result), progress=done if self.busy else -1.0)
        self._found(result)

    def _note(self, result: QueryResult) -> str:
        where = (
            "all steps" if self._context.selection.scope == "run" else f"step {self._context.selection.step}"
        )
        said = [f"{name} of {where} = {number(value)}" for name, value in result.percentiles.items()]
        if result.bytes_total > READ_NOW:
            rate = result.bytes_done / max(result.seconds, 1e-3)
            said.append(
                f"{_size(result.bytes_done)} of {_size(result.bytes_total)} searched, {_size(rate)}/s"
            )
        if self.busy:
            said.append(f"{len(result.rows):,} found so far")
        if result.unread:
            said.append(f"{result.unread:,} samples cannot be read just now")
        return " · ".join(said)

    def _offer(self, scope: Scope) -> None:
        display, whole = self._context.display, self._context.selection.scope == "run"
        names, presets = names_of(scope), presets_of(scope, display.kl_estimator, whole_run=whole)
        self.bar.param.update(names=names, presets=presets)

    def _written(self, *events: Any) -> None:
        self._context.selection.param.update(**{event.name: event.new for event in events})

    # -- wishes ----------------------------------------------------------------------------------

    def _act(self, what: str, which: str) -> None:
        if what == "stop":
            said = f"stopped; {self._hits:,} found by then" if self.busy else "stopped"
            self._stop()
            self.bar.param.update(progress=-1.0, note=said)
        elif what == "preset" and (which in PRESETS or not which):
            kl = self._context.display.kl_estimator
            _, sort, text = PRESETS.get(which, ((), "", ""))
            wish = {"sort": sort.format(kl=kl), "filter": text, "search": ""}
            self._context.selection.param.update(**wish)
        elif what == "take" and which in FORMATS:
            self._take(which)
        elif what == "take" and which == "board":
            self._take_board()

    def _stop(self) -> None:
        self._work.stop()
        self._taking.stop()
        self.busy = False

    def _take(self, kind: str) -> None:
        """Make the file of what was found, and send it as it comes."""
        context = self._context
        if context.index is None or context.notes is None or self.busy:
            return
        view, rows = self._to_take()
        ending, media, _ = FORMATS[kind]
        made = export_parts(context.index, view, rows, context.notes, kind)
        name = f"{file_name(view.snapshot.name)}.{ending}"
        self._begin(Download(name, media, f"{kind}: {len(rows):,} samples", made))

    def _take_board(self) -> None:
        """Make one file of all that the board shows now; a filter that is not understood is left out."""
        context, selection = self._context, self._context.selection
        if self._board is None or context.index is None or selection.step is None or self.busy:
            return
        without = {} if self._understood else {"filter": "", "search": "", "sort": ""}
        self._begin(self._board(context, **without))

    def _begin(self, download: Download) -> None:
        """Start a download and show its progress."""
        self._size, self._said = 0, download.title
        self._file = {"name": download.name, "kind": download.media}
        self.bar.send({"name": None})
        self.bar.param.update(progress=0.0, note=f"making {download.title} …")
        self._taking.start(_ended(download.pieces))

    def _taken(self, piece: ExportPart | RLPanelError | None) -> None:
        """A piece to the browser; None says that all are there."""
        if isinstance(piece, RLPanelError):
            self.bar.param.update(progress=-1.0, note="", error=str(piece))
            return
        if piece is None:
            self.bar.send(self._file)
            self.bar.param.update(progress=-1.0, note=f"{self._said}, {_size(self._size)}")
            return
        self._size += len(piece.data)
        if self._size > MOST_TAKEN:
            self._stop()
            said = f"more than {_size(MOST_TAKEN)}: ask for fewer samples"
            self.bar.param.update(progress=-1.0, note="", error=said)
        else:
            self.bar.send({"piece": piece.data})
            self.bar.progress = piece.done


def _told(outcomes: Iterator[QueryResult]) -> Iterator[QueryResult | FilterError]:
    """Outcomes, and at the end what went wrong if something did."""
    try:
        yield from outcomes
    except FilterError as error:
        yield error


def _ended(made: Iterator[ExportPart]) -> Iterator[ExportPart | RLPanelError | None]:
    """Pieces, and at the end that there are no more, or what went wrong."""
    try:
        yield from made
        yield None
    except RLPanelError as error:
        yield error


def _size(size: float) -> str:
    return (
        f"{size / 1e9:.1f} GB"
        if size >= 1e9
        else f"{size / 1e6:.1f} MB"
        if size >= 1e5
        else f"{size / 1e3:.1f} kB"
    )
