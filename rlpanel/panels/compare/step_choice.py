"""Choice of the compared samples of a run: of each prompt's newest or first step, or of some steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
from panel.viewable import Viewer

from rlpanel.board_url import BEST, FIRST, NEWEST, steps_at
from rlpanel.panels.inputs.input_fields import integer_field, select_field
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.snapshot import Snapshot

_STEP = "step"
#: Names of the choices of samples.
CHOICES = {
    NEWEST: marked("newest step of each prompt"),
    FIRST: marked("first step of each prompt"),
    BEST: marked("best step"),
}


class StepChoice(Viewer):
    """Choice of the samples that represent a run: the newest or first step of each prompt, or some steps."""

    def __init__(self, context: Context, name: str) -> None:
        super().__init__()
        self._selection, self._name = context.selection, name
        css = name.replace("_", "-")
        self._mode = select_field(css, tr("Steps of each prompt"), 220)
        self._mode.options = {
            tr("Newest step of each prompt"): NEWEST,
            tr("First step of each prompt"): FIRST,
            tr("Best step"): BEST,
            tr("Given steps"): _STEP,
        }
        self._first = integer_field(f"{css}-step", tr("First of the steps"), 90, visible=False)
        self._last = integer_field(f"{css}-last", tr("Last of the steps"), 90, visible=False)
        self._steps = np.empty(0, np.int64)
        self._updating = False
        for field in (self._mode, self._first, self._last):
            field.param.watch(self._on_choice, "value")
        context.selection.param.watch(self._show, name)
        self._show()

    def __panel__(self) -> pn.viewable.Viewable:
        return pn.Row(self._mode, self._first, self._last, margin=0)

    def set_steps(self, snapshot: Snapshot) -> None:
        """Take the steps of a run."""
        self._steps = snapshot.steps.values

    def _show(self, *_: Any) -> None:
        chosen = getattr(self._selection, self._name)
        given = chosen not in CHOICES
        self._updating = True
        self._mode.value = _STEP if given else chosen
        self._first.visible = self._last.visible = given
        if given:
            self._first.value, self._last.value = steps_at(chosen)
        self._updating = False

    def _on_choice(self, event: Any) -> None:
        if self._updating:
            return
        if self._mode.value != _STEP:
            setattr(self._selection, self._name, self._mode.value)
        elif event.obj is self._mode:
            newest = int(self._steps[-1]) if len(self._steps) else 0
            setattr(self._selection, self._name, str(newest))
        elif self._first.value is not None and self._last.value is not None:
            first, last = self._first.value, self._last.value
            # The field that was changed takes the other one with it where they would cross.
            first, last = (first, max(first, last)) if event.obj is self._first else (min(first, last), last)
            setattr(self._selection, self._name, str(first) if first == last else f"{first}..{last}")
