"""The board of one session: which run it follows, what it selects, and when it hears of changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn

from rlpanel.app.board.browser_window import Window
from rlpanel.app.board.overlay_runs import OverlayRuns
from rlpanel.app.board.url_state import read_query, write_query
from rlpanel.app.demo import Demo
from rlpanel.app.session_hub import hub
from rlpanel.errors import RLPanelError
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.session import Session
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.prompt_pairs import NEWEST
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: What the URL sets back when it says nothing of it.
_UNSAID: dict[str, Any] = {"split": "", "step": None, "uid": "", "token": -1, "follow": True, "search": ""}
_UNSAID |= {"curves": [], "filter": "", "scope": "step", "sort": ""}
_UNSAID |= {"over": [], "beside": [], "align": "step", "smooth": 0.0}
_UNSAID |= {"against": "", "here_at": NEWEST, "there_at": NEWEST}


class Board:
    """A session's board over the runs below a root; `rlpanel.app.board.page` gives it a face.

    Parameters
    ----------
    root : path or None
        The folder that holds runs; None shows how to begin.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self.context = Context()
        self._watched: Any = None
        self._session: Session | None = None
        self._demo: Demo | None = None
        self._closed = False
        self.context.selection.param.watch(self._open_run, "run")
        self.context.selection.param.watch(self._show_split, "split")
        self._others = OverlayRuns(self.context, self._path_of, notify)
        if root is not None:
            self.open_root(root)

    # -- runs ------------------------------------------------------------------------------------

    def open_root(self, root: str | os.PathLike[str]) -> None:
        """Follow the runs below ``root``."""
        self.context.root = str(root)
        self._watched = hub().reader.watch_root(root)
        if self._watched.runs is None:
            self._watched.refresh()
        self._refresh_runs()

    def open_demo(self, *_: Any) -> None:
        """Follow the recorded demo instead."""
        self._demo = self._demo or Demo()
        self.context.runs = []
        self.context.selection.run = ""
        self.open_root(self._demo.root)

    def _refresh_runs(self) -> None:
        """Bring the list of runs up to date; a run keeps its place while it grows, new ones come on top."""
        if self._watched is None:
            return
        context = self.context
        context.survey = self._watched.survey
        context.left_out = list(self._watched.left_out)
        found = {run.name: run for run in self._watched.runs or []}
        stay = [found.pop(run.name) for run in context.runs if run.name in found]
        runs = [*found.values(), *stay]
        if [run.name for run in runs] != [run.name for run in context.runs]:
            context.runs = runs
        if not context.selection.run and runs:
            context.selection.run = runs[0].name

    def _open_run(self, *_: Any) -> None:
        context, service = self.context, hub().reader
        before, context.message = context.index, ""
        try:
            path = self._path_of(context.selection.run)
        except RLPanelError as error:
            self._gone(str(error))
            return
        index = service.open(path, context.selection.run) if path else None
        with pn.io.hold():
            # At once, so that no view asks one run for a sample of the other; both may have one of its name.
            self._take(index.view if index else RunView(Snapshot("")), index=index, first="", sample=None)
        if before is not None:
            service.close(before)

    def _show_split(self, *_: Any) -> None:
        """Another split is as another run: `_take` lets begin anew who does so there."""
        context, index = self.context, self.context.index
        if index is None:
            return
        same = index.snapshot.in_split(context.selection.split).split == context.snapshot.split
        anew: dict[str, Any] = {} if same else {"first": "", "sample": None}
        with pn.io.hold():
            self._take(index.view, **anew)

    def _path_of(self, run: str) -> AnyPath | None:
        return self._watched.directory.run_path(run) if self._watched else None

    def _gone(self, message: str) -> None:
        """A link to a run that is not there: say so and show the newest."""
        context = self.context
        context.message = message
        notify(message)
        names = [run.name for run in context.runs]
        if names and context.selection.run not in names:
            context.selection.run = names[0]

    # -- changes ---------------------------------------------------------------------------------

    def connect(self, place: SessionLoop) -> None:
        """Hear of changes from when the page stands until its session ends.

        Not before: what is sent between the browser's pull of the document and its first drawing is
        dropped on the way (`panel.io.hold` takes it for part of the document).
        """
        self._session = Session(place, self._hear, self._looks_at, every=1.0)
        if place.is_served:
            place.on_gone(self.close)
            pn.state.onload(self._begin)
        else:
            self._begin()

    def close(self) -> None:
        """Let go of the run and of the hub; a second call does nothing.

        The views are left as they are: the document's lock is not held any more when a session ends.
        """
        if self._closed:
            return
        self._closed = True
        if self._session is not None:
            hub().leave(self._session)
        if self.context.index is not None:
            hub().reader.close(self.context.index)
        self._others.close()
        if self._demo is not None:
            self._demo.close()

    def _looks_at(self, index: RunIndex) -> bool:
        return index is self.context.index or self._others.looks_at(index)

    def _begin(self) -> None:
        if self._session is not None and not self._session.closed:
            hub().join(self._session)
            self._changed({None, self.context.index})
            self._others.show()
            self._session.redraw()

    def _hear(self, changed: set[RunIndex | None]) -> list[Callable[[], object]]:
        """Take news in, and give what is left to draw: all at once would hold the event loop for too long."""
        with self.context.in_parts() as parts:
            self._changed(changed)
        return [partial(_held, part) for part in parts]

    def _changed(self, changed: set[RunIndex | None]) -> None:
        clock = {"now": time.time(), "failure": hub().reader.failure}
        with pn.io.hold():
            if None in changed:
                self._refresh_runs()
            index = self.context.index
            if index is not None and index in changed:
                view = hub().view(index)
                self._take(view, **clock)
                if view is not index.view and self._session is not None:
                    self._session.notify(index)
            else:
                self.context.param.update(**clock)
            self._others.changed(changed)

    def _take(self, whole: RunView, **also: Any) -> None:
        context = self.context
        view = whole.in_split(context.selection.split)
        split, shown = context.selection.split, view.snapshot
        anew = shown.split != context.snapshot.split and "index" not in also
        context.param.update(view=view, **also)
        if anew:
            context.param.trigger("index")
        if split and split != shown.split and shown.version and shown.progress.caught_up:
            notify(f"split {split} is not in this run; {shown.split} is shown")
            context.selection.split = ""
        wanted, steps = context.selection.step, shown.steps
        if wanted is None or not len(steps.values) or not shown.progress.caught_up:
            return
        if steps.position(wanted) < 0:
            nearest = context.nearest_step(float(wanted))
            notify(f"step {wanted} is not in this run; step {nearest} is the nearest")
            context.selection.step = nearest

    # -- URL -------------------------------------------------------------------------------------

    def read_address(self, query: str) -> None:
        """Take the selection from the address that the page was asked for."""
        self._apply(query, {})

    def bind_window(self, window: Window) -> None:
        """Keep the address at the selection, and the selection at the address."""

        def write(*_: Any) -> None:
            window.query = write_query(self.context.selection)

        def read(event: Any) -> None:
            if event.new != write_query(self.context.selection):
                self._apply(event.new, _UNSAID)  # Back or Forward

        write()
        names = [name for name in self.context.selection.param if name != "name"]
        self.context.selection.param.watch(write, names)
        window.param.watch(read, "query")

    def _apply(self, query: str, unsaid: dict[str, Any]) -> None:
        values, problems = read_query(query)
        self.context.selection.param.update(**{**unsaid, **values})
        if problems:
            # In one: bokeh stumbles over the second of several that are closed one after another.
            notify("; ".join(problems))


def _held(draw: Callable[[], object]) -> None:
    """Draw, and send what changed in one message."""
    with pn.io.hold():
        draw()


def notify(message: str) -> None:
    """Say something on the screen, once the page stands."""
    notifications = pn.state.notifications
    if notifications is not None:
        pn.state.onload(lambda: notifications.warning(message, duration=8000))
