"""The regions of the page: each draws parts that stand beside each other, such as the select of language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import param

from rlpanel.app.board.board import KEYS
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.findings.findings_badge import CurrentFindings, FindingsPopup, OpenedFinding
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.inputs.input_fields import TabBar
from rlpanel.panels.language.labels import ENGLISH, LANGUAGES, current_language, marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.session import BrowserPace
from rlpanel.panels.sidebar.run_badge import RunBadge
from rlpanel.panels.sidebar.run_list import RunList
from rlpanel.panels.sidebar.settings_form import SettingsForm
from rlpanel.panels.status.notices import BacklogBar, Connection, GuessNotice, LeftOut, LinkNotice, PageNotice
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import StepSummary
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script

# -- language switch -----------------------------------------------------------------------------------
# Select of the page's language, below the settings in the side panel.


class LanguageSwitch(Component):
    """Select of all languages. The browser stores the choice and loads the page again."""

    language = param.String(default=ENGLISH, doc="Language of the page.")
    languages = param.Dict(default=LANGUAGES, doc="Name of each language, by its code.")

    _esm = read_assets("panels/ui/dom.js", "panels/language/language_switch.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/language/language_switch.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(language=current_language(), css_classes=["rl-language"], **params)


# -- page regions --------------------------------------------------------------------------------------
# The regions of the page: each draws the parts that stand beside each other.
#
# Header (toggle of the side panel, run, connection, findings, theme, help), side panel, notices above the
# curves, and the cards of the selected step.


#: Part of the page → what it shows, and what a click does.
PARTS = {
    marked("Findings"): marked(
        "What rules found wrong, the worst first. A click shows the first affected step and a sample."
    ),
    marked("Curves"): marked(
        "One number per step. A click selects the step; a drag zooms; ⋮ says what the curve shows, exports "
        "it and copies it as Python."
    ),
    marked("Samples"): marked(
        "The prompts and responses of the selected step. Search, filter and sort them; a click shows one."
    ),
    marked("Sample"): marked(
        "One prompt and its response: the conversation, its tokens in the colour of a metric, its group, its "
        "history."
    ),
}
#: Word → its meaning; `docs/glossary.md` has all of them.
WORDS = {
    marked("step"): marked("One update of the policy."),
    marked("group"): marked("The samples of one prompt in one step."),
    marked("reward"): marked("The score of a whole response."),
    marked("advantage"): marked(
        "How much better a response was than expected, such as than its group's mean."
    ),
    marked("reference"): marked("The frozen model from which the KL divergence is measured."),
    marked("log-ratio"): marked(
        "Logprob of a token under the policy minus that under the reference, in nats."
    ),
    marked("KL k3, KL k2"): marked("Estimates of the KL divergence from the log-ratios."),
    marked("surprisal"): marked("Minus the logprob of a token: high where the policy was unsure."),
    marked("engine mismatch"): marked(
        "How far the logprobs of the program that samples are from the trainer's; 1 means equal."
    ),
    marked("onset"): marked("The first step that a finding affects."),
}
#: Where more is written.
MORE = {
    "docs/glossary.md": marked("all words"),
    "docs/metrics.md": marked("all metrics with their formulas"),
    "docs/findings.md": marked("all rules with their thresholds"),
    "docs/tutorial.md": marked("a collapse, from the first look to its cause"),
}
#: Shown at the first visit, until it is closed.
FIRST_VISIT = marked(
    "First visit? Start with the line of findings above the curves; a click leads to the step and to a "
    "sample. ? explains what you see."
)


_CSS: list[str] = [
    theme.CSS,
    read_assets("panels/ui/badge.css", "panels/ui/help.css", "app/page/page_controls.css"),
]


_HELP = {"keys": KEYS, "parts": PARTS, "words": WORDS, "more": MORE}


def _translated(texts: Mapping[str, str]) -> dict[str, str]:
    return {tr(key): tr(text) for key, text in texts.items()}


class SideToggle(Component):
    """Button that shows and hides the side panel, and the logo; both are handled in the browser."""

    _esm = read_assets("panels/ui/dom.js", "app/page/side_toggle.js")
    _stylesheets: ClassVar[list[str]] = _CSS

    def __init__(self, **params: Any) -> None:
        super().__init__(css_classes=["rl-side-toggle"], **params)


class Splitter(Component):
    """Line between grid and sample that gives one of them more room; it is handled in the browser."""

    _esm = read_assets("panels/ui/dom.js", "app/page/splitter.js")
    _stylesheets: ClassVar[list[str]] = [read_assets("app/page/splitter.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(css_classes=["rl-splitter"], margin=0, **params)


class PageControls(Component):
    """Share button, theme switch, and help with the hint of the first visit.

    A message is ``["theme", dark]``: when the user switches the theme, and with the browser's preference when
    the page was opened without a theme in its URL; or ``["share", true]``, which answers with the address.

    Parameters
    ----------
    context : Context
        The ``dark`` of its selection follows the switch and, without a theme in the URL, the browser.
    owns_window : bool
        True if the board may read the window's URL and store the theme in a cookie.
    """

    dark = param.Boolean(default=True, doc="Whether the theme is dark.")
    owns_window = param.Boolean(default=False, doc="Whether the board owns the browser's window.")
    whole = param.Boolean(default=False, doc="Whether the page has all its views; the first view goes then.")
    keys = param.Dict(default=KEYS, doc="Keyboard shortcuts and their meaning.")
    parts = param.Dict(default=PARTS, doc="Parts of the page and what they show.")
    words = param.Dict(default=WORDS, doc="Words and their meaning.")
    more = param.Dict(default=MORE, doc="Pages of the documentation and what they hold.")
    hint = param.String(default=FIRST_VISIT, doc="What a first visit says until it is closed.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/ui/closing.js",
        "panels/export/download.js",
        "panels/session/drawn.js",
        "app/page/page_controls.js",
    )
    _stylesheets: ClassVar[list[str]] = _CSS

    def __init__(self, context: Context, *, owns_window: bool) -> None:
        selection = context.selection
        super().__init__(
            dark=selection.dark,
            **{name: _translated(texts) for name, texts in _HELP.items()},
            hint=tr(FIRST_VISIT),
            owns_window=owns_window,
            css_classes=["rl-page-controls"],
        )
        self._context, self._selection = context, selection
        selection.param.watch(lambda event: setattr(self, "dark", event.new), "dark")

    def complete(self) -> None:
        """Tell the browser that all views were sent: it removes the first view when they are drawn."""
        self.whole = True

    def receive(self, message: Any) -> None:
        """Apply a theme. The message comes from the browser."""
        if not (isinstance(message, list) and len(message) == 2 and isinstance(message[1], bool)):
            return
        action, dark = message
        if action == "share":
            self.send({"share": self._context.shared_query})
        elif action == "theme":
            self._selection.dark = dark


class Header(Region):
    """The header's parts, from left to right."""

    toggle = param.String()
    badge = param.String()
    connection = param.String()
    pace = param.String()
    pages = param.String()
    findings = param.String()
    buttons = param.String()

    _esm = region_script(
        toggle=SideToggle,
        badge=RunBadge,
        connection=Connection,
        pace=BrowserPace,
        pages=TabBar,
        findings=FindingsPopup,
        buttons=PageControls,
    )
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/header.css")]

    def __init__(self, parts: dict[str, Component], **params: Any) -> None:
        super().__init__(
            parts, sizing_mode="stretch_width", height=46, margin=0, css_classes=["rl-header"], **params
        )


class Notices(Region):
    """The notices, from top to bottom; those that have nothing to say take up no space."""

    link_notice = param.String()
    guess = param.String()
    missing = param.String()
    backlog = param.String()

    _esm = region_script(link_notice=LinkNotice, guess=GuessNotice, missing=PageNotice, backlog=BacklogBar)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/notices.css")]


class FindingLine(Region):
    """The worst current finding or the opened one; its place is kept while there is neither."""

    current = param.String()
    opened = param.String()

    _esm = region_script(current=CurrentFindings, opened=OpenedFinding)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/finding_line.css")]


class SidePanel(Region):
    """The side panel's parts, from top to bottom; the list of runs and the settings are large."""

    run_list = param.String()
    run_list_runs = param.String()
    left_out = param.String()
    settings = param.String()
    settings_groups = param.String()
    language = param.String()

    _esm = region_script(run_list=RunList, left_out=LeftOut, settings=SettingsForm, language=LanguageSwitch)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/side.css")]


class StepCards(Region):
    """The cards; one that has nothing to show is hidden."""

    distribution = param.String()
    gap = param.String()
    groups = param.String()
    numbers = param.String()
    numbers_tips = param.String()

    _esm = region_script(
        distribution=RewardDistribution, gap=RewardGap, groups=GroupStrip, numbers=StepSummary
    )
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/step_cards.css")]
