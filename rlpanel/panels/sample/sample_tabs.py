"""The tabs below a sample's header; a new tab is one view and one line in `TABS`.

Here are those of the conversation, of the tokens, and of the reference's response and the ground truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.episode_tree import has_trees
from rlpanel.number_text import number
from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.conversation.conversation_payload import has_turns
from rlpanel.panels.conversation.conversation_view import follow_selection
from rlpanel.panels.conversation.image_strip import ImageStrip
from rlpanel.panels.endings.judging_tab import JudgingTab, has_judging
from rlpanel.panels.groups.groups_tab import GroupsTab
from rlpanel.panels.inputs.input_fields import Tab
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.sample.conversation_tab import ConversationTab
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.sample_texts import (
    STYLE_SETTINGS,
    answer_html,
    extra_html,
    prompt_block,
    text_pane,
    text_style,
)
from rlpanel.panels.tokens.token_view import TokenView, sample_scales
from rlpanel.panels.tree.tree_tab import TreeTab
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.prompt_parts import TextStyle


class PromptsTab(Viewer):
    """History of the sample's prompt."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._note = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(10, 14, 0, 14),
            css_classes=["rl-over-time-note"],
        )  # fmt: skip
        self._history = PromptHistory(context, self._show_note)
        self._column = pn.Column(
            self._note,
            self._history,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self.param.watch(self._activate, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _activate(self, *_: Any) -> None:
        self._history.active = self.active

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'


class ReferenceTab(Viewer):
    """Prompt, logged answers side by side with their rewards, and all other keys of the sample's line."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._images = ImageStrip(context)
        self._texts = text_pane("rl-pair")
        self._column = pn.Column(
            self._images, self._texts, sizing_mode="stretch_both", scroll="y-auto", margin=0
        )
        context.param.watch(self._draw, ["sample", "text_conditions", "end_in_sight"])
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if self.active:
            context, sample = self.context, self.context.sample
            self._images.sample = sample
            at_end = sample is not None and context.end_in_sight == sample.uid
            self._texts.html = _answers_html(
                sample, text_style(context), context.text_conditions, at_end=at_end
            )


#: Most characters of a ground truth that stays in sight while the response is scrolled.
_SHORT_TRUTH = 200


def _answers_html(
    sample: Sample | None, style: TextStyle, tests: Sequence[TextPredicate], *, at_end: bool = False
) -> str:
    """The answers that were logged, side by side below the prompt; what the tests find is marked.

    The browser scrolls to the end of the response if ``at_end``.
    """
    if sample is None:
        return ""
    texts = (
        ("response", tr("Response"), sample.reward, sample.valid_reward, "policy"),
        ("ref_response", tr("Reference response"), sample.ref_reward, sample.ref_valid_reward, "reference"),
        ("ground_truth", tr("Ground truth"), math.nan, math.nan, "good"),
    )
    finder = PlaceFinder(tests)
    cells = "".join(
        f'<section{_stays(name, text)}><h5><span class="{color}">{title}</span>'
        f"{_score('reward', reward)}{_score('valid', valid)}</h5>"
        f"<p>{answer_html(text, style, finder.places(name, text))}</p>"
        f"{'<i data-in-sight></i>' if at_end and name == 'response' else ''}</section>"
        for name, title, reward, valid, color in texts
        if (text := getattr(sample, name)) is not None
    )
    gaps = "".join(
        f"<span>{label} <b>{number(sample.columns[name], sign=True)}</b></span>"
        for name, label in (("reward_gap", "reward gap"), ("valid_reward_gap", "valid reward gap"))
        if not math.isnan(sample.columns.get(name, math.nan))
    )
    return (
        prompt_block(sample, style, tests)
        + (f'<div class="gaps">{gaps}</div>' if gaps else "")
        + f'<div class="pair">{cells}</div>'
        + extra_html(sample)
    )


def _stays(name: str, text: str) -> str:
    """Return the class of a short ground truth, which stays in sight beside a long response."""
    return ' class="short"' if name == "ground_truth" and len(text) <= _SHORT_TRUTH else ""


def _score(label: str, value: float) -> str:
    return "" if math.isnan(value) else f"<em>{label} <b>{number(value)}</b></em>"


class TokensTab(Viewer):
    """Prompt and token view of the shown sample; metric and pinned token go both ways with the selection."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        selection = context.selection
        self._prompt = text_pane("rl-prompt")
        self._images = ImageStrip(context)
        self._tokens = TokenView(dark=selection.dark, metric=selection.metric)
        self._tokens.__panel__().margin = (0, 14)
        self._column = pn.Column(
            self._prompt,
            self._images,
            self._tokens,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        follow_selection(self._tokens, selection)
        context.param.watch(self._draw, "sample")
        context.param.watch(self._scale, "view")
        context.param.watch(self._draw_prompt, "text_conditions")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "kl_estimator"])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        sample, display = self.context.sample, self.context.display
        with pn.io.hold():
            self._draw_prompt()
            self._images.sample = sample
            self._tokens.param.update(
                sample=sample,
                pad_token=display.pad_token,
                kl_estimator=display.kl_estimator,
                token=self.context.selection.token,
                scales=sample_scales(self.context.snapshot, sample),
            )

    def _scale(self, *_: Any) -> None:
        """Send the colour scales again if a new step changed them."""
        if self.active:
            self._tokens.scales = sample_scales(self.context.snapshot, self.context.sample)

    def _draw_prompt(self, *_: Any) -> None:
        if self.active:
            context = self.context
            self._prompt.html = prompt_block(context.sample, text_style(context), context.text_conditions)


#: All tabs, in the order of the screen.
TABS: tuple[Tab, ...] = (
    Tab("conversation", marked("Conversation"), ConversationTab),
    Tab("tokens", marked("Tokens"), TokensTab),
    Tab("reference", marked("Text"), ReferenceTab),
    Tab("diff", marked("Diff"), ResponseDiff),
    Tab("group", marked("Group"), GroupsTab),
    Tab("prompt", marked("History"), PromptsTab),
    Tab("tree", marked("Tree"), TreeTab, has_trees),
    Tab("judging", marked("Judging"), JudgingTab, has_judging),
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
    has_tokens = sample.response_tokens is not None or bool(sample.arrays() or sample.token_arrays)
    return _DEFAULT if has_tokens and not has_turns(sample) else _DEFAULT_OF_TEXTS
