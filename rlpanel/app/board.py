"""The board: one page that holds every view, and the session behind it."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import holoviews as hv
import panel as pn
import panel_material_ui as pmui

from rlpanel.app.demo import Demo
from rlpanel.app.hub import Session, hub
from rlpanel.app.keyboard import Keyboard
from rlpanel.app.state import read_query, write_query
from rlpanel.errors import RLPanelError
from rlpanel.store.index import RunIndex
from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.controls import Controls, caption
from rlpanel.views.curves import Curves
from rlpanel.views.distributions import Distribution, Gap, Numbers
from rlpanel.views.runs import Badge, RunList, Stage
from rlpanel.views.sample import SampleDetail
from rlpanel.views.samples import Samples
from rlpanel.views.stepbar import StepBar

log = logging.getLogger(__name__)

DEFAULT_ROOT = "rollout_samples"


class Board:
    """A session's board over the runs below a root.

    Parameters
    ----------
    root : path or None
        The folder that holds runs; None shows how to begin.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self.context = Context()
        self.root: Path | None = None
        self._watched: Any = None
        self._session: Session | None = None
        self._demo: Demo | None = None
        self.stage = Stage(self.context, self._start_demo, str(root or ""))
        self.curves = Curves(self.context)
        self.samples = Samples(self.context)
        self.detail = SampleDetail(self.context)
        self.main = self._lay_out()
        self.context.selection.param.watch(self._open_run, "run")
        if root is not None:
            self.open_root(root)

    # -- data ------------------------------------------------------------------------------------

    def open_root(self, root: str | os.PathLike[str]) -> None:
        """Follow the runs below ``root``."""
        self.root = Path(root).resolve()
        self.stage.root = str(root)
        self._watched = hub().reader.watch_root(self.root)
        if self._watched.runs is None:
            self._watched.refresh()
        self._refresh_runs()

    def connect(self, document: Any) -> None:
        """Hear of changes until the document's session ends."""
        self._session = Session(document, self._changed)
        hub().join(self._session)
        document.on_session_destroyed(lambda _: self.close())

    def close(self) -> None:
        """Let go of the run and of the hub."""
        if self._session is not None:
            hub().leave(self._session)
        if self.context.index is not None:
            hub().reader.close(self.context.index)
            self.context.index = None
        if self._demo is not None:
            self._demo.close()

    def tick(self) -> None:
        """Once a second: ages, and the settling of the newest step."""
        self.context.now = time.time()

    def _changed(self, changed: set[RunIndex | None]) -> None:
        with pn.io.hold():
            if None in changed:
                self._refresh_runs()
            index = self.context.index
            if index is not None and index in changed:
                self._take(index.snapshot)

    def _refresh_runs(self) -> None:
        if self._watched is None:
            return
        runs = list(self._watched.runs or [])
        if [run.name for run in runs] != [run.name for run in self.context.runs]:
            known = {run.name: run for run in runs}
            # A run keeps its place in the list while it grows; new ones come on top.
            stay = [known[run.name] for run in self.context.runs if run.name in known]
            new = [run for run in runs if run.name not in {old.name for old in stay}]
            self.context.runs = [*new, *stay]
        if not self.context.selection.run and runs:
            self.context.selection.run = runs[0].name

    def _open_run(self, *_: Any) -> None:
        context, service = self.context, hub().reader
        before = context.index
        context.message = ""
        try:
            path = self._watched.directory.run_path(context.selection.run) if self._watched else None
        except RLPanelError as error:
            self._gone(str(error))
            return
        with pn.io.hold():
            context.index = service.open(path, context.selection.run) if path else None
            self._take(context.index.snapshot if context.index else Snapshot(""))
        if before is not None:
            service.close(before)

    def _gone(self, message: str) -> None:
        """A link to a run that is not there: say so and show the newest."""
        names = [run.name for run in self.context.runs]
        self.context.message = message
        _notify(message)
        if names and self.context.selection.run not in names:
            self.context.selection.run = names[0]

    def _take(self, snapshot: Snapshot) -> None:
        self.context.snapshot = snapshot
        selection = self.context.selection
        steps = snapshot.steps.values
        if len(steps) and selection.step is not None and snapshot.steps.position(selection.step) < 0:
            if snapshot.progress.caught_up:
                nearest = self.context.nearest_step(selection.step)
                _notify(f"step {selection.step} is not in this run; step {nearest} is the nearest")
                selection.step = nearest
        self.main.visible = not self.stage.needed
        self._stage_box.visible = self.stage.needed

    def _start_demo(self, _: Any) -> None:
        self._demo = self._demo or Demo()
        self.context.selection.run = ""
        self.context.runs = []
        self.open_root(self._demo.root)

    # -- page ------------------------------------------------------------------------------------

    def _lay_out(self) -> pn.Column:
        context = self.context
        left = pn.Column(
            pn.FlexBox(Distribution(context), Gap(context), gap="10px", sizing_mode="stretch_width"),
            pn.Column(Numbers(context), styles=theme.CARD, sizing_mode="stretch_width", margin=0),
            self.samples,
            styles={"gap": "10px", "flex": "1 1 440px", "min-width": "420px", "max-width": "100%"},
            sizing_mode="stretch_height", margin=0,
        )  # fmt: skip
        right = pn.Column(
            self.detail, styles={"flex": "1.3 1 520px", "min-width": "420px"}, sizing_mode="stretch_height", margin=0
        )
        lower = pn.FlexBox(
            left, right, gap="10px", flex_wrap="wrap", align_items="stretch", sizing_mode="stretch_both",
            styles={"flex": "1 1 auto", "min-height": "560px"}, css_classes=["rl-lower"],
        )  # fmt: skip
        self._stage_box = pn.Column(self.stage, sizing_mode="stretch_width", visible=True)
        return pn.Column(
            self.curves, StepBar(context), lower, sizing_mode="stretch_both", margin=0, visible=False,
            styles={"gap": "10px", "padding": "12px", "box-sizing": "border-box"}, css_classes=["rl-board"],
        )  # fmt: skip

    def page(self) -> pmui.Page:
        """The page for a browser."""
        selection = self.context.selection
        keyboard = Keyboard(on_key=self._key)
        page = pmui.Page(
            title="", dark_theme=selection.dark, theme_config=theme.theme_config(), sidebar_width=228,
            busy_indicator=None, meta_title="rlpanel", stylesheets=[theme.VARIABLES, _PAGE_CSS], sx=_PAGE_SX,
            header=[_logo(), Badge(self.context)],
            sidebar=[caption("Runs"), RunList(self.context), Controls(self.context), keyboard],
            main=[self._stage_box, self.main],
        )  # fmt: skip
        page.param.watch(lambda event: setattr(selection, "dark", event.new), "dark_theme")
        selection.param.watch(lambda event: setattr(page, "dark_theme", event.new), "dark")
        return page

    def _key(self, key: str) -> None:
        moves = {
            "ArrowLeft": lambda: self.context.move_step(-1),
            "ArrowRight": lambda: self.context.move_step(1),
            "j": lambda: self.samples.move(1),
            "k": lambda: self.samples.move(-1),
        }
        if key in moves:
            moves[key]()

    # -- URL -------------------------------------------------------------------------------------

    def bind_location(self, location: Any) -> None:
        """Take the selection from the URL, and keep the URL at the selection."""
        values, problems = read_query(location.search or "")
        self.context.selection.param.update(**values)
        for problem in problems:
            _notify(problem)
        names = [name for name in self.context.selection.param if name != "name"]
        self.context.selection.param.watch(lambda *_: self._write_location(location), names)
        location.param.watch(self._read_location, "search")
        self._write_location(location)

    def _write_location(self, location: Any) -> None:
        query = write_query(self.context.selection)
        if query != (location.search or ""):
            location.search = query

    def _read_location(self, event: Any) -> None:
        """Back and Forward change the URL under us."""
        if event.new == write_query(self.context.selection):
            return
        values, problems = read_query(event.new or "")
        defaults = {"step": None, "uid": "", "token": -1, "follow": True, "search": "", "curves": []}
        self.context.selection.param.update(**{**defaults, **values})
        for problem in problems:
            _notify(problem)


def resolve_root(argument: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder to show: the argument, then ``--args``, ``$RLPANEL_ROOT``, ``./rollout_samples``."""
    if argument is not None:
        return Path(argument)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        return Path(sys.argv[1])
    if os.environ.get("RLPANEL_ROOT"):
        return Path(os.environ["RLPANEL_ROOT"])
    return Path(DEFAULT_ROOT) if Path(DEFAULT_ROOT).is_dir() else None


def prepare() -> None:
    """Load what pages need; once a process, before the first session."""
    pn.extension("tabulator", notifications=True)
    hv.extension("bokeh", logo=False)
    hv.renderer("bokeh").webgl = False


def session_page(root: str | os.PathLike[str] | None = None) -> pmui.Page:
    """A page for the session being served now: built, bound to its URL, and told of changes."""
    prepare()
    board = Board(resolve_root(root))
    if pn.state.location is not None:
        board.bind_location(pn.state.location)
    if pn.state.curdoc is not None:
        board.connect(pn.state.curdoc)
        pn.state.add_periodic_callback(board.tick, period=1000)
    return board.page()


def servable(root: str | os.PathLike[str] | None = None) -> None:
    """Serve the board from a script, as ``panel serve dashboards/board.py`` does."""
    session_page(root).servable(title="rlpanel")


def board(root: str | os.PathLike[str] | None = None) -> pn.Column:
    """The board as a Panel object, for a notebook cell, ``pn.serve`` or a template of yours."""
    prepare()
    session = Board(resolve_root(root))
    box = pn.Column(
        session._stage_box, session.main, sizing_mode="stretch_width", height=860,
        css_classes=["rl-dark"], stylesheets=[theme.VARIABLES], styles={"background": "var(--rl-bg)"},
    )  # fmt: skip
    if pn.state.curdoc is not None:
        session.connect(pn.state.curdoc)
    return box


def _notify(message: str) -> None:
    if pn.state.notifications is not None:
        pn.state.notifications.warning(message, duration=8000)


def _logo() -> pn.pane.HTML:
    return pn.pane.HTML(
        '<span style="font-weight:700;font-size:15px;letter-spacing:-.2px">rl<span class="policy">panel</span></span>',
        stylesheets=[theme.CSS], margin=(0, 14, 0, 2), width=64, align="center",
    )  # fmt: skip


_PAGE_CSS = """
.main { background: var(--rl-bg) !important; color: var(--rl-text); }
.header { background: var(--rl-surface) !important; color: var(--rl-text) !important; box-shadow: none !important;
  border-bottom: 1px solid var(--rl-line); }
.sidebar { background: var(--rl-surface) !important; border-right: 1px solid var(--rl-line) !important; }
"""
_PAGE_SX = {
    "& .MuiToolbar-root": {"minHeight": "46px !important", "paddingLeft": "16px !important", "paddingRight": "10px !important"},
    "& .MuiAppBar-root": {"backgroundImage": "none"},
    "& .MuiPaper-root": {"backgroundImage": "none"},
}  # fmt: skip
