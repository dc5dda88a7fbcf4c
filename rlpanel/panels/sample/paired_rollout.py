"""Another rollout of the sample's group, read beside it from the turn on at which the two part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.siblings import counterpart, rollout_labels, same_group
from rlpanel.panels.compare.turn_alignment import align_turns, response_blocks
from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.panels.conversation.conversation_view import ConversationView
from rlpanel.panels.inputs.input_fields import FieldRow, button, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.sample.follow_selection import follow_selection
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.token_view import sample_scales
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView

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
