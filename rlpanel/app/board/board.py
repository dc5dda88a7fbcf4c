"""Controller of one session: opens the run, applies its changes, and syncs the URL of the window."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

import panel as pn
import param

from rlpanel.app.board.opened_runs import OpenedRuns, most_useful, newest_first
from rlpanel.app.demo import Demo
from rlpanel.board_url import MAX_QUERY, RUNS_PAGE, LinkProblem, read_query
from rlpanel.display_settings import Display
from rlpanel.errors import RLPanelError
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.page_addresses import PageMedia
from rlpanel.panels.session.session import BrowserPace, Session
from rlpanel.panels.ui.assets import read_assets
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.settings import Watching
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

# -- browser window ------------------------------------------------------------------------------------
# Component for the browser's window: keyboard shortcuts, and the URL with Back and Forward.


#: Keyboard shortcuts and their meaning, as the help lists them.
KEYS = {
    "← →": marked("previous step, next step"),
    "j k": marked("next sample, previous sample; also ↓ ↑ in the table"),
    "[ ]": marked("colour the tokens by another metric"),
    "/": marked("search prompts and responses"),
    "f": marked("filter samples"),
    "m": marked("give the sample the whole page; Esc returns"),
    "?": marked("show or hide this list"),
    marked("in a conversation"): marked(
        "n hit, e error, r reward that is not 0, with Shift the one before; [ ] message, / find here"
    ),
    marked("in the token view"): marked("← → token, Shift ← → outlier, / search, Esc unselects the token"),
}


class BrowserWindow(Component):
    """Passes keys to ``on_key``, Back and Forward to ``on_navigate``; writes ``query`` to the URL.

    Panel's own location component ignores Back and Forward, and adds a history entry for every change
    (https://github.com/holoviz/panel/issues/7357).
    """

    query = param.String(default="", doc="Query string of the URL, with the question mark.")
    title = param.String(default="rlpanel", doc="Title of the window.")
    on_key = param.Callable(doc="Called with the key's name.", precedence=-1)
    on_navigate = param.Callable(doc="Called with the query string after Back or Forward.", precedence=-1)

    _esm = read_assets("panels/ui/dom.js", "app/board/browser_window.js")
    _rename = {"on_key": None, "on_navigate": None}

    def __init__(self, on_key: Callable[[str], None], **params: Any) -> None:
        super().__init__(on_key=on_key, width=0, height=0, margin=0, **params)

    def receive(self, message: Any) -> None:
        """Handle a key, or the URL after Back or Forward."""
        if isinstance(message, str):
            self.on_key(message)
        elif isinstance(message, dict) and isinstance(message.get("navigated"), str):
            try:
                self.on_navigate(message["navigated"])
            finally:
                self.send({"answer": self.query})


# -- board ---------------------------------------------------------------------------------------------
# Controller of one session: opens the selected run, applies changes of it, and syncs the URL.


#: Milliseconds for which a notification is shown: at least, and for each character. People read 15 a second.
_MIN_NOTICE, _PER_CHARACTER = 8000, 65
#: A root with more runs opens with the table of all of them.
MANY_RUNS = 10
#: Defaults of what the address holds.
_DEFAULTS = {
    name: owner.param[name].default
    for owner in (Display, Selection)
    for name in owner.param
    if name != "name"
}
#: Parameters that Back and Forward leave as they are if the URL does not contain them.
_KEPT = ("run", "metric", "dark")
#: Parameters that read logs or open runs, and those that belong to them.
_COSTLY = ("page", "search", "filter", "columns", "sort", "overlay_runs", "compared_run", "runs_filter")
_COMPANIONS = ("scope", "samples_here", "samples_there")


class Board:
    """Controller of a session for the runs below a root; `rlpanel.app.page.page` builds its page.

    Parameters
    ----------
    root : path or None
        The folder that holds runs; with None the page explains how to get started.
    read_only : bool
        Whether the viewer may write nothing: neither notes nor the files of a demo.
    runtime : Runtime, optional
        What the sessions of a server share; by default that of the process.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None,
        *,
        read_only: bool = False,
        runtime: Runtime | None = None,
    ) -> None:
        self._runtime = runtime or default_runtime()
        self._hub, self._reader = self._runtime.hub, self._runtime.reader
        self.context = Context(self._runtime.threads, self._runtime.summaries, read_only=read_only)
        self._root: Any = None
        self._session: Session | None = None
        self.pace: BrowserPace | None = None
        self._demo: Demo | None = None
        self._media = PageMedia(self._runtime.media)
        self._closed = False
        self.context.selection.param.watch(self._open_run, "run")
        self.context.selection.param.watch(self._open_useful, "page")
        self.context.selection.param.watch(self._show_split, "split")
        self.context.display.param.watch(self._count_otherwise, "count_rewards")
        self._overlays = OpenedRuns(self.context, self._reader, self._path_of, notify)
        if root is not None:
            self.open_root(root)

    # -- runs ------------------------------------------------------------------------------------

    def open_root(self, root: str | os.PathLike[str]) -> None:
        """Watch a root and list the runs below it."""
        self.context.root = str(root)
        self._root = self._reader.watch_root(root)
        if self._root.runs is None:
            self._root.refresh()
        self._refresh_runs()
        self._check_runs()

    def _check_runs(self) -> None:
        """Let the runs that nobody opened be checked while a page is open."""
        if self._session is not None and self._root is not None and Watching.from_environment().check:
            self._runtime.checks.watch(self._root)

    def open_with(self, folder: AnyPath, keys: Mapping[str, str | int]) -> None:
        """Read the files below a folder through a mapping, on all pages of the server until it ends.

        Raises
        ------
        SettingError
            If the mapping is not valid.
        """
        if not self.context.read_only:
            self._reader.open_with(folder, keys)

    def open_demo(self, *_: Any) -> None:
        """Start the recorded demo and show its root instead of the current one."""
        if self.context.read_only:
            return
        self._demo = self._demo or Demo()
        self.context.runs = []
        self.context.selection.run = ""
        self.open_root(self._demo.root)

    def _refresh_runs(self) -> None:
        """Update the list of runs, and open the most useful one while none is selected."""
        if self._root is None:
            return
        context = self.context
        context.root_diagnosis = self._root.survey
        context.left_out = list(self._root.left_out)
        now, listed = time.time(), [run.name for run in context.runs]
        runs = newest_first(self._root.runs or [], listed, now)
        context.infos = {run.name: run for run in runs}
        if [run.name for run in runs] != listed:
            context.runs = runs
        if not context.selection.run and not context.selection.page and len(runs) > MANY_RUNS:
            context.selection.page = RUNS_PAGE  # nobody knows which of many runs to open
        self._open_useful()

    def _open_useful(self, *_: Any) -> None:
        """Open the most useful run while none is selected, unless all are shown."""
        context = self.context
        if context.selection.run or context.selection.page == RUNS_PAGE:
            return
        useful = most_useful(context.runs, context.summaries, time.time())
        if useful is not None:
            context.selection.run = useful.name

    def _open_run(self, *_: Any) -> None:
        context, service = self.context, self._reader
        before, context.message = context.index, ""
        try:
            path = self._path_of(context.selection.run)
        except RLPanelError as error:
            self._report_missing_run(str(error))
            return
        index = service.open(path, context.selection.run) if path else None
        self._media.clear()
        if index is not before:  # a missing run may be replaced by the run that is shown
            with pn.io.hold():
                # Reset the sample in the same update: both runs may have a sample with the same uid.
                self._set_view(
                    index.view if index else RunView(Snapshot("")), index=index, first_uid="", sample=None
                )
        if before is not None:
            service.close(before)
        self._note_reading()

    def _note_reading(self) -> None:
        """Let the page count as settled only once its run was read, unless that fails."""
        index, reader = self.context.index, self._reader
        if self._session is not None:
            is_read = (
                index is None or index.snapshot.version or index.path in reader.failing or reader.failure
            )
            busy = self._session.loop.busy
            (busy.discard if is_read else busy.add)(self)

    def _show_split(self, *_: Any) -> None:
        """Show the selected split; a change resets the views as a change of the run does."""
        context, index = self.context, self.context.index
        if index is None:
            return
        same = index.snapshot.in_split(context.selection.split).split == context.snapshot.split
        reset: dict[str, Any] = {} if same else {"first_uid": "", "sample": None}
        with pn.io.hold():
            self._set_view(index.view, **reset)

    def _count_otherwise(self, *_: Any) -> None:
        """Show the statistics that count episodes or rows, of the run and of those beside it."""
        with pn.io.hold():
            if self.context.index is not None:
                self._set_view(self.context.index.view)
            self._overlays.show()

    def _path_of(self, run: str) -> AnyPath | None:
        return self._root.directory.run_path(run) if self._root else None

    def _report_missing_run(self, message: str) -> None:
        """Report that the linked run does not exist, and select the most useful run."""
        context = self.context
        context.message = message
        notify(message)
        useful = most_useful(context.runs, context.summaries, time.time())
        if useful is not None and context.selection.run not in {run.name for run in context.runs}:
            context.selection.run = useful.name

    # -- changes ---------------------------------------------------------------------------------

    def connect(self, loop: SessionLoop) -> None:
        """Subscribe to changes, from when the page is loaded until its session ends.

        Changes sent between the browser's download of the document and its first drawing would be lost:
        `panel.io.hold` takes them for part of the document.
        """
        self.pace = BrowserPace() if loop.is_served else None
        self._session = Session(loop, self._on_change, self._follows, every=1.0, pace=self.pace)
        if loop.is_served:
            if self._runtime.media.served:
                self.context.media_address = self._media.address
                codes = self._runtime.codes
                self.context.new_code = partial(codes.give, self, self._show_view)
                self.context.end_code = partial(codes.end, self)
            loop.on_gone(self.close)
            # Panel may call it on a thread without the document's lock.
            pn.state.onload(lambda: loop.call_soon(self._start_updates))
        else:
            self._start_updates()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run a callback on the session's event loop; without one, at once. Thread-safe."""
        if self._session is not None:
            self._session.loop.call_soon(callback)
        else:
            callback()

    def close(self) -> None:
        """Close the runs and unsubscribe from changes; a second call does nothing.

        The views are not updated, because the document's lock is no longer held when a session ends.
        """
        if self._closed:
            return
        self._closed = True
        self._media.close()
        self._runtime.codes.end(self)
        if self._session is not None:
            self._hub.leave(self._session)
        if self.context.index is not None:
            self._reader.close(self.context.index)
        self._overlays.close()
        if self._demo is not None:
            self._demo.close()

    def _follows(self, index: RunIndex) -> bool:
        return index is self.context.index or self._overlays.contains(index)

    def _start_updates(self) -> None:
        if self._session is not None and not self._session.closed:
            self._hub.join(self._session)
            self.apply_changes({None, self.context.index})
            self._overlays.show()
            self._session.redraw()
            self._check_runs()

    def _on_change(self, changed: set[RunIndex | None]) -> list[Callable[[], None]]:
        """Apply changes and return the remaining draw callbacks.

        The session gives them several turns if all at once would block the event loop for too long.
        """
        with self.context.collect_draws() as parts:
            self.apply_changes(changed)
        return parts

    def apply_changes(self, changed: set[RunIndex | None]) -> None:
        """Show what the reader found in these runs; None stands for the list of runs."""
        reader = self._reader
        clock = {"now": time.time(), "failure": reader.failure, "failing": reader.failing}
        with pn.io.hold():
            if None in changed:
                self._refresh_runs()
            index = self.context.index
            if index is not None and index in changed:
                view = self._hub.view(index)
                self._set_view(view, **clock)
                if view is not index.view and self._session is not None:
                    self._session.notify(index)
            else:
                self.context.param.update(**clock)
            self._overlays.on_change(changed)
        self._note_reading()

    def _set_view(self, whole: RunView, **updates: Any) -> None:
        context = self.context
        view = context.counted(whole.in_split(context.selection.split))
        split, part = context.selection.split, view.snapshot
        split_changed = part.split != context.snapshot.split and "index" not in updates
        context.param.update(view=view, **updates)
        if split_changed:
            context.param.trigger("index")  # views reset themselves as for another run
        if split and split != part.split and part.version and part.progress.caught_up:
            notify(tr("split {split} is not in this run; {shown} is shown", split=split, shown=part.split))
            context.selection.split = ""
        self._correct_step()

    def _correct_step(self) -> None:
        """Select the nearest step if the run, once it is read, does not have the selected one."""
        context, snapshot = self.context, self.context.snapshot
        selected, steps = context.selection.step, snapshot.steps
        if selected is None or not len(steps.values) or not snapshot.progress.caught_up:
            return
        if steps.position(selected) < 0:
            nearest = context.nearest_step(float(selected))
            notify(
                tr(
                    "step {selected} is not in this run; step {nearest} is the nearest",
                    selected=selected,
                    nearest=nearest,
                )
            )
            context.selection.step = nearest

    # -- URL -------------------------------------------------------------------------------------

    def read_url(self, query: str, *, foreign: bool = False) -> None:
        """Set the selection from the query string of the page's URL.

        Parameters
        ----------
        query : str
        foreign : bool
            Whether another site led to the URL: what costs much then waits in `Context.waiting_values`.
        """
        asks = {name for name in read_query(query)[0] if name != "dark"}
        landed = self.context.selection.page == RUNS_PAGE and asks
        self._apply(query, {"page": ""} if landed else {}, foreign=foreign)

    def bind_window(self, window: BrowserWindow) -> None:
        """Keep the selection and the URL of the browser's window in sync, in both directions."""

        def write(*_: Any) -> None:
            window.query = self.context.query

        def read(query: str) -> None:
            if query != self.context.query:
                self._apply(query, {name: value for name, value in _DEFAULTS.items() if name not in _KEPT})

        write()
        for owner in (self.context.selection, self.context.display):
            owner.param.watch(write, [name for name in owner.param if name != "name"])
        window.on_navigate = read

    def _show_view(self, values: Mapping[str, Any]) -> None:
        """Show what an agent chose whom the viewer gave the page's code. Thread-safe."""
        self.call_soon(partial(self._take_view, dict(values)))

    def _take_view(self, values: dict[str, Any]) -> None:
        selection = self.context.selection
        kept = {name: value for name, value in _DEFAULTS.items() if name in selection.param}
        defaults = {name: value for name, value in kept.items() if name not in _KEPT}
        self._set_values({"run": selection.run, **defaults, **values})
        notify(tr("An agent moved this page, by the code that you gave it"))

    def _apply(self, query: str, defaults: dict[str, Any], *, foreign: bool = False) -> None:
        values, problems = read_query(query)
        selection = self.context.selection
        waits = foreign and not values.keys().isdisjoint(_COSTLY)
        held = {name: values.pop(name) for name in (*_COSTLY, *_COMPANIONS) if waits and name in values}
        # The run first, since watchers are called in this order: no view draws the new step of the old run.
        self._set_values({"run": selection.run, **defaults, **values})
        self.context.waiting_values = held
        if problems:
            # Show one notification: Bokeh fails when several notifications are closed one after another.
            notify("; ".join(map(problem_text, problems)))

    def _set_values(self, changes: Mapping[str, Any]) -> None:
        """Set parameters of the selection and the display settings, in this order."""
        selection, display = self.context.selection, self.context.display
        selection.param.update(**{name: changes[name] for name in changes if name in selection.param})
        settings = changes.keys() - {*selection.param}
        display.param.update(**{name: changes[name] for name in settings})
        self._correct_step()


def problem_text(problem: LinkProblem) -> str:
    """Return the message about a part of a link that was ignored."""
    if not problem.key:
        return tr("the link is longer than {limit:,} characters and was ignored", limit=MAX_QUERY)
    return tr("{key}={text} in the link is not valid and was ignored", key=problem.key, text=problem.text)


def notify(message: str) -> None:
    """Show a warning notification, as soon as the page is loaded."""
    notifications = pn.state.notifications
    if notifications is not None:
        # The notification is shown as HTML, and messages quote names of files and of the URL.
        # Quotes stay as they are: screen readers read the message as it is sent.
        text = escape(message, quote=False)
        duration = max(_MIN_NOTICE, _PER_CHARACTER * len(text))
        pn.state.onload(lambda: notifications.warning(text, duration=duration))
