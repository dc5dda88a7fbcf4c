"""Layout of the page: header, side panel and views of the board."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import panel as pn
from panel.util.parameters import edit_readonly
from panel_material_ui.template.base import Page

from rlpanel.app.board import session_cleanup
from rlpanel.app.board.board import Board
from rlpanel.app.board.browser_window import KEYS, BrowserWindow
from rlpanel.app.security import panel_guard
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.findings.findings_badge import FindingsBadge
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.report.board_download import board_download
from rlpanel.panels.sample.sample_detail import SampleDetail
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.event_loop import current_loop
from rlpanel.panels.sidebar.display_controls import DisplayControls, caption
from rlpanel.panels.sidebar.overlay_controls import OverlayControls
from rlpanel.panels.sidebar.run_list import RunBadge, RunList
from rlpanel.panels.sidebar.split_selector import SplitSelector
from rlpanel.panels.sidebar.training_constants import TrainingConstants
from rlpanel.panels.status.backlog_bar import BacklogBar
from rlpanel.panels.status.connection import Connection
from rlpanel.panels.status.empty_state import EmptyState
from rlpanel.panels.status.skipped_paths import LeftOut
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepBar
from rlpanel.panels.step.step_summary import StepSummary
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.files.file_access import AnyPath, path_of

DEFAULT_ROOT = "rollout_samples"


class Layout:
    """Layout of a board's views; the empty state covers them while there are no samples.

    It covers the views instead of replacing them: a table or plot built without a size may stay empty.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        context = board.context
        self.samples = SampleGrid(context, board_download)
        self.detail = SampleDetail(context)
        self.findings = FindingsBadge(context)
        empty_state = EmptyState(context, board.open_demo)
        self._empty_state = pn.Column(empty_state, sizing_mode="stretch_width", styles=_COVERING)
        self._views = pn.Column(
            BacklogBar(context),
            self.findings.opened,
            Curves(context),
            StepBar(context),
            self._step_and_sample(),
            sizing_mode="stretch_both",
            margin=0,
            styles=_BOARD,
            stylesheets=[_NO_SCROLL_BUTTON],
            css_classes=["rl-board"],
        )
        self.parts = [
            pn.Column(
                self._empty_state,
                self._views,
                sizing_mode="stretch_both",
                margin=0,
                styles={"position": "relative"},
                stylesheets=[_NO_SCROLL_BUTTON],
            )
        ]
        context.param.watch(self._show_or_cover, "view")
        self._show_or_cover()

    def _step_and_sample(self) -> pn.FlexBox:
        context = self.board.context
        groups = GroupStrip(context)
        groups.param.watch(self.detail.show_group, "picks")
        over = pn.FlexBox(
            RewardDistribution(context),
            RewardGap(context),
            groups,
            gap="10px",
            margin=0,
            sizing_mode="stretch_width",
        )
        left = pn.Column(
            over,
            StepSummary(context),
            self.samples,
            styles={"gap": "10px", "flex": "1 1 440px", "min-width": "420px", "max-width": "100%"},
            stylesheets=[_NO_SCROLL_BUTTON],
            sizing_mode="stretch_both",
            margin=0,
        )
        right = pn.Column(
            self.detail,
            styles={"flex": "1.3 1 520px", "min-width": "420px"},
            sizing_mode="stretch_both",
            margin=0,
        )
        return pn.FlexBox(
            left,
            right,
            gap="10px",
            flex_wrap="wrap",
            align_items="stretch",
            sizing_mode="stretch_both",
            margin=0,
            styles={"flex": "1 1 auto", "min-height": "560px"},
            css_classes=["rl-lower"],
        )

    def _show_or_cover(self, *_: Any) -> None:
        empty = not self.board.context.snapshot.samples
        self._empty_state.visible = empty
        self._views.styles = {**_BOARD, "visibility": "hidden" if empty else "visible"}

    def on_key(self, key: str) -> None:
        """Handle a keyboard shortcut; `rlpanel.app.board.browser_window.KEYS` lists them."""
        context = self.board.context
        moves = {
            "ArrowLeft": lambda: context.move_step(-1),
            "ArrowRight": lambda: context.move_step(1),
            "j": lambda: self.samples.move(1),
            "k": lambda: self.samples.move(-1),
            "[": lambda: self.detail.next_metric(-1),
            "]": lambda: self.detail.next_metric(1),
        }
        if key in moves:
            moves[key]()


def page_of(board: Board, *, owns_window: bool) -> Page:
    """Return the page of a board; it switches between dark and light without a reload.

    Parameters
    ----------
    board : Board
    owns_window : bool
        True if the board may use the browser's keys and URL.
    """
    layout, selection = Layout(board), board.context.selection
    settings = pn.Column(sizing_mode="stretch_width", margin=0)
    sidebar = [caption("Runs"), RunList(board.context), LeftOut(board.context), settings]
    header = [_logo(), RunBadge(board.context), layout.findings, _help()]
    if owns_window:
        window = BrowserWindow(on_key=layout.on_key)
        board.bind_window(window)
        sidebar.append(window)
        header.insert(2, Connection(board.context))
        # Add the fields after the page is loaded. Each Material field triggers a new layout of the whole page
        # when it is drawn, and the samples would appear only after all of them.
        pn.state.onload(lambda: settings.extend(_settings(board.context)))
    else:
        settings.extend(_settings(board.context))
    page = Page(
        title="",
        meta_title="rlpanel",
        dark_theme=selection.dark,
        theme_config=theme.theme_config(),
        busy_indicator=None,
        sidebar_width=228,
        stylesheets=[theme.VARIABLES, read_assets("panels/ui/page.css")],
        sx=_PAGE_SX,
        header=header,
        sidebar=sidebar,
        main=layout.parts,
    )
    # By default the page follows the process's busy flag, which every callback of every session switches.
    # Each switch would schedule another callback on every page: an endless loop with a few sessions.
    # Only a new reactive value unsubscribes the page from the flag; assigning False would not.
    with edit_readonly(page):
        page.busy = pn.rx(False)
    page.param.watch(lambda event: setattr(selection, "dark", event.new), "dark_theme")
    selection.param.watch(lambda event: setattr(page, "dark_theme", event.new), "dark")
    return page


def _settings(context: Context) -> list[Any]:
    return [
        SplitSelector(context),
        OverlayControls(context),
        DisplayControls(context),
        TrainingConstants(context),
    ]


def resolve_root(argument: str | os.PathLike[str] | None = None) -> AnyPath | None:
    """Return the root to show: the argument, ``$RLPANEL_ROOT``, or ``./rollout_samples`` if it exists."""
    if argument is not None:
        return path_of(argument)
    if os.environ.get("RLPANEL_ROOT"):
        return path_of(os.environ["RLPANEL_ROOT"])
    return Path(DEFAULT_ROOT) if Path(DEFAULT_ROOT).is_dir() else None


def session_page(root: str | os.PathLike[str] | None = None) -> Page:
    """Build the page of the session being served, bind it to the URL and subscribe it to changes."""
    pn.extension("tabulator", notifications=True)
    # For a view added later, the browser first sends back models that Bokeh already has. Bokeh keeps its own
    # models and warns, which is harmless.
    warnings.filterwarnings("ignore", "reference already known")
    board = Board(resolve_root(root))
    if pn.state.location is not None:
        board.read_url(pn.state.location.search or "")
    document, loop = pn.state.curdoc, current_loop()
    if document is not None:
        session_cleanup.ignore_closed_connections()
        document.theme = theme.PLOTS
    if loop is not None:
        board.connect(loop)
    page = page_of(board, owns_window=True)
    if document is not None:
        document.on_session_destroyed(lambda _: session_cleanup.release_page(document, page))
    return page


def servable() -> None:
    """Serve the board from a script: ``panel serve dashboards/board.py [--args ROOT]``."""
    panel_guard.install()
    session_page(sys.argv[1] if len(sys.argv) > 1 else None).servable(title="rlpanel")


def _logo() -> pn.pane.HTML:
    return pn.pane.HTML(
        '<span class="logo">rl<span class="policy">panel</span></span>',
        stylesheets=[theme.CSS],
        margin=(0, 14, 0, 2),
        width=64,
        align="center",
    )


def _help() -> pn.pane.HTML:
    rows = "".join(f"<tr><td>{safe_text(key)}</td><td>{text}</td></tr>" for key, text in KEYS.items())
    return pn.pane.HTML(
        '<details class="rl-help"><summary class="pill" title="Keyboard shortcuts">?</summary>'
        f"<table>{rows}</table></details>",
        stylesheets=[theme.CSS, read_assets("panels/ui/badge.css"), read_assets("panels/ui/help.css")],
        margin=0,
        align="center",
    )


#: Hides the scroll button of a column, which is invisible but would take up a gap.
_NO_SCROLL_BUTTON = ".scroll-button { display: none; }"
_BOARD = {"gap": "10px", "padding": "12px", "box-sizing": "border-box", "filter": "var(--rl-faded, none)"}
_COVERING = {"position": "absolute", "inset": "0", "z-index": "1", "background": "var(--rl-bg)"}
_PAGE_SX = {
    # In a narrow window the run's badge is cut, so that the findings stay visible.
    "& .MuiToolbar-root > .MuiBox-root, & .rl-badge": {"minWidth": 0},
    "& .rl-badge": {"flexShrink": "1 !important"},
    "& .MuiToolbar-root": {"minHeight": "46px !important", "padding": "0 10px 0 16px !important"},
    "& .MuiAppBar-root": {"backgroundImage": "none"},
    "& .MuiPaper-root": {"backgroundImage": "none"},
}
