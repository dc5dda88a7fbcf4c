"""Layout of the board: header, side panel and views, built in small steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import panel as pn
from bokeh.document import Document

from rlpanel.app.board.board import Board, BrowserWindow
from rlpanel.app.page.page_regions import (
    FindingLine,
    Header,
    LanguageSwitch,
    Notices,
    PageControls,
    SidePanel,
    SideToggle,
    Splitter,
    StepCards,
)
from rlpanel.app.page.run_pages import BOARD, OVERVIEW, RunPages, has_step
from rlpanel.board_url import RUNS_PAGE
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.findings.findings_badge import FindingsBadge
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.language.labels import tr
from rlpanel.panels.mapping.mapping_form import MappingForm
from rlpanel.panels.report.report import board_download
from rlpanel.panels.runs.runs_table import RunsTable
from rlpanel.panels.sample.sample_detail import SampleDetail
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import SAMPLE
from rlpanel.panels.session.event_loop import Step
from rlpanel.panels.sidebar.run_badge import RunBadge
from rlpanel.panels.sidebar.run_list import RunList
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.panels.status.empty_state import EmptyState
from rlpanel.panels.status.notices import BacklogBar, Connection, GuessNotice, LeftOut, LinkNotice
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepBar, StepSummary
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import PlainDesign


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
        self._pages = RunPages(context)
        self._samples: SampleGrid | None = None
        self._detail: SampleDetail | None = None
        self._curves: Curves | None = None
        self._form: MappingForm | None = None
        self._runs: RunsTable | None = None
        #: Parts of the page, and a test whether the open page of the run shows each.
        self._parts: list[tuple[Any, Callable[[str], bool]]] = []
        self._controls = PageControls(context, owns_window=owns_window)
        self._findings = FindingsBadge(context)
        self._views = _column("rl-board", read_assets("app/page/views.css"))
        self._main = _column("rl-main", read_assets("app/page/regions.css"))
        self._left = _column("rl-left", read_assets("app/page/columns.css"))
        self._right = _column("rl-right", read_assets("app/page/columns.css"))
        self._main.extend([EmptyState(context, board.open_demo), self._views])
        sheets = [read_assets("app/page/regions.css")]
        self._body = pn.Row(
            self._main,
            sizing_mode="stretch_both",
            margin=0,
            css_classes=["rl-body"],
            stylesheets=sheets,
        )
        self.root = pn.Column(
            self._header(owns_window),
            self._body,
            sizing_mode="stretch_both",
            margin=0,
            stylesheets=[theme.theme_variables(":host({})"), read_assets("app/page/page.css")],
            design=PlainDesign,
        )  # fmt: skip
        context.selection.param.watch(self._restyle, "dark")
        context.param.watch(self._hide_empty, "view")
        context.param.watch(self._offer_form, ["root_diagnosis", "mapping_form"])
        context.param.watch(self._order_columns, "shaded_steps")
        self._pages.param.watch(self._show_page, "shown")
        self._restyle()
        context.selection.param.watch(self._hide_empty, "page")
        context.selection.param.watch(self._offer_runs, "page")
        self._hide_empty()
        self._offer_runs()
        self._offer_form()
        self.window: BrowserWindow | None = None
        if owns_window:
            self.window = BrowserWindow(on_key=self.on_key, title=self._title())
            context.selection.param.watch(self._entitle, ["run", "step"])
            self._findings.popup.param.watch(self._entitle, "found")
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
            self._add_side,
        ]
        return views if document is None else [*views, partial(self._show, document)]

    def on_key(self, key: str) -> None:
        """Handle a keyboard shortcut; `rlpanel.app.board.board.KEYS` lists them.

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
        elif key == "m" or (key == "Escape" and context.selection.page == SAMPLE):
            context.toggle_sample()

    # -- the frame -------------------------------------------------------------------------------

    def _header(self, owns_window: bool) -> Header:
        context = self.board.context
        parts: dict[str, Component] = {"toggle": SideToggle(), "badge": RunBadge(context)}
        if owns_window:
            parts["connection"] = Connection(context)
        if self.board.pace is not None:
            parts["pace"] = self.board.pace
        parts |= {"pages": self._pages.bar, "findings": self._findings.popup, "buttons": self._controls}
        return Header(parts)

    def _entitle(self, *_: Any) -> None:
        if self.window is not None:
            self.window.title = self._title()

    def _title(self) -> str:
        """Return the title of the browser's window: current findings, run and step, the newest first."""
        selection = self.board.context.selection
        current = sum(finding["severity"] != "info" for finding in self._findings.popup.found)
        step = tr("step {step}", step=selection.step) if selection.step is not None else ""
        parts = (f"▲{current}" if current else "", selection.run, step)
        return " · ".join(filter(None, parts)) or "rlpanel"

    def _restyle(self, *_: Any) -> None:
        self.root.css_classes = ["rl-page", "rl-dark" if self.board.context.selection.dark else "rl-light"]

    def _hide_empty(self, *_: Any) -> None:
        """Hide the views while there are no samples, or the form covers them."""
        covered = self._form is not None and self._form.visible
        covered |= self.board.context.selection.page == RUNS_PAGE
        shown = bool(self.board.context.snapshot.samples) and not covered
        self._views.styles = {"visibility": "visible" if shown else "hidden"}

    def _offer_form(self, *_: Any) -> None:
        """Add the form that maps keys to fields when it is first needed: most pages never need it."""
        context = self.board.context
        needed = context.mapping_form == "open" or (context.root_diagnosis is not None and not context.runs)
        if self._form is None and needed and not context.read_only:
            self._form = MappingForm(context, self.board.open_with)
            self._form.param.watch(self._hide_empty, "visible")
            self._main.insert(1, self._form)
            self._hide_empty()

    def _offer_runs(self, *_: Any) -> None:
        """Add the table of all runs when its page is first opened: most pages show one run only."""
        if self._runs is None and self.board.context.selection.page == RUNS_PAGE:
            self._runs = RunsTable(self.board.context)
            self._body.append(self._runs)

    def _order_columns(self, *_: Any) -> None:
        """Put a page, or the sample of a finding, above the grid where the columns are below each other."""
        leads = self.board.context.shaded_steps is not None or self._pages.shown not in BOARD
        overview = ["rl-overview"] if self._pages.shown == OVERVIEW else []
        self._right.css_classes = ["rl-right", *(["rl-landed"] if leads else overview)]

    # -- the views -------------------------------------------------------------------------------

    def _add_curves(self) -> Iterator[Step]:
        """Add the curves; each card has a step of its own."""
        context = self.board.context
        curves = self._curves = Curves(context, lazy=True, active=self._pages.shown == OVERVIEW)
        notices: dict[str, Component] = {"link_notice": LinkNotice(context), "guess": GuessNotice(context)}
        notices |= {"missing": self._pages.missing, "backlog": BacklogBar(context)}
        found = FindingLine({"current": self._findings.current, "opened": self._findings.opened}, margin=0)
        steps = StepBar(context)
        lead = pn.Row(
            *(found, steps),
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-lead"],
            stylesheets=[read_assets("app/page/regions.css")],
        )
        self._views.extend([Notices(notices, sizing_mode="stretch_width", margin=0), lead, curves])
        self._parts += [
            (lead, lambda page: page != SAMPLE),
            (curves.__panel__(), lambda page: page == OVERVIEW),
            (steps, has_step),
        ]
        self._show_page()
        return curves.card_steps()

    def _show_page(self, *_: Any) -> None:
        """Show the parts of the open page; those that are not in sight do nothing."""
        page = self._pages.shown
        with pn.io.hold():
            if self._curves is not None:
                self._curves.active = page == OVERVIEW
            if self._detail is not None:
                self._detail.active = page in BOARD
            for part, is_shown in self._parts:
                part.visible = is_shown(page)
            self._order_columns()

    def _add_step(self) -> None:
        context = self.board.context
        line = Splitter()
        lower = pn.Row(
            self._left,
            line,
            self._right,
            sizing_mode="stretch_both",
            margin=0,
            styles={"flex": "1 1 auto", "min-height": "560px"},
            css_classes=["rl-lower"],
            stylesheets=[read_assets("app/page/regions.css")],
        )
        self._views.append(lower)
        groups = GroupStrip(context, self._show_group)
        numbers = StepSummary(context)
        cards = {"distribution": RewardDistribution(context), "gap": RewardGap(context), "groups": groups}
        step = StepCards({**cards, "numbers": numbers}, sizing_mode="stretch_width", margin=0)
        self._left.append(step)
        self._right.append(self._pages)
        self._parts += [(step, lambda page: page == OVERVIEW), (self._left, has_step), (line, has_step)]
        self._show_page()

    def _add_samples(self) -> None:
        self._samples = SampleGrid(self.board.context, board_download)
        self._left.append(self._samples)

    def _add_detail(self) -> None:
        self._detail = SampleDetail(self.board.context, active=self._pages.shown in BOARD)
        self._right.append(self._detail)
        self._parts.append((self._detail.__panel__(), lambda page: page in BOARD))
        self._show_page()

    def _add_side(self) -> None:
        context = self.board.context
        parts: dict[str, Component] = {"run_list": RunList(context), "left_out": LeftOut(context)}
        parts["settings"] = SettingsForm(context)
        if self.window is not None:
            parts["language"] = LanguageSwitch()
        self._body.insert(0, SidePanel(parts, sizing_mode="stretch_both", margin=0, css_classes=["rl-side"]))

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
