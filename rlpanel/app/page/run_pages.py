"""The pages of a run: a bar in the header, and the views that stand in place of the board.

A new page is one view and one line in `PAGES`, and its key in `rlpanel.board_url.PAGES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
import param
from panel.viewable import Viewable, Viewer

from rlpanel.board_url import RUNS_PAGE
from rlpanel.panels.diverge.diverge_card import compare_page
from rlpanel.panels.drift.drift_page import DriftPage, has_both_logprobs
from rlpanel.panels.endings.failures_page import FailuresPage, has_failures
from rlpanel.panels.explain.explain_tab import ExplainTab
from rlpanel.panels.in_flight.in_flight_page import InFlightPage, has_live
from rlpanel.panels.inputs.input_fields import ActiveView, LazyView, Tab, TabBar
from rlpanel.panels.investigations.investigations_page import InvestigationsPage
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.lint.lint_page import LintPage
from rlpanel.panels.prompts.prompts_page import PromptsPage
from rlpanel.panels.rollouts.rollouts_page import RolloutsPage
from rlpanel.panels.session.context import SAMPLE, Context
from rlpanel.panels.status.notices import PageNotice
from rlpanel.panels.timeline.rollout_spans import has_times
from rlpanel.panels.timeline.timeline_view import TimelineTab
from rlpanel.panels.tokens.token_ranking import TokenRanking, has_token_metrics
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.update.update_page import UpdatePage

#: Pages that show parts of the board: all of it; grid and sample; the sample alone, which no tab opens.
OVERVIEW, SAMPLES = "", "samples"
BOARD = (OVERVIEW, SAMPLES, SAMPLE)


def _opens_tokens(make: Callable[[Context], TokenRanking | RolloutsPage], context: Context) -> ActiveView:
    """Make a view; a click on one of its tokens opens the tokens of the sample that was clicked."""
    view = make(context)
    chosen = {"page": SAMPLES, "tab": "tokens"}
    view.param.watch(lambda _: context.selection.param.update(**chosen), "picks")
    return view


#: All other pages, in the order of the screen: those that most questions need come first, so that they
#: are in the row of a usual screen.
PAGES: tuple[Tab, ...] = (
    Tab("rollouts", marked("Rollouts"), partial(_opens_tokens, RolloutsPage), of_step=True),
    Tab(
        "update",
        marked("Update"),
        UpdatePage,
        lambda snapshot: snapshot.has_number("reward"),
        of_step=True,
        log="reward",
    ),
    Tab(
        "prompts",
        marked("Prompts"),
        PromptsPage,
        lambda snapshot: snapshot.has_number("reward"),
        log="reward",
    ),
    Tab("compare", marked("Compare"), compare_page),
    Tab("explain", marked("Explain"), ExplainTab, of_step=True),
    Tab("failures", marked("Failures"), FailuresPage, has_failures, fits=True, log="reward, status"),
    Tab("timeline", marked("Timeline"), TimelineTab, has_times, of_step=True, log="timing, seconds"),
    Tab(
        "ranking",
        marked("Token ranking"),
        partial(_opens_tokens, TokenRanking),
        has_token_metrics,
        of_step=True,
        log="response_tokens, logprobs",
    ),
    Tab("flight", marked("In flight"), InFlightPage, has_live),
    Tab("drift", marked("Drift"), DriftPage, has_both_logprobs, log="logprobs, rollout_logprobs"),
    Tab("lint", marked("Lint"), LintPage, fits=True),
    Tab("investigations", marked("Investigations"), InvestigationsPage, fits=True),
)


_KEYS = tuple(page.key for page in PAGES)
_FITTING = frozenset(page.key for page in PAGES if page.fits)
_CARD = ("rl-card", "rl-page-view")


def has_step(page: str) -> bool:
    """Return whether a page shows the selected step; it then has the grid beside it."""
    return page in (OVERVIEW, SAMPLES) or any(each.of_step for each in PAGES if each.key == page)


class RunPages(Viewer):
    """The views of `PAGES`, each made when it is first opened; all but the open one do nothing.

    They stand in place of the sample; those of the step have the grid beside them.

    Attributes
    ----------
    bar : TabBar
        The pages that the run has something for, for the header.
    missing : PageNotice
        Why the page of the address is not shown, for the notices.
    """

    shown = param.String(default=OVERVIEW, doc="Key of the shown page: the selection's, if it applies.")

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.missing = PageNotice()
        self.bar = TabBar(css_classes=["rl-pages"], label=tr("Pages of the run"))
        self.bar.on_message(self._on_click)
        self._card = pn.Column(
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=420,
            visible=False,
            css_classes=[*_CARD],
            stylesheets=[read_assets("app/page/page_view.css")],
        )
        views = [LazyView[Any](partial(page.make, context), self._card) for page in PAGES]
        self._views = {page.key: view for page, view in zip(PAGES, views, strict=True)}
        context.param.watch(self._list_pages, "view")
        # Later than the run of the same change: a page would draw the run before, and at once again.
        context.selection.param.watch(self._open, "page", precedence=1)
        self._list_pages()

    def __panel__(self) -> Viewable:
        return self._card

    def _list_pages(self, *_: Any) -> None:
        """List the pages for which the run logs something."""
        listed = [{"key": OVERVIEW, "title": tr("Overview")}, {"key": SAMPLES, "title": tr("Samples")}]
        listed += [
            {"key": page.key, "title": tr(page.title)}
            for page in PAGES
            if page.applies(self.context.snapshot)
        ]
        is_new = listed != self.bar.tabs
        if is_new:
            self.bar.tabs = listed
        if is_new or self._applying() != self.shown:
            self._open()
        self._say_missing()

    def _applying(self) -> str:
        """Return the page of the selection if the run has something for it, else the overview.

        Until the run is read the page is taken as it is: it is then part of the document, which a browser
        builds at once, and the overview does not flash up.
        """
        page = self.context.selection.page
        listed = (tab["key"] for tab in self.bar.tabs) if self.context.snapshot.version else _KEYS
        return page if page in (*BOARD, *listed) else OVERVIEW

    def _open(self, *_: Any) -> None:
        page, shown = self.context.selection.page, self._applying()
        with pn.io.hold():
            self.shown = shown
            self.bar.value = page if page == RUNS_PAGE else SAMPLES if shown == SAMPLE else shown
            self._card.visible = shown not in BOARD
            if shown not in BOARD:
                self._card.css_classes = [*_CARD, *(["rl-fits"] if shown in _FITTING else [])]
            for key, view in self._views.items():
                view.set_active(key == shown)
        self._say_missing()

    def _say_missing(self) -> None:
        """Say that a run that was read has nothing for the page of the address, and what to log."""
        snapshot, key = self.context.snapshot, self.context.selection.page
        is_missing = key not in (self.shown, RUNS_PAGE) and snapshot.samples and snapshot.progress.caught_up
        page = next((each for each in PAGES if each.key == key), None) if is_missing else None
        self.missing.say(snapshot.name, tr(page.title) if page else "", page.log if page else "")

    def _on_click(self, key: Any) -> None:
        if key in {tab["key"] for tab in self.bar.tabs}:
            self.context.selection.page = key
