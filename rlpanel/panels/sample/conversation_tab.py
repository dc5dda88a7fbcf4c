"""The tab of a sample's conversation: messages, tool calls, images, and the tokens of each turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError
from rlpanel.panels.conversation.conversation_view import ConversationView, unplayed
from rlpanel.panels.samples.episode_traces import traces_of
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.safe_image import FULL, THUMBNAIL, BadImage, image_url
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import PlayableMedium, image_bytes, playable
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible

_SETTINGS = ("pad_token", "kl_estimator")


class ConversationTab(Viewer):
    """Conversation of the shown sample; metric and pinned token go both ways with the selection."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        selection = context.selection
        self._view = ConversationView(context.threads.views, dark=selection.dark, metric=selection.metric)
        self._view.find_image = self._find_image
        self._view.find_medium = self._find_medium
        # Panel draws a component again that was hidden itself, so that its players would go on.
        self._column = pn.Column(self._view, sizing_mode="stretch_both", margin=(8, 14))
        for name in ("metric", "token"):
            selection.param.watch(lambda event: setattr(self._view, event.name, event.new), name)
            self._view.param.watch(lambda event: setattr(selection, event.name, event.new), name)
        selection.param.watch(lambda event: setattr(self._view, "dark", event.new), "dark")
        self._view.param.watch(lambda _: setattr(context, "tab", "tokens"), "opened")
        self._view.param.watch(self._choose_trace, "trace")
        context.param.watch(self._draw, "sample")
        context.display.param.watch(self._draw, [*_SETTINGS])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        context = self.context
        sample, snapshot = context.sample, context.snapshot
        traces = traces_of(snapshot, sample.uid) if sample is not None else []
        settings = {name: getattr(context.display, name) for name in _SETTINGS}
        with pn.io.hold():
            self._view.param.update(
                sample=sample,
                token=context.selection.token,
                traces=[[uid, escape_invisible(name)] for uid, name in traces],
                **settings,
            )

    def _choose_trace(self, event: Any) -> None:
        if event.new:
            self.context.choose_sample(event.new)
            self._view.trace = ""

    def _find_image(self, sample: Sample, image: Image, full: bool, answer: Any) -> None:
        """Read and decode an image on a thread; ``answer`` gets its data URL, or why there is none."""
        if self.context.index is None:
            return
        task: BackgroundTask[str] = BackgroundTask(answer, self.context.threads.views)
        task.start(_image_address(self.context.index, self.context.snapshot, sample.uid, image, full=full))

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


def _image_address(
    index: RunIndex, snapshot: Snapshot, uid: str, image: Image, *, full: bool
) -> Iterator[str]:
    try:
        yield image_url(image_bytes(index, snapshot, uid, image), longest=FULL if full else THUMBNAIL)
    except (RLPanelError, BadImage) as error:
        yield str(error)
