"""Page of the run: pass rate of each prompt at each step, its class and cost, and curriculum files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import pair_of
from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.prompts.class_prompts import ClassPrompts
from rlpanel.panels.prompts.grid_figure import plots_are_imported
from rlpanel.panels.prompts.pass_grid import PassGrid, PassGridHead
from rlpanel.panels.prompts.prompt_results import (
    PromptReading,
    PromptResults,
    RowsRead,
    read_results,
    reading_of,
)
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.curriculum import curriculum_effect, curriculum_lines
from rlpanel.store.snapshot.prompt_classes import PromptCosts

# -- curriculum foot -----------------------------------------------------------------------------------
# Waste of the run, and the curriculum file of the listed prompts with what it would have saved.


#: Weights of the curriculum file: 0 drops a prompt.
WEIGHTS = (0, 2, 4, 8)
_WASTE = {
    "dead group": marked("dead groups"),
    "discarded": marked("discarded"),
    "failed": marked("failed"),
    "truncated": marked("truncated"),
    "any of these": marked("any of these"),
}


class CurriculumFoot:
    """Facts on waste, and a button that writes a line of JSON for each listed prompt.

    Parameters
    ----------
    context : Context

    Attributes
    ----------
    part : PassGridHead
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: PromptResults | None = None
        self._listed, self._class, self._weight = np.empty(0, int), "", WEIGHTS[0]
        self._writing: BackgroundTask[dict[str, Any]] = BackgroundTask(self._send, context.threads.queries)
        self.part = PassGridHead(sizing_mode="stretch_width", margin=(4, 14), css_classes=["rl-grid-foot"])
        self.part.on_message(self._on_message)

    def draw(self, found: PromptResults, listed: np.ndarray, name: str) -> None:
        """Draw the waste of a run, and what a file of the listed prompts would change.

        Parameters
        ----------
        found : PromptResults
        listed : numpy.ndarray
            Prompts of the file.
        name : str
            Their class, for the file's name; empty for all.
        """
        self._found, self._listed, self._class = found, listed, name
        effect = curriculum_effect(found.costs, listed)
        self.part.data = {
            "facts": facts_of(found.costs),
            "weights": [(str(weight), _weight_title(weight)) for weight in WEIGHTS],
            "weight": str(self._weight),
            "effect": effect.sentence(self._weight, tr),
            "labels": {
                "weight": tr("Curriculum"),
                "download": trn("Download {count:,} prompt", "Download {count:,} prompts", effect.prompts),
                "format": tr("A line of JSON for each prompt: key, id, text, class and weight"),
            },
        }

    def _on_message(self, message: Any) -> None:
        """Handle a click. The message comes from the browser."""
        action, value = pair_of(message)
        if self._found is None:
            return
        if action == "weight" and value in map(str, WEIGHTS):
            self._weight = int(value)
            self.draw(self._found, self._listed, self._class)
        elif action == "download":
            self._download(self._found)

    def _download(self, found: PromptResults) -> None:
        index = self._context.index
        if index is None:
            return
        file = f"{file_name(found.snapshot.name)}-{self._class or 'all'}-weight-{self._weight}.jsonl"
        self.part.send({"name": None})
        self._writing.start(_pieces(index, found, self._listed, self._weight, file))

    def _send(self, message: dict[str, Any]) -> None:
        self.part.send(message)


def facts_of(costs: PromptCosts) -> list[str]:
    """Return short texts on waste by its kind, and on what the run does not log."""
    facts = []
    for each in costs.waste:
        if each.rows is None:
            continue
        parts = [tr("{rows:,} samples", rows=each.rows)]
        if each.rows == 0:
            facts.append(tr("{kind}: none", kind=tr(_WASTE[each.kind])))
            continue
        parts += [] if each.share is None else [f"{each.share:.1%}"]
        parts += [] if each.tokens is None else [tr("{tokens} tokens", tokens=number(each.tokens))]
        parts += [] if each.gpu_hours is None else [tr("{hours} GPU-hours", hours=number(each.gpu_hours))]
        facts.append(tr("{kind}: {parts}", kind=tr(_WASTE[each.kind]), parts=", ".join(parts)))
    if facts:
        facts.insert(0, tr("Waste"))
    facts += [tr("not known: {what}", what=tr(what)) for what in costs.missing()]
    if not costs.grid.advantages:
        facts.append(tr("No advantages are logged: the signal is computed from each group's rewards."))
    return facts


def _weight_title(weight: int) -> str:
    return tr("repeat {weight} times", weight=weight) if weight else tr("drop")


def _pieces(
    index: RunIndex, found: PromptResults, prompts: np.ndarray, weight: int, file: str
) -> Iterator[dict[str, Any]]:
    for lines, _ in curriculum_lines(index, found.snapshot, found.costs, prompts, weight):
        yield {"piece": lines}
    yield {"name": file}


# -- prompts page --------------------------------------------------------------------------------------


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
