"""The list of tabs below a sample's header. A new tab is one module with a view, and one line in `TABS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.compare.runs_tab import RunsTab
from rlpanel.panels.explain.explain_tab import ExplainTab
from rlpanel.panels.groups.groups_tab import GroupsTab
from rlpanel.panels.prompts.prompts_tab import PromptsTab
from rlpanel.panels.sample.reference_tab import ReferenceTab
from rlpanel.panels.sample.tokens_tab import TokensTab
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.token_ranking import TokenRanking
from rlpanel.panels.ui.lazy_view import ActiveView


class Tab(NamedTuple):
    """One tab of the sample panel.

    Attributes
    ----------
    key : str
        Its name in code, as `Context.tab` holds it.
    title : str
        Its label on screen.
    about : str
        What it shows something of: the sample, its step or its run.
    make : callable
        Makes its view when the tab is first opened. The view has a parameter ``active`` and does nothing
        while that is False.
    """

    key: str
    title: str
    about: str
    make: Callable[[Context], ActiveView]


def _token_ranking(context: Context) -> TokenRanking:
    """Make the ranking; a click on one of its tokens opens the tokens of the sample that was clicked."""
    ranking = TokenRanking(context)
    ranking.param.watch(lambda _: setattr(context, "tab", "tokens"), "picks")
    return ranking


#: All tabs, in the order of the screen.
TABS: tuple[Tab, ...] = (
    Tab("tokens", "Tokens", "sample", TokensTab),
    Tab("reference", "Text", "sample", ReferenceTab),
    Tab("diff", "Diff", "sample", ResponseDiff),
    Tab("group", "Group", "sample", GroupsTab),
    Tab("prompt", "History", "sample", PromptsTab),
    Tab("ranking", "Token ranking", "step", _token_ranking),
    Tab("runs", "Compare runs", "run", RunsTab),
    Tab("explain", "Why", "run", ExplainTab),
)


def position_of(key: str) -> int:
    """Return the position of a tab in `TABS`; the first where no tab has this key."""
    return next((position for position, tab in enumerate(TABS) if tab.key == key), 0)
