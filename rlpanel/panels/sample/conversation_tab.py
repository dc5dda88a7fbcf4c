"""Tab with the conversation of the shown sample, and on demand another rollout of its group beside it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.siblings import counterpart, rollout_labels, same_group
from rlpanel.panels.compare.turn_pair import align_turns, response_blocks
from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.panels.conversation.conversation_view import ConversationView, follow_selection, unplayed
from rlpanel.panels.conversation.image_strip import find_image
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import said, tr
from rlpanel.panels.samples.grid_cells import traces_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.token_view import sample_scales
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.sample_media import PlayableMedium, playable
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible
from rlpanel.update.update_tree import SampleTurns, sample_turns

# -- paired rollout ------------------------------------------------------------------------------------
# Another rollout of the sample's group, read beside it from the turn on at which the two part.


#: Most rollouts of the group that are listed.
MAX_LISTED = 200


@dataclass(frozen=True)
class FoundPair:
    """A second rollout, and where it parts from the first.

    Attributes
    ----------
    sample : Sample or None
        None if it cannot be read.
    why : str
        Why it was chosen, or why it cannot be read.
    parting : int or None
        Position of the first message of the responses that is not the same; None if all are.
    turn : int
        Number of the first turn that is not the same; 0 if all are the same, or no turn follows.
    reason : str
        How they part.
    """

    sample: Sample | None
    why: str = ""
    parting: int | None = None
    turn: int = 0
    reason: str = ""


class PairedRollout(Viewer):
    """Conversation of the rollout that the selection's ``pair`` names, with a head that says where it parts.

    Parameters
    ----------
    context : Context
    first : ConversationView
        The shown sample's conversation; both scroll to the message at which they part.
    """

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is read before.")
    shown = param.Boolean(default=False, doc="Whether a second rollout is shown.")

    def __init__(self, context: Context, first: ConversationView, **params: Any) -> None:
        super().__init__(**params)
        self.context, self._first = context, first
        self._updating, self._drawn, self._jumps = False, ("", ""), 0
        self._found = FoundPair(None)
        self._finding: BackgroundTask[FoundPair] = BackgroundTask(self._show, context.threads.views)
        selection = context.selection
        self.view = ConversationView(
            context.threads.views, dark=selection.dark, metric=selection.metric, paired=True
        )
        follow_selection(self.view, selection, ("metric", "scale"))
        selection.param.watch(lambda event: setattr(self.view, "mode", event.new), "mode")
        self.view.mode = selection.mode
        self._choice = select_field("pair", tr("Rollout beside it"), 230)
        self._choice.param.watch(self._on_choice, "value")
        self._words = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(2, 4), css_classes=["rl-parting"]
        )
        self._column = pn.Column(
            FieldRow(
                self._choice,
                button(tr("Where they part"), self._jump, css_classes=["rl-to-parting"]),
                button("✕", self._close, description=tr("Close the rollout beside it (b)")),
                margin=0,
            ),
            self._words,
            self.view,
            sizing_mode="stretch_both",
            margin=0,
            css_classes=["rl-paired"],
            visible=False,
        )
        context.param.watch(self._draw, ["sample", "text_conditions"])
        context.display.param.watch(self._draw, ["pad_token", "kl_estimator"])
        selection.param.watch(self._draw, "pair")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def toggle(self, *_: Any) -> None:
        """Open the rollout of the group that is the most instructive beside the sample, or close it."""
        context, sample = self.context, self.context.sample
        if context.selection.pair:
            self._close()
        elif sample is not None and context.index is not None:
            context.selection.turn = None
            self._finding.start(_proposed(context.index, context.view, sample))

    def _close(self, *_: Any) -> None:
        self.context.selection.pair = ""

    def _on_choice(self, event: Any) -> None:
        if not self._updating and event.new:
            self.context.selection.param.update(pair=event.new, turn=None)

    def _draw(self, *_: Any) -> None:
        """Show the rollout of the address; one of another group is closed with the sample."""
        context = self.context
        sample, pair = context.sample, context.selection.pair
        if not self.active:
            return
        no_rows = np.empty(0, int)
        rows = same_group(context.snapshot, sample) if sample is not None and pair else no_rows
        options = {} if sample is None else rollout_labels(context.snapshot, sample, rows[:MAX_LISTED])
        self.shown = pair in options.values()
        if sample is None or context.index is None or not self.shown:
            self._drawn = "", ""
            self._first.parting = {}
            if sample is not None and pair and context.selection.uid in ("", sample.uid):
                context.selection.pair = ""  # else the sample of the address is read first
            return
        self._updating = True
        self._choice.param.update(options=options, value=pair)
        self._updating = False
        self.view.param.update(
            tests=context.text_conditions,
            pad_token=context.display.pad_token,
            kl_estimator=context.display.kl_estimator,
        )
        if (sample.uid, pair) == self._drawn:
            return
        self._drawn = sample.uid, pair
        self._words.html = note_html(tr("Comparing …"))
        self._finding.start(_found(context.index, context.view, sample, pair))

    def _show(self, found: FoundPair) -> None:
        """Show the second rollout; one that was just chosen is put into the address, which shows it."""
        other, sample = found.sample, self.context.sample
        if other is None or sample is None:
            self._words.html = note_html(found.why)
            return
        if self.context.selection.pair != other.uid:
            self._found = found
            self.context.selection.pair = other.uid
            return
        why = self._found.why if self._found.sample and self._found.sample.uid == other.uid else ""
        self._found = FoundPair(other, why, found.parting, found.turn, found.reason)
        self.view.param.update(sample=other, scales=sample_scales(self.context.snapshot, other))
        self._words.html = note_html(_parting_text(self._found))
        self._mark(goes=self.context.selection.turn is None)

    def _jump(self, *_: Any) -> None:
        self._mark(goes=True)

    def _mark(self, *, goes: bool) -> None:
        """Mark the first different message in both conversations, and scroll to it if ``goes``."""
        found = self._found
        self._jumps += goes
        for view in (self._first, self.view):
            blocks = view.blocks
            given = sum(block.given for block in blocks)
            at = len(blocks) - 1 if found.parting is None else given + found.parting
            view.parting = {
                "uid": "" if view.sample is None else view.sample.uid,
                "message": min(at, len(blocks) - 1),
                "words": "" if found.parting is None or at >= len(blocks) else tr(found.reason),
                "jump": self._jumps if goes and found.parting is not None else 0,
            }


def _proposed(index: RunIndex, view: RunView, sample: Sample) -> Iterator[FoundPair]:
    """Yield the rollout of the group to read beside a sample, and why it is chosen."""
    rows = same_group(view.snapshot, sample)
    if not len(rows):
        yield FoundPair(None, tr("This sample has no other rollout in its group."))
        return
    row, why = counterpart(index, view.snapshot, sample, rows)
    try:
        yield FoundPair(fetch(index, view, row), why)
    except RLPanelError as error:
        yield FoundPair(None, str(error))


def _found(index: RunIndex, view: RunView, sample: Sample, uid: str) -> Iterator[FoundPair]:
    """Yield a rollout by its uid, and where it parts from the sample."""
    try:
        other = fetch(index, view, view.snapshot.row(uid))
    except RLPanelError as error:
        yield FoundPair(None, str(error))
        return
    found = align_turns(response_blocks(sample), response_blocks(other))
    if found.parting is None:
        yield FoundPair(other)
        return
    rest: list[MessageBlock] = [*found.left[found.parting :], *found.right[found.parting :]]
    turn = next((block.turn for block in rest if block.turn), 0)
    yield FoundPair(other, "", found.parting, turn, found.reason)


def _parting_text(found: FoundPair) -> str:
    if found.parting is None:
        text = tr("Both do the same in all turns.")
    elif found.turn:
        text = tr("First different turn: {turn:,}, {reason}.", turn=found.turn, reason=tr(found.reason))
    else:
        text = tr("First difference: {reason}.", reason=tr(found.reason))
    if not found.why:
        return text
    chosen = tr("Chosen here: {why}.", why=found.why)
    return f"{text} {chosen}"


# -- conversation tab ----------------------------------------------------------------------------------


_SETTINGS = ("pad_token", "kl_estimator")


class ConversationTab(Viewer):
    """Conversation of the shown sample; metric and pinned token go both ways with the selection.

    The second rollout is that of the selection's ``pair``; see `PairedRollout`.
    """

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
        self._pair = PairedRollout(context, self._view)
        self._pair.view.find_image = self._find_image
        self._pair.view.find_medium = self._find_medium
        # Panel draws a component again that was hidden itself, so that its players would go on.
        self._column = pn.Row(
            self._view,
            sizing_mode="stretch_both",
            margin=(8, 14),
            css_classes=["rl-conversations"],
            stylesheets=[read_assets("panels/sample/conversations.css")],
        )
        follow_selection(self._view, selection)
        self._view.mode = selection.mode
        selection.param.watch(lambda event: setattr(self._view, "mode", event.new), "mode")
        self._view.param.watch(lambda event: setattr(selection, "mode", event.new), "mode")
        self._view.param.watch(lambda _: setattr(selection, "tab", "tokens"), "opened")
        self._view.param.watch(self._choose_trace, "trace")
        self._view.param.watch(self._weigh, "drawn")
        self._view.param.watch(self._pair.toggle, "pairs")
        self._pair.param.watch(self._place_pair, "shown")
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
        self._pair.active = self.active
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
                others=0 if sample is None else len(same_group(snapshot, sample)),
                scales=sample_scales(snapshot, sample),
                **settings,
            )
        self._weigh()

    def _place_pair(self, *_: Any) -> None:
        """Put the second rollout beside the first one, or take it away."""
        pair = self._pair.__panel__()
        if self._pair.shown and pair not in self._column.objects:
            self._column.append(pair)
        pair.visible = self._pair.shown

    def _weigh(self, *_: Any) -> None:
        """Compute the weights of the turns in the gradient, on a thread, once the texts are painted."""
        index, sample = self.context.index, self.context.sample
        key = (index, sample and sample.uid)
        if key != self._weighed:
            self._weighing.stop()
        if sample is None or key == self._weighed or self._view.drawn != sample.uid:
            return
        self._weighed = key
        if index is not None and self._view.turns > 1:
            self._weighing.start(sample_turns(index, self.context.view, sample.uid))

    def _show_weights(self, found: SampleTurns) -> None:
        turns, stretches, why = self._view.turns, len(found.shares), said(found.why)
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
