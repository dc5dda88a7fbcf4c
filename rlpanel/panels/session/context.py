"""What views look at: one snapshot, one selection, one set of display settings.

A session owns a `Context`; views watch its parameters and never each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import param

from rlpanel.errors import RLPanelError, SampleNotFound
from rlpanel.panels.plots.alignment import ALIGNMENTS, STEP
from rlpanel.panels.plots.smoothing import MOST as MOST_SMOOTH
from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.session.overlay_run import OverlayRun
from rlpanel.schema import Sample
from rlpanel.settings import DARK_DEFAULT, Display
from rlpanel.sources.discovery.diagnose import Diagnosis
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.unread import Unread
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch
from rlpanel.store.query.notes import Notes
from rlpanel.store.snapshot.complete_steps import newest_complete
from rlpanel.store.snapshot.prompt_pairs import NEWEST
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


class Selection(param.Parameterized):
    """What is selected; it is the URL, and the URL is it."""

    run = param.String(default="", doc="Name of the run below the root.")
    split = param.String(
        default="", doc="Whose samples are shown; empty: training, or what there is most of."
    )
    step = param.Integer(default=None, allow_None=True, doc="Selected step; None before there is one.")
    follow = param.Boolean(default=True, doc="Whether the step rides on the newest complete one.")
    uid = param.String(default="", doc="Sample chosen by the viewer; empty shows the grid's first.")
    token = param.Integer(default=-1, doc="Pinned token of the sample; -1 for none.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    curves = param.List(default=[], item_type=str, doc="Sample columns drawn as curves; empty: defaults.")
    search = param.String(default="", doc="Text sought in prompts and responses; /like this/ an expression.")
    filter = param.String(default="", doc="Filter expression over the sample columns.")
    scope = param.Selector(
        default="step", objects=["step", "run"], doc="Whether the grid asks the step or all steps."
    )
    sort = param.String(default="", doc="Number column that sorts the grid; with - from the largest down.")
    over = param.List(default=[], item_type=str, doc="Names of runs whose curves lie over the run's.")
    beside = param.List(default=[], item_type=str, doc="Splits of the run whose curves lie over the shown.")
    align = param.Selector(
        default=STEP, objects=ALIGNMENTS, label="Align by", doc="What stands on the curves' axis."
    )
    smooth = param.Number(
        default=0.0,
        bounds=(0.0, MOST_SMOOTH),
        step=0.01,
        label="Smoothing",
        doc="Weight of an exponential moving average over the steps; the raw line stays behind it.",
    )
    against = param.String(default="", doc="Name of the run that prompts are compared with.")
    here_at = param.String(default=NEWEST, doc="Which of the run's samples are compared; or a step's number.")
    there_at = param.String(default=NEWEST, doc="Which samples of the run that it is compared with.")
    dark = param.Boolean(default=DARK_DEFAULT, doc="Dark or light.")


class Context(param.Parameterized):
    """All that a session's views share."""

    runs = param.List(default=[], item_type=RunInfo, doc="Runs below the root, newest first.")
    survey = param.ClassSelector(class_=Diagnosis, allow_None=True, doc="What is there instead of runs.")
    left_out = param.List(
        default=[], item_type=Unread, doc="Links that are not followed, and folders that cannot be listed."
    )
    index = param.ClassSelector(class_=RunIndex, allow_None=True, doc="The selected run's index.")
    view = param.ClassSelector(
        class_=RunView,
        default=RunView(Snapshot("")),
        instantiate=False,
        doc="Newest version of the selected run, and what is computed from it.",
    )
    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="The sample that is shown.")
    message = param.String(default="", doc="What went wrong with the last wish, in words.")
    root = param.String(default="", doc="The folder whose runs are shown, as it was given.")
    failure = param.String(default="", doc="What keeps the reader from reading just now; empty if nothing.")
    noted = param.Integer(default=0, doc="Counts the tags and notes that were left.")
    others = param.List(default=[], item_type=OverlayRun, doc="The runs that lie over the selected one.")
    muted = param.ClassSelector(
        class_=frozenset,
        default=frozenset(),
        doc="Runs whose curves are switched off; '' is the selected one.",
    )
    against = param.ClassSelector(
        class_=OverlayRun, allow_None=True, doc="The run that prompts are compared with."
    )
    now = param.Number(default=0.0, doc="The clock, once a second, for ages.")
    #: uid of the grid's first row, shown while the viewer has chosen none
    first = param.String(default="", doc="Sample shown while none is chosen.")
    #: set by the grid; other views may look at the same samples
    passing = param.ClassSelector(
        class_=frozenset, allow_None=True, doc="Uids that pass the grid's search and filters; None: no such."
    )
    tab = param.String(default="tokens", doc="Key of the open tab of the sample panel.")
    selection = param.ClassSelector(class_=Selection, default=Selection(), doc="What is selected.")
    display = param.ClassSelector(class_=Display, default=Display(), doc="How it is shown.")

    def __init__(self, **params: object) -> None:
        super().__init__(**{"selection": Selection(), "display": Display(), **params})
        self._notes: Notes | None = None
        self._parts: dict[Callable[[], object], None] | None = None
        self.param.watch(self._ride, ["view", "now"])
        self.selection.param.watch(self._ride, "follow")
        self.selection.param.watch(self._show, ["uid"])
        self.param.watch(self._show, ["first", "index"])

    @property
    def snapshot(self) -> Snapshot:
        """The data of the newest version of the selected run."""
        return self.view.snapshot

    # -- in parts --------------------------------------------------------------------------------

    @contextmanager
    def in_parts(self) -> Iterator[list[Callable[[], object]]]:
        """Leave to the caller, in the list, what views ask to draw `afterwards`; each once."""
        self._parts, parts = {}, list[Callable[[], object]]()
        try:
            yield parts
        finally:
            parts += self._parts
            self._parts = None

    def afterwards(self, draw: Callable[[], object]) -> None:
        """Draw in a turn of the event loop of its own, where news are taken in parts; else now."""
        if self._parts is None:
            draw()
        else:
            self._parts[draw] = None

    # -- steps -----------------------------------------------------------------------------------

    def choose_step(self, step: int | None) -> None:
        """The viewer chose a step: following ends, and the sample chosen before is let go."""
        if step is None:
            return
        self.selection.param.update(step=step, follow=False, uid="", token=-1)

    def choose_range(self, step: int | None, within: str) -> None:
        """The viewer chose values of a step: the grid is filtered by that range."""
        if step is not None:
            self.selection.param.update(
                step=step, filter=within, scope="step", follow=False, uid="", token=-1
            )

    def move_step(self, by: int) -> None:
        """To the step ``by`` places further on, whatever their spacing."""
        steps = self.snapshot.steps.values
        if len(steps):
            here = self.selection.step if self.selection.step is not None else steps[-1]
            at = int(np.searchsorted(steps, here))
            self.choose_step(int(steps[np.clip(at + by, 0, len(steps) - 1)]))

    def choose_split(self, split: str) -> None:
        """The viewer chose another split of the run: its nearest step is shown, or its newest."""
        steps, selection = self.snapshot.in_split(split).steps.values, self.selection
        if not len(steps) or split == self.snapshot.split:
            return
        step = None if selection.follow or selection.step is None else selection.step
        where = {"step": int(steps[np.abs(steps - step).argmin()])} if step is not None else {}
        beside = [name for name in selection.beside if name != split]
        selection.param.update(split=split, beside=beside, uid="", token=-1, **where)

    def nearest_step(self, x: float) -> int | None:
        """The step nearest to a place on the axis."""
        steps = self.snapshot.steps.values
        return int(steps[np.abs(steps - x).argmin()]) if len(steps) else None

    def _ride(self, *_: object) -> None:
        if self.selection.follow:
            newest = newest_complete(self.snapshot, time.time())
            if newest is not None and newest != self.selection.step:
                self.selection.param.update(step=newest, uid="", token=-1)

    # -- samples ---------------------------------------------------------------------------------

    def choose_sample(self, uid: str) -> None:
        """The viewer chose a sample; its step is shown with it."""
        where = {}
        try:
            where["step"] = int(self.snapshot.place("step")[self.snapshot.row(uid)])
        except SampleNotFound:  # its file was written anew; the step stays, and the sample's place says why
            pass
        self.selection.param.update(uid=uid, follow=False, token=-1, **where)

    @property
    def notes(self) -> Notes | None:
        """The run's tags and notes; None while there is no run."""
        if self.index is None:
            return None
        if self._notes is None or self._notes.run != self.index.path:
            self._notes = Notes(self.index.path)
        return self._notes

    def _show(self, *_: object) -> None:
        uid = self.selection.uid or self.first
        if self.sample is not None and self.sample.uid == uid:
            return
        if self.index is None or not uid:
            self.sample = None
            return
        try:
            self.sample = shared_sample(self.index, self.view, uid)
            self.message = ""
        except RLPanelError as error:
            self.sample, self.message = None, str(error)


def shared_sample(index: RunIndex, view: RunView, uid: str) -> Sample:
    """A sample as `fetch` gives it, read once for all sessions that look at it."""
    row = cached_on(view, "row", uid, lambda: view.snapshot.row(uid))
    return cached_on(view, "sample", (index.path, row), lambda: fetch(index, view, row), most=2)


def watch_step(context: Context, draw: Callable[..., None]) -> None:
    """Draw again when another step is shown, or when the shown step itself got new samples."""

    def on_view(event: param.parameterized.Event) -> None:
        step, new, old = context.selection.step, event.new.snapshot, event.old.snapshot
        at = new.steps.position(step) if step is not None else -1
        same_run = old.name == new.name
        if not same_run or (at >= 0 and at in new.steps.changed_since(old.version)):
            context.afterwards(draw)

    context.param.watch(on_view, "view")
    context.selection.param.watch(lambda _: context.afterwards(draw), "step")
