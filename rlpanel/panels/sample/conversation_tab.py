"""Tab with the conversation of the shown sample, and on demand another rollout of its group beside it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.compare.siblings import same_group
from rlpanel.panels.conversation.conversation_view import ConversationView, unplayed
from rlpanel.panels.conversation.image_strip import find_image
from rlpanel.panels.language.labels import said, tr
from rlpanel.panels.sample.follow_selection import follow_selection
from rlpanel.panels.sample.paired_rollout import PairedRollout
from rlpanel.panels.samples.episode_traces import traces_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.token_view import sample_scales
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import PlayableMedium, playable
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible
from rlpanel.update.sample_turns import SampleTurns, sample_turns

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
