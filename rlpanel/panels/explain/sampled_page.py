"""Base of the pages that read some samples of each step by themselves, and all of them on demand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Seconds between two readings of a run that grows, and until few new samples are read as well.
EVERY, PATIENCE = 10.0, 60.0

Found = TypeVar("Found")


class SampledPage(Viewer, Generic[Found]):
    """A note, the buttons *read all* and *stop*, and a view of what was read in the background.

    A run that grows is read on. Subclasses read, show and clear.

    Parameters
    ----------
    context : Context
    view : Component
        It shows what was found.
    kind : str
        The classes are ``rl-KIND``, ``rl-KIND-note``, ``rl-KIND-all`` and ``rl-KIND-stop``.
    read_all : str
        Label of the button that reads all.
    per_step : int
        Most samples of each step that are read without being asked.
    least : int
        New samples that a reading waits for, up to `PATIENCE` seconds: each one has fixed costs.
    clock : callable
        Returns the time in seconds.
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read before.")

    def __init__(
        self,
        context: Context,
        view: Component,
        *,
        kind: str,
        read_all: str,
        per_step: int,
        least: int = 0,
        clock: Callable[[], float] = time.monotonic,
        **params: Any,
    ) -> None:
        super().__init__(**params)
        self.context, self.per_step = context, per_step
        self.most: int | None = per_step
        self._clock = clock
        self._key: tuple[object, ...] = ()
        self._begun, self._reads = 0.0, False
        self._least, self._samples = least, 0
        self._work: BackgroundTask[Found] = BackgroundTask(self.show_found, context.threads.views)
        self.note = Html(
            stylesheets=[theme.CSS, "p { margin: 0; }"], margin=(2, 8), css_classes=[f"rl-{kind}-note"]
        )
        self._all = button(read_all, self._on_all, visible=False, css_classes=[f"rl-{kind}-all"])
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=[f"rl-{kind}-stop"])
        bar = pn.FlexBox(
            self.note,
            self._all,
            self._stop,
            margin=(8, 8, 0, 8),
            gap="4px",
            min_height=34,
            align_items="center",
        )
        self._column = pn.Column(
            bar, view, sizing_mode="stretch_both", scroll="y-auto", margin=0, css_classes=[f"rl-{kind}"]
        )
        context.param.watch(self._draw, ["view", "now"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- of a subclass ---------------------------------------------------------------------------

    def read(self, index: RunIndex, view: RunView) -> Iterator[Found]:
        """Return the results of a reading of up to ``most`` samples of each step."""
        raise NotImplementedError

    def show_found(self, found: Found) -> None:
        """Show a result, by `say_progress`, and by `end` if it is the last."""
        raise NotImplementedError

    def clear(self) -> None:
        """Show nothing, before another run is read."""
        raise NotImplementedError

    # -- reading ---------------------------------------------------------------------------------

    def say_progress(self, words: str) -> None:
        """Show how far the reading is."""
        self.note.html = note_html(words)
        self._stop.visible, self._all.visible = True, False

    def end(self, *, has_more: bool) -> None:
        """End the reading; *read all* stays where samples were left out that were not asked for."""
        self._end()
        self._all.visible = has_more and self.most is not None

    def _draw(self, *_: Any) -> None:
        """Read what is new, unless it is being read already, or was a moment ago."""
        context, snapshot = self.context, self.context.snapshot
        if not self.active:
            if self._reads:  # what was read stays read
                self._end()
                self._key = ()
            return
        if self._key and self._key[0] is not context.index:
            self.most = self.per_step  # all samples were asked for in another run
        run = (context.index, snapshot.split, self.most)
        key = (*run, snapshot.version)
        is_other = self._key[:3] != run
        if key == self._key or (not is_other and not self._is_due(snapshot.samples)):
            return
        if context.index is None or not snapshot.samples:
            self.note.html = note_html(tr("This run has no samples yet."))
            self.clear()
            return
        if is_other:
            self.clear()
        self._key, self._begun, self._reads = key, self._clock(), True
        self._samples = snapshot.samples
        self._work.start(self.read(context.index, context.view))

    def _is_due(self, samples: int) -> bool:
        """Return True if a run that has grown is read on now."""
        waited, is_enough = self._clock() - self._begun, samples - self._samples >= self._least
        return not self._reads and waited >= (EVERY if is_enough else PATIENCE)

    def _end(self) -> None:
        self._work.stop()
        self._reads = self._stop.visible = False

    def _on_all(self, *_: Any) -> None:
        self.most = None
        self._draw()

    def _on_stop(self, *_: Any) -> None:
        self._end()
        self.most = self.per_step
        self._key = (self.context.index, self.context.snapshot.split, self.most, -1)
        self._all.visible = True
        self.note.html = note_html(tr("Stopped. What was read is kept."))
