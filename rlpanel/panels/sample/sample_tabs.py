"""The list of tabs below a sample's header.

A new tab is one module with a view, and one line in `TABS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.compare.runs_tab import RunsTab
from rlpanel.panels.conversation.conversation_payload import has_turns
from rlpanel.panels.explain.explain_tab import ExplainTab
from rlpanel.panels.groups.groups_tab import GroupsTab
from rlpanel.panels.inputs.lazy_view import ActiveView
from rlpanel.panels.language.labels import marked
from rlpanel.panels.prompts.prompts_tab import PromptsTab
from rlpanel.panels.sample.conversation_tab import ConversationTab
from rlpanel.panels.sample.reference_tab import ReferenceTab
from rlpanel.panels.sample.tokens_tab import TokensTab
from rlpanel.panels.session.context import Context
from rlpanel.panels.timeline.rollout_spans import has_times
from rlpanel.panels.timeline.timeline_view import TimelineTab
from rlpanel.panels.tokens.token_ranking import TokenRanking
from rlpanel.schema import Sample
from rlpanel.store.snapshot.snapshot import Snapshot


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
    applies : callable
        Returns whether a run logs what the tab shows; the tab is left out if not.
    """

    key: str
    title: str
    about: str
    make: Callable[[Context], ActiveView]
    applies: Callable[[Snapshot], bool] = lambda _: True


def _token_ranking(context: Context) -> TokenRanking:
    """Make the ranking; a click on one of its tokens opens the tokens of the sample that was clicked."""
    ranking = TokenRanking(context)
    ranking.param.watch(lambda _: setattr(context, "tab", "tokens"), "picks")
    return ranking


#: All tabs, in the order of the screen.
TABS: tuple[Tab, ...] = (
    Tab("conversation", marked("Conversation"), marked("sample"), ConversationTab),
    Tab("tokens", marked("Tokens"), marked("sample"), TokensTab),
    Tab("reference", marked("Text"), marked("sample"), ReferenceTab),
    Tab("diff", marked("Diff"), marked("sample"), ResponseDiff),
    Tab("group", marked("Group"), marked("sample"), GroupsTab),
    Tab("prompt", marked("History"), marked("sample"), PromptsTab),
    Tab("ranking", marked("Token ranking"), marked("step"), _token_ranking),
    Tab("timeline", marked("Timeline"), marked("step"), TimelineTab, has_times),
    Tab("runs", marked("Compare runs"), marked("run"), RunsTab),
    Tab("explain", marked("Explain"), marked("run"), ExplainTab),
)


#: Tab that is open by default, and the one for a sample with several turns or without tokens.
_DEFAULT, _DEFAULT_OF_TEXTS = "tokens", "conversation"


def position_of(key: str) -> int:
    """Return the position of a tab in `TABS`; the default where no tab has this key."""
    keys = [tab.key for tab in TABS]
    return keys.index(key if key in keys else _DEFAULT)


def tab_for(sample: Sample | None) -> str:
    """Return the key of the tab that shows a sample while the viewer has not chosen one."""
    if sample is None:
        return _DEFAULT
    has_tokens = sample.response_tokens is not None or bool(sample.arrays())
    return _DEFAULT if has_tokens and not has_turns(sample) else _DEFAULT_OF_TEXTS
