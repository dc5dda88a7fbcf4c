"""The tabs below a sample's header; a new tab is one view and one line in `TABS`.

Here are those of the conversation, of the tokens, and of the reference's response and the ground truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.episode_tree import has_trees
from rlpanel.errors import RLPanelError
from rlpanel.number_text import number
from rlpanel.panels.compare.response_diff import ResponseDiff
from rlpanel.panels.conversation.conversation_payload import has_turns
from rlpanel.panels.conversation.conversation_view import ConversationView, unplayed
from rlpanel.panels.conversation.image_strip import ImageStrip, find_image
from rlpanel.panels.endings.judging_tab import JudgingTab, has_judging
from rlpanel.panels.groups.groups_tab import GroupsTab
from rlpanel.panels.inputs.tab_bar import Tab
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.prompts.prompts_tab import PromptsTab
from rlpanel.panels.samples.episode_traces import traces_of
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.prompt_text import answer_html, extra_html, prompt_block, text_pane
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.tokens.token_view import TokenView, sample_scales
from rlpanel.panels.tree.tree_tab import TreeTab
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import PlayableMedium, playable
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible
from rlpanel.texts.prompt_parts import TextStyle
from rlpanel.update.sample_turns import SampleTurns, sample_turns


def _follow_selection(view: TokenView | ConversationView, selection: Selection) -> None:
    """Let a view follow the theme; its metric, scale and pinned token go both ways with the selection."""
    view.scale = selection.scale
    for name in ("metric", "token", "scale"):
        selection.param.watch(lambda event: setattr(view, event.name, event.new), name)
        view.param.watch(lambda event: setattr(selection, event.name, event.new), name)
    selection.param.watch(lambda event: setattr(view, "dark", event.new), "dark")


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
        _follow_selection(self._tokens, selection)
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


_SETTINGS = ("pad_token", "kl_estimator")


class ConversationTab(Viewer):
    """Conversation of the shown sample; metric and pinned token go both ways with the selection."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        selection = context.selection
        self._view = ConversationView(context.threads.views, dark=selection.dark, metric=selection.metric)
        self._weighing: BackgroundTask[SampleTurns] = BackgroundTask(
            self._show_weights, context.threads.queries
        )
        self._weighed: tuple[object, ...] = ()
        self._view.find_image = self._find_image
        self._view.find_medium = self._find_medium
        # Panel draws a component again that was hidden itself, so that its players would go on.
        self._column = pn.Column(self._view, sizing_mode="stretch_both", margin=(8, 14))
        _follow_selection(self._view, selection)
        self._view.mode = selection.mode
        selection.param.watch(lambda event: setattr(self._view, "mode", event.new), "mode")
        self._view.param.watch(lambda event: setattr(selection, "mode", event.new), "mode")
        self._view.param.watch(lambda _: setattr(selection, "tab", "tokens"), "opened")
        self._view.param.watch(self._choose_trace, "trace")
        selection.param.watch(lambda event: setattr(self._view, "turn", event.new), "turn")
        self._view.param.watch(self._keep_turn, ["turn", "chosen"])
        context.param.watch(self._draw, ["sample", "text_conditions"])
        context.param.watch(self._scale, "view")
        context.display.param.watch(self._draw, [*_SETTINGS])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if not self.active:
            self._weighing.stop()
            self._weighed = ()
            return
        context = self.context
        sample, snapshot = context.sample, context.snapshot
        traces = traces_of(snapshot, sample.uid) if sample is not None else []
        settings = {name: getattr(context.display, name) for name in _SETTINGS}
        with pn.io.hold():
            self._view.param.update(
                sample=sample,
                token=context.selection.token,
                turn=context.selection.turn,
                tests=context.text_conditions,
                traces=[[uid, escape_invisible(name)] for uid, name in traces],
                scales=sample_scales(snapshot, sample),
                **settings,
            )
        self._weigh(sample)

    def _weigh(self, sample: Sample | None) -> None:
        """Compute the weights of the turns in the gradient, on a thread; nothing for a single turn."""
        index = self.context.index
        key = (index, sample and sample.uid)
        if key == self._weighed:
            return
        self._weighed = key
        self._weighing.stop()
        if sample is not None and index is not None and self._view.turns > 1:
            self._weighing.start(sample_turns(index, self.context.view, sample.uid))

    def _show_weights(self, found: SampleTurns) -> None:
        turns, stretches, why = self._view.turns, len(found.shares), found.why
        if found.shares and stretches != turns:
            why = tr(
                "its tokens in the loss are {stretches:,} stretches, and it has {turns:,} turns",
                stretches=stretches,
                turns=turns,
            )
        shares = [] if why else [list(pair) for pair in found.shares]
        self._view.weights = {"uid": found.uid, "shares": shares, "why": escape_invisible(why)}

    def _scale(self, *_: Any) -> None:
        """Send the colour scales again if a new step changed them."""
        if self.active:
            self._view.scales = sample_scales(self.context.snapshot, self.context.sample)

    def _keep_turn(self, *_: Any) -> None:
        """Let the address name the turn in sight; a reader who went there keeps the sample."""
        view, selection = self._view, self.context.selection
        if view.chosen and view.turn and not selection.uid and view.sample is not None:
            selection.param.update(uid=view.sample.uid, follow=False, turn=view.turn)
        elif view.sample is self.context.sample:
            selection.turn = view.turn

    def _choose_trace(self, event: Any) -> None:
        if event.new:
            self.context.choose_sample(event.new)
            self._view.trace = ""

    def _find_image(self, sample: Sample, image: Image, full: bool, answer: Any) -> None:
        """Read and decode an image on a thread; ``answer`` gets its data URL, or why there is none."""
        if self.context.index is None:
            return
        task: BackgroundTask[str] = BackgroundTask(answer, self.context.threads.views)
        task.start(find_image(self.context.index, self.context.snapshot, sample.uid, image, full=full))

    def _find_medium(self, sample: Sample, medium: Medium, key: Hashable, answer: Any) -> None:
        """Check audio or video on a thread; ``answer`` gets its address, or why it cannot be played."""
        context = self.context
        if context.index is None or context.media_address is None:
            answer({"reason": unplayed(medium)})
            return
        address = partial(context.media_address, (context.index.name, sample.uid, key))
        task: BackgroundTask[dict[str, str]] = BackgroundTask(answer, self.context.threads.views)
        task.start(_medium_address(context.index, context.snapshot, sample.uid, medium, address))


def _medium_address(
    index: RunIndex, snapshot: Snapshot, uid: str, medium: Medium, address: Callable[[PlayableMedium], str]
) -> Iterator[dict[str, str]]:
    try:
        yield {"address": address(playable(index, snapshot, uid, medium))}
    except RLPanelError as error:
        yield {"reason": escape_invisible(str(error))}


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
