"""Page of the run: pass rate of each prompt at each step, its class and cost, and curriculum files."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.prompts.class_prompts import ClassPrompts
from rlpanel.panels.prompts.curriculum_foot import CurriculumFoot
from rlpanel.panels.prompts.grid_figure import plots_are_imported
from rlpanel.panels.prompts.pass_grid import PassGrid
from rlpanel.panels.prompts.prompt_results import (
    PromptReading,
    PromptResults,
    RowsRead,
    read_results,
    reading_of,
)
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.text_style import STYLE_SETTINGS
from rlpanel.panels.ui.theme import note_html

#: Runs of up to this many samples are computed on the event loop, larger ones on a thread, by default.
COUNT_NOW = 50_000


class PromptsPage(Viewer):
    """Grid of pass rates, and a table of the prompts of a class; a click opens a prompt's history.

    Parameters
    ----------
    context : Context
    count_now : int
        Samples up to which a run is computed on the event loop.
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is computed before.")

    def __init__(self, context: Context, *, count_now: int = COUNT_NOW, **params: Any) -> None:
        super().__init__(**params)
        self.context, self._count_now = context, count_now
        self._found: PromptResults | None = None
        self._shown = np.empty(0, int)  # prompts of the category
        self._snapshot = context.snapshot
        self._reading: PromptReading | None = None
        self._stopped = False
        self._has_newer = False  # the run has grown since the reading began
        self._work: BackgroundTask[RowsRead | PromptResults] = BackgroundTask(
            self._show, context.threads.pages
        )
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-prompts-stop"])
        self.grid = PassGrid(context, self._pick)
        self.list = ClassPrompts(context, self._pick)
        self.foot = CurriculumFoot(context)
        self._column = pn.Column(
            *(self.grid.head, self.grid.figure, self.list.bar, self.list.note),
            *(self._stop, self.foot.part, self.list.table),
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-prompts"],
        )
        selection = context.selection
        context.param.watch(self._on_view, "view")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "stuck_steps"])
        selection.param.watch(self._redraw_all, "dark")
        selection.param.watch(self._on_category, "prompt_category")
        selection.param.watch(self._list, "prompt_class")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _on_view(self, event: Any) -> None:
        """Draw again for another run, and when a step is complete."""
        new, old = event.new.snapshot, event.old.snapshot
        is_other = new.name != old.name or new.split != old.split or new.counts_rows != old.counts_rows
        if (
            is_other
            or new.constants != old.constants
            or not np.array_equal(new.steps.values, old.steps.values)
        ) and (is_other or not self._stopped):
            # A run that grows faster than its prompts are read would otherwise never show any.
            self._has_newer = self._work.is_running and not is_other
            if not self._has_newer:
                self._draw()

    def _draw(self, *_: Any) -> None:
        self._work.stop()
        self._stop.visible = self._stopped = self._has_newer = False
        if not self.active or self.context.index is None:
            self.grid.stop()
            return
        snapshot = self.context.snapshot
        if snapshot.name != self._snapshot.name or snapshot.split != self._snapshot.split:
            self.grid.forget_zoom()
        self._reading = reading_of(self.context.index, snapshot)  # held: other pages of the run share it
        results = read_results(snapshot, self._reading, self.context.display.stuck_steps)
        self._snapshot = snapshot
        if snapshot.samples <= self._count_now and plots_are_imported():
            for found in results:
                self._show(found)
        else:
            self._stop.param.update(label=tr("Stop"), visible=snapshot.samples > self._count_now)
            self._work.start(self.context.threads.before_findings(results))

    def _on_stop(self, *_: Any) -> None:
        """Stop reading, or read on from where it was stopped."""
        if self._stopped:
            self._draw()
            return
        self._work.stop()
        self._stopped = True
        self._stop.label = tr("Read on")
        self.list.note.html = note_html(tr("Stopped. The pass rates of the samples read so far are kept."))

    def _show(self, found: RowsRead | PromptResults) -> None:
        if isinstance(found, RowsRead):
            self.list.note.html = note_html(
                tr("Reading samples: {read:,} of {total:,} …", read=found.read, total=found.total)
            )
            return
        self._stop.visible = False
        self._found = found
        self._redraw_all()
        if self._has_newer:
            self._draw()

    def _redraw_all(self, *_: Any) -> None:
        """Show the results in the current category, class and theme."""
        if self.active and self._found is not None:
            self._shown = self._found.in_category(self.context.selection.prompt_category)
            self.grid.draw(self._found, self._shown)
            self._list()

    def _on_category(self, *_: Any) -> None:
        self.grid.forget_zoom()
        self._redraw_all()

    def _list(self, *_: Any) -> None:
        if self.active and self._found is not None:
            name, listed = self.list.draw(self._found, self._shown)
            self.foot.draw(self._found, listed, name)

    def _pick(self, uid: str) -> None:
        """Open the history of a prompt at its newest sample."""
        self.context.choose_sample(uid)
        self.context.selection.param.update(page="samples", tab="prompt")
