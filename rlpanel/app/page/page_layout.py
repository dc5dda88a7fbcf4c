"""Layout of the board: header, side panel and views, built in small steps (`PartQueue`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import panel as pn
from bokeh.document import Document

from rlpanel.app.board.board import Board
from rlpanel.app.board.browser_window import BrowserWindow
from rlpanel.app.page.header import Header
from rlpanel.app.page.page_controls import PageControls, SideToggle
from rlpanel.app.page.part_queue import Step
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.findings.findings_badge import FindingsBadge
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.language.language_switch import LanguageSwitch
from rlpanel.panels.report.board_download import board_download
from rlpanel.panels.sample.sample_detail import SampleDetail
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.sidebar.run_badge import RunBadge
from rlpanel.panels.sidebar.run_list import RunList
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.panels.status.backlog_bar import BacklogBar
from rlpanel.panels.status.connection import Connection
from rlpanel.panels.status.empty_state import EmptyState
from rlpanel.panels.status.link_notice import LinkNotice
from rlpanel.panels.status.skipped_paths import LeftOut
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepBar
from rlpanel.panels.step.step_summary import StepSummary
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.plain_design import PlainDesign


class Layout:
    """The board as one Panel object, `root`, and the steps that fill it.

    Parameters
    ----------
    board : Board
    owns_window : bool
        True if the board may use the browser's keys, URL and cookies.

    Attributes
    ----------
    root : pn.Column
        Header, side panel and an empty place for the views.
    window : BrowserWindow or None
        Keys and URL of the window; a root of its own.
    """

    def __init__(self, board: Board, *, owns_window: bool) -> None:
        self.board = board
        context = board.context
        self._samples: SampleGrid | None = None
        self._detail: SampleDetail | None = None
        self._empty_state: EmptyState | None = None
        self._controls = PageControls(context.selection, owns_window=owns_window)
        self._findings = FindingsBadge(context)
        self._side = _column("rl-side", read_assets("app/page/side.css"))
        self._views = _column("rl-board", read_assets("app/page/views.css"))
        self._main = _column("rl-main", read_assets("app/page/regions.css"))
        self._left = _column("rl-left", read_assets("app/page/columns.css"))
        self._right = _column("rl-right", read_assets("app/page/columns.css"))
        self._cover = pn.Column(sizing_mode="stretch_width", styles=_COVERING, visible=False)
        self._main.extend([self._cover, self._views])
        self.root = pn.Column(
            self._header(owns_window),
            pn.Row(self._side, self._main, sizing_mode="stretch_both", margin=0, css_classes=["rl-body"],
                   stylesheets=[read_assets("app/page/regions.css")]),
            sizing_mode="stretch_both",
            margin=0,
            stylesheets=[theme.theme_variables(":host({})"), read_assets("app/page/page.css")],
            design=PlainDesign,
        )  # fmt: skip
        self._fill_side()
        context.selection.param.watch(self._restyle, "dark")
        context.param.watch(self._show_or_cover, "view")
        context.param.watch(self._lead_with_sample, "shaded_steps")
        self._restyle()
        self._show_or_cover()
        self.window: BrowserWindow | None = None
        if owns_window:
            self.window = BrowserWindow(on_key=self.on_key)
            board.bind_window(self.window)

    def steps(self, document: Document | None) -> list[Step]:
        """Return the steps that build the views, in the order of the screen.

        Parameters
        ----------
        document : Document, optional
            Document of a served page: the last step adds the board to it.
        """
        views: list[Step] = [
            self._add_curves,
            self._add_step,
            self._add_samples,
            self._add_detail,
            self._add_settings,
        ]
        return views if document is None else [*views, partial(self._show, document)]

    def on_key(self, key: str) -> None:
        """Handle a keyboard shortcut; `rlpanel.app.board.browser_window.KEYS` lists them.

        Panel may call it on a thread, where it could meet a redraw that follows the newest step.
        """
        self.board.call_soon(partial(self._press, key))

    def _press(self, key: str) -> None:
        context = self.board.context
        if key in ("ArrowLeft", "ArrowRight"):
            context.move_step(1 if key == "ArrowRight" else -1)
        elif key in ("j", "k") and self._samples is not None:
            self._samples.move(1 if key == "j" else -1)
        elif key in ("[", "]") and self._detail is not None:
            self._detail.next_metric(1 if key == "]" else -1)

    # -- the frame -------------------------------------------------------------------------------

    def _header(self, owns_window: bool) -> Header:
        context = self.board.context
        parts: dict[str, Component] = {"toggle": SideToggle(), "badge": RunBadge(context)}
        if owns_window:
            parts["connection"] = Connection(context)
        if self.board.pace is not None:
            parts["pace"] = self.board.pace
        return Header({**parts, "findings": self._findings.popup, "buttons": self._controls})

    def _fill_side(self) -> None:
        context = self.board.context
        self._side.extend([RunList(context), LeftOut(context)])

    def _restyle(self, *_: Any) -> None:
        self.root.css_classes = ["rl-page", "rl-dark" if self.board.context.selection.dark else "rl-light"]

    def _show_or_cover(self, *_: Any) -> None:
        """Cover the views while there are no samples.

        The empty state does not replace them: a table or plot built without a size may stay empty.
        """
        empty = not self.board.context.snapshot.samples
        if empty and self._empty_state is None:
            self._empty_state = EmptyState(self.board.context, self.board.open_demo)
            self._cover.append(self._empty_state)
        self._cover.visible = empty
        self._views.styles = {"visibility": "hidden" if empty else "visible"}

    def _lead_with_sample(self, event: Any) -> None:
        """While a finding is open, its sample stands above the grid where columns are below each other."""
        self._right.css_classes = ["rl-right", "rl-landed"] if event.new else ["rl-right"]

    # -- the views -------------------------------------------------------------------------------

    def _add_curves(self) -> Iterator[Step]:
        """Add the curves; each card has a step of its own."""
        context = self.board.context
        curves = Curves(context, lazy=True)
        lead = [LinkNotice(context), BacklogBar(context), self._findings.current, self._findings.opened]
        self._views.extend([*lead, curves, StepBar(context)])
        return curves.card_steps()

    def _add_step(self) -> Iterator[Step]:
        context = self.board.context
        self._views.append(
            pn.FlexBox(
                self._left,
                self._right,
                gap="10px",
                flex_wrap="wrap",
                align_items="stretch",
                sizing_mode="stretch_both",
                margin=0,
                styles={"flex": "1 1 auto", "min-height": "560px"},
                css_classes=["rl-lower"],
            )
        )
        charts = pn.FlexBox(gap="10px", margin=0, sizing_mode="stretch_width")
        self._left.append(charts)
        groups = GroupStrip(context)
        groups.param.watch(self._show_group, "picks")
        yield lambda: charts.extend([RewardDistribution(context), RewardGap(context), groups])
        yield lambda: self._left.append(StepSummary(context))

    def _add_samples(self) -> None:
        self._samples = SampleGrid(self.board.context, board_download)
        self._left.append(self._samples)

    def _add_detail(self) -> None:
        self._detail = SampleDetail(self.board.context)
        self._right.append(self._detail)

    def _add_settings(self) -> None:
        self._side.append(SettingsForm(self.board.context))
        if self.window is not None:
            self._side.append(LanguageSwitch())

    def _show(self, document: Document) -> Iterator[Step]:
        """Create the Bokeh models of the board, add them to the document, and say that it is whole."""
        model = self.root.get_root(document)
        yield partial(document.add_root, model)
        yield self._controls.complete

    def _show_group(self, *_: Any) -> None:
        if self._detail is not None:
            self._detail.show_group()


def _column(name: str, *sheets: str) -> pn.Column:
    return pn.Column(
        sizing_mode="stretch_both", margin=0, css_classes=[name], stylesheets=[_NO_SCROLL_BUTTON, *sheets]
    )


#: Hides the scroll button of a column, which is invisible but would take up a gap.
_NO_SCROLL_BUTTON = ".scroll-button { display: none; }"
_COVERING = {"position": "absolute", "inset": "0", "z-index": "1", "background": "var(--rl-bg)"}
