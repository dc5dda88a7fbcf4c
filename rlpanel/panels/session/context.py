"""State shared by a session's views: a snapshot, a selection, and display settings.

Each session has one `Context`. Views watch its parameters and never each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import numpy as np
import param

from rlpanel.board_url import (
    BANDS,
    DARK_DEFAULT,
    MAX_SMOOTHING,
    MIN_COUNTS,
    MODES,
    NEWEST,
    RUN_CHIPS,
    SCALES,
    STEP,
    write_query,
)
from rlpanel.display_settings import Display
from rlpanel.errors import RLPanelError, SampleNotFound
from rlpanel.panels.session.context_parts import ChainMark, MarkedSteps, OverlayRun
from rlpanel.panels.session.threads import Threads
from rlpanel.schema import Sample
from rlpanel.sources.discovery.diagnose import Diagnosis
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import Unread
from rlpanel.store.columns.row_table import DEAD
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.summary_store import SummaryStore
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.sample_media import PlayableMedium
from rlpanel.store.snapshot.alignment import ALIGNMENTS
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Page of the run that shows the sample alone.
SAMPLE = "sample"


class Selection(param.Parameterized):
    """Selected run, step, sample and filters: the state that the page's URL stores."""

    run = param.String(default="", doc="Name of the run, relative to the root folder.")
    split = param.String(default="", doc="Split that is shown; empty: training, else the largest one.")
    step = param.Integer(default=None, allow_None=True, doc="Selected step; None while there are no steps.")
    follow = param.Boolean(default=True, doc="Whether the newest complete step is selected automatically.")
    uid = param.String(default="", doc="Sample chosen by the viewer; empty: the first row of the grid.")
    token = param.Integer(default=-1, doc="Pinned token of the sample; -1 for none.")
    turn = param.Integer(
        default=None,
        allow_None=True,
        doc="Turn of the sample that the conversation shows; None for its start.",
    )
    page = param.String(default="", doc="Page of the run; empty: the overview.")
    tab = param.String(default="", doc="Tab of the sample; empty: chosen by the sample.")
    mode = param.Selector(default="text", objects=list(MODES), doc="How the conversation shows texts.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    scale = param.Selector(
        default="run", objects=list(SCALES), doc="What the colour scale of token metrics is taken from."
    )
    diff = param.String(
        default="", doc="Kind of text that Diff shows beside the response, and its uid behind a colon."
    )
    pair = param.String(
        default="", doc="Uid of the rollout that the conversation shows beside the sample; empty for none."
    )
    explain = param.String(
        default="", doc="Question of the page Explain, and what it needs behind a colon; empty: by the page."
    )
    loss = param.String(
        default="", doc="Loss that the page Update changes, and its constants: dapo epsilon_high=0.3."
    )
    ranked_by = param.String(default="", doc="Measure of the token ranking; empty: the first of the run.")
    ranked_least = param.Selector(
        default=3, objects=list(MIN_COUNTS), doc="How often a token must be seen at least to be ranked."
    )
    prompt_class = param.String(
        default="", doc="Class of the prompts in the list of the page Prompts; empty: by the page."
    )
    prompt_category = param.String(
        default="", doc="Label and value, such as lang=zh, of the prompts on the page Prompts; empty: all."
    )
    band = param.Selector(
        default="",
        objects=["", *BANDS],
        doc="What curves show around the mean; empty: the display's default.",
    )
    curves = param.List(default=[], item_type=str, doc="Columns drawn as curves; empty: the defaults.")
    log_curves = param.List(default=[], item_type=str, doc="Columns whose curves have a logarithmic axis.")
    zoom = param.NumericTuple(
        default=None,
        length=2,
        allow_None=True,
        doc="First and last position of the zoom, on the axis of the curves; None: all steps.",
    )
    search = param.String(
        default="", doc="Text to find in prompts and responses; /like this/ is a regular expression."
    )
    filter = param.String(default="", doc="Filter expression over the sample columns.")
    columns = param.Dict(default={}, doc="Column of the grid → text of the filter in its head.")
    scope = param.Selector(
        default="step", objects=["step", "run"], doc="Whether the grid shows the selected step or all steps."
    )
    sort = param.String(default="", doc="Number column that sorts the grid; a leading - sorts descending.")
    overlay_runs = param.List(default=[], item_type=str, doc="Names of the overlay runs.")
    overlay_splits = param.List(
        default=[], item_type=str, doc="Splits drawn over the curves of the shown split."
    )
    align = param.Selector(
        default=STEP, objects=ALIGNMENTS, label="Align by", doc="Quantity on the curves' x axis."
    )
    smooth = param.Number(
        default=0.0,
        bounds=(0.0, MAX_SMOOTHING),
        step=0.01,
        label="Smoothing",
        doc="Weight of an exponential moving average over the steps; the raw line stays visible behind it.",
    )
    compared_run = param.String(
        default="", doc="Name of the run whose responses to the same prompts are compared."
    )
    samples_here = param.String(
        default=NEWEST, doc="Compared samples of the run: a choice, or a step's number."
    )
    samples_there = param.String(default=NEWEST, doc="Compared samples of the other run, as `samples_here`.")
    finding = param.String(default="", doc="Key of the opened finding; empty for none.")
    runs_filter = param.String(
        default="", doc="Filter of the table of runs: words of the path, or an expression."
    )
    runs_sort = param.String(
        default="",
        doc="Column that sorts the table of runs; a leading - sorts descending; empty: worst finding first.",
    )
    runs_chips = param.ListSelector(default=[], objects=list(RUN_CHIPS), doc="Chosen chips of that table.")
    runs_folders = param.Boolean(default=True, doc="Whether runs of that table stand in folders.")
    runs_group = param.String(default="", doc="Setting by which that table groups runs; empty for none.")
    runs_axes = param.Boolean(default=False, doc="Whether parallel coordinates stand above that table.")
    dark = param.Boolean(default=DARK_DEFAULT, doc="Whether the theme is dark.")


class Context(param.Parameterized):
    """State that all views of a session share.

    Parameters
    ----------
    threads : Threads, optional
        Threads for the views' work; those of the runtime on a board, by default the session's own.
    summaries : SummaryStore, optional
        What lists say about runs; on a board, those of the runtime.
    **params
    """

    runs = param.List(default=[], item_type=RunInfo, doc="Runs below the root folder, newest first.")
    infos = param.Dict(
        default={}, doc="The newest summary of each run by name; those in `runs` are as old as its order."
    )
    root_diagnosis = param.ClassSelector(
        class_=Diagnosis, allow_None=True, doc="Diagnosis of a root folder without runs."
    )
    left_out = param.List(
        default=[], item_type=Unread, doc="Links that are not followed and folders that cannot be listed."
    )
    mapping_form = param.Selector(
        default="auto",
        objects=["auto", "open", "closed"],
        doc="Whether the form that maps keys to fields covers the page; auto: for a folder without runs "
        "whose files look like rollouts.",
    )
    index = param.ClassSelector(class_=RunIndex, allow_None=True, doc="The selected run's index.")
    view = param.ClassSelector(
        class_=RunView,
        default=RunView(Snapshot("")),
        instantiate=False,
        doc="View of the newest snapshot of the selected run.",
    )
    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="The sample that is shown.")
    message = param.String(default="", doc="Why the sample cannot be shown; empty if it can.")
    root = param.String(default="", doc="The folder whose runs are shown, as the user wrote it.")
    failure = param.String(default="", doc="Error that currently stops the reader; empty if there is none.")
    failing = param.Dict(
        default={}, doc="Reason by path of the runs that cannot be read because of an unexpected error."
    )
    read_only = param.Boolean(default=False, constant=True, doc="Whether the viewer may write nothing.")
    notes_version = param.Integer(default=0, doc="Counter that rises whenever a tag or note is written.")
    overlays = param.List(default=[], item_type=OverlayRun, doc="The overlay runs.")
    hidden_runs = param.ClassSelector(
        class_=frozenset,
        default=frozenset(),
        doc="Keys of the runs whose curves are switched off; '' is the selected run.",
    )
    other_run = param.ClassSelector(
        class_=OverlayRun, allow_None=True, doc="The run whose responses to the same prompts are compared."
    )
    shaded_steps = param.ClassSelector(
        class_=MarkedSteps, allow_None=True, doc="Steps that all curves shade; None for none."
    )
    headline = param.String(default="", doc="Sentence in the line of findings, which stands above each page.")
    shaded_by_column = param.Dict(
        default={},
        doc="Column → steps that its curve shades while no finding is opened: its worst finding's.",
    )
    chain_marks = param.List(
        default=[], item_type=ChainMark, doc="Changes of the last chain that was found, first cause first."
    )
    revealed_column = param.String(
        default="", doc="Column whose card is scrolled into view when this is set."
    )
    sample_asked = param.Event(doc="Whether a click in the grid asked for a sample; it may be out of sight.")
    now = param.Number(default=0.0, doc="Current time, updated once a second, for ages.")
    end_in_sight = param.String(
        default="", doc="Uid of the sample whose response's end the tab Text shows; empty: its beginning."
    )
    first_uid = param.String(default="", doc="Uid of the grid's first row, shown while no sample is chosen.")
    #: Set by the grid, for other views of the same samples.
    filtered_uids = param.ClassSelector(
        class_=frozenset, allow_None=True, doc="Uids that pass the grid's filters; None without filters."
    )
    text_conditions = param.ClassSelector(
        class_=tuple, default=(), doc="The grid's conditions on texts (`TextPredicate`), set by the grid."
    )
    #: Returns the address of a medium for its key, set where a server of ours sends it; None elsewhere.
    media_address: Callable[[Hashable, PlayableMedium], str] | None = None
    #: Returns a code by which an agent may move the page, and ends it; None if this process serves no page.
    new_code: Callable[[], str] | None = None
    end_code: Callable[[], object] | None = None
    selection = param.ClassSelector(class_=Selection, default=Selection(), doc="What is selected.")
    waiting_values = param.Dict(
        default={},
        doc="Parameters of the selection that a link of another site asks for, until they are run.",
    )
    display = param.ClassSelector(class_=Display, default=Display(), doc="The display settings.")

    def __init__(
        self, threads: Threads | None = None, summaries: SummaryStore | None = None, **params: object
    ) -> None:
        self.threads = threads or Threads()
        self.summaries = summaries or SummaryStore()
        super().__init__(**{"selection": Selection(), "display": Display(), **params})
        self._notes: Notes | None = None
        self._parts: dict[Callable[[], None], None] | None = None
        self._page_before = ""
        self._sample_row = -1  # of the sample that is shown
        self.param.watch(self._follow_newest, ["view", "now"])
        self.param.watch(self._refresh_sample, "view")
        self.selection.param.watch(self._follow_newest, "follow")
        self.selection.param.watch(self._update_sample, ["uid"])
        self.selection.param.watch(self._leave_turn, ["step", "uid", "turn"])
        self.selection.param.watch(self._show_band, "band")
        self.display.param.watch(self._name_band, "band")
        (self._show_band if self.selection.band else self._name_band)()
        self.param.watch(self._update_sample, ["first_uid", "index"])

    def counted(self, view: RunView) -> RunView:
        """Return a view with the statistics that the display settings ask for."""
        return view.by_rows if self.display.count_rewards == "rows" else view

    # -- deferred drawing ------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The data of the newest version of the selected run."""
        return self.view.snapshot

    @contextmanager
    def collect_draws(self) -> Iterator[list[Callable[[], None]]]:
        """Collect the callbacks that views pass to `draw_later`, each once, for the caller to run later.

        The list is filled when the ``with`` block ends.
        """
        self._parts, parts = {}, list[Callable[[], None]]()
        try:
            yield parts
        finally:
            parts += self._parts
            self._parts = None

    def draw_later(self, draw: Callable[[], None]) -> None:
        """Call ``draw`` now, or leave it to the caller of `collect_draws`, who gives it a turn of its own."""
        if self._parts is None:
            draw()
        else:
            self._parts[draw] = None

    def reveal(self, column: str) -> None:
        """Scroll to the card of a column, also if that was the last one."""
        if column == self.revealed_column:
            self.param.trigger("revealed_column")
        self.revealed_column = column

    # -- steps -----------------------------------------------------------------------------------

    def choose_step(self, step: int | None) -> None:
        """Select a step; this ends following and clears the chosen sample."""
        if step is None:
            return
        self.selection.param.update(step=step, follow=False, uid="", token=-1)

    def choose_range(self, step: int | None, within: str) -> None:
        """Select a step and filter the grid by a range of values."""
        if step is not None:
            self.selection.param.update(
                step=step, filter=within, scope="step", follow=False, uid="", token=-1
            )

    def move_step(self, by: int) -> None:
        """Select the step ``by`` positions further on, whatever the spacing of the step numbers."""
        steps = self.snapshot.steps.values
        if len(steps):
            current = self.selection.step if self.selection.step is not None else steps[-1]
            position = int(np.searchsorted(steps, current))
            self.choose_step(int(steps[np.clip(position + by, 0, len(steps) - 1)]))

    def choose_split(self, split: str) -> None:
        """Show another split of the run, at its step nearest to the selected one, or at its newest."""
        steps, selection = self.snapshot.in_split(split).steps.values, self.selection
        if not len(steps) or split == self.snapshot.split:
            return
        step = None if selection.follow or selection.step is None else selection.step
        nearest = {"step": int(steps[np.abs(steps - step).argmin()])} if step is not None else {}
        beside = [name for name in selection.overlay_splits if name != split]
        selection.param.update(split=split, overlay_splits=beside, uid="", token=-1, **nearest)

    def nearest_step(self, x: float) -> int | None:
        """Return the step nearest to a position on the step axis; None while there are no steps."""
        steps = self.snapshot.steps.values
        return int(steps[np.abs(steps - x).argmin()]) if len(steps) else None

    def _follow_newest(self, *_: object) -> None:
        """Select the newest complete step while following."""
        if self.selection.follow:
            newest = newest_complete_step(self.snapshot, time.time())
            if newest is not None and newest != self.selection.step:
                self.selection.param.update(step=newest, uid="", token=-1)

    # -- the address -----------------------------------------------------------------------------

    @property
    def query(self) -> str:
        """The query string of the board's address, without default values."""
        return write_query({**self.display.param.values(), **self.selection.param.values()})

    @property
    def shared_query(self) -> str:
        """The query string that shows another reader the same, also while this board follows the run."""
        selection = self.selection.param.values()
        here = {"uid": self.sample.uid if self.sample is not None else "", "follow": False}
        return write_query({**self.display.param.values(), **selection, **here})

    def _leave_turn(self, *changes: param.parameterized.Event) -> None:
        """Forget the turn of a sample that is no longer shown."""
        if "turn" not in {change.name for change in changes}:
            self.selection.turn = None

    def _show_band(self, *_: object) -> None:
        """Let the curves show the band of the address, else the default."""
        self.display.band = self.selection.band or self.display.param["band"].default

    def _name_band(self, *_: object) -> None:
        """Let the address name the band, unless it is the default."""
        usual = self.display.param["band"].default
        self.selection.band = "" if self.display.band == usual else self.display.band

    # -- samples ---------------------------------------------------------------------------------

    def choose_sample(self, uid: str) -> None:
        """Select a sample and its step."""
        step = {}
        try:
            step["step"] = int(self.snapshot.metadata("step")[self.snapshot.row(uid)])
        except SampleNotFound:  # its file was rewritten: keep the step; `message` says why there is no sample
            pass
        self.selection.param.update(uid=uid, follow=False, token=-1, **step)

    def read_beside(self, uid: str, other: str) -> None:
        """Open a sample's conversation with another rollout of its group beside it, where the two part."""
        self.selection.param.update(
            uid=uid, follow=False, token=-1, turn=None, tab="conversation", pair=other
        )

    def toggle_sample(self) -> None:
        """Give the sample the whole page, or return to the page before."""
        selection = self.selection
        if selection.page == SAMPLE:
            selection.page = self._page_before
        else:
            self._page_before, selection.page = selection.page, SAMPLE

    @property
    def notes(self) -> Notes | None:
        """The run's tags and notes; None while no run is selected."""
        if self.index is None:
            return None
        if self._notes is None or self._notes.run != self.index.path:
            self._notes = Notes(self.index.path)
        return self._notes

    def _refresh_sample(self, *_: object) -> None:
        """Read the sample again if its line was, through another mapping or since its file was rewritten."""
        state, row = self.snapshot.state, self._sample_row
        if self.sample is not None and self.snapshot.version and (row >= len(state) or state[row] == DEAD):
            self.sample = None
            self._update_sample()

    def _update_sample(self, *_: object) -> None:
        """Read the chosen sample, or the grid's first one, unless it is shown already."""
        uid = self.selection.uid or self.first_uid
        if self.sample is not None and self.sample.uid == uid:
            return
        if self.index is None or not uid:
            self.sample = None
            return
        try:
            self._sample_row = _shared_row(self.view, uid)
            self.sample = shared_sample(self.index, self.view, uid)
            self.message = ""
        except RLPanelError as error:
            self.sample, self.message = None, str(error)


def _shared_row(view: RunView, uid: str) -> int:
    return cached_on(view, "row", uid, lambda: view.snapshot.row(uid))


def shared_sample(index: RunIndex, view: RunView, uid: str) -> Sample:
    """Return a sample as `fetch` does, cached on the view for all sessions."""
    row = _shared_row(view, uid)
    return cached_on(view, "sample", (index.path, row), lambda: fetch(index, view, row), most=2)


def watch_step(context: Context, draw: Callable[..., None]) -> None:
    """Call ``draw`` whenever another step is selected or the selected step gets new samples."""

    def on_view(event: param.parameterized.Event) -> None:
        new, old = event.new.snapshot, event.old.snapshot
        step = context.selection.step
        position = new.steps.position(step) if step is not None else -1
        same_run = old.name == new.name
        changed = position >= 0 and position in new.steps.changed_since(old.version)
        if not same_run or changed or new.counts_rows != old.counts_rows:
            context.draw_later(draw)

    context.param.watch(on_view, "view")
    context.selection.param.watch(lambda _: context.draw_later(draw), "step")
