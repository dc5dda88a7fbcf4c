"""Step bar: ◀ ▶, a slider over the steps, and a switch to follow the newest one."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.language.labels import tr, trn
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.remark_labels import step_doubts
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class StepBar(Component):
    """Buttons, label, slider and switch, drawn by ``step_bar.js``; sends what the user does with them.

    It never sends a value that it received. If the server changed a value twice in a short time, the first
    one would return as if the user had chosen it.

    A message is a pair of an action and its argument: ``["move", ±1]``, ``["show", share]`` while the slider
    is dragged, ``["select", share]`` when it is released, ``["follow", true or false]``. A share is the
    slider's position from 0 (first step) to 1 (last step).
    """

    steps = param.Integer(default=0, doc="Number of steps.")
    position = param.Integer(default=0, doc="Position of the selected step, from 0.")
    label = param.String(default="", doc="Name of the step that is selected or dragged to; empty for none.")
    note = param.String(default="", doc="Text behind the label.")
    doubts = param.String(default="", doc="Remarks on the step's samples; empty for none.")
    follow = param.Boolean(default=True, doc="Whether the newest complete step is selected automatically.")

    _esm = read_assets("panels/ui/dom.js", "panels/step/step_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/step/step_bar.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(
            styles=theme.CARD,
            height=40,
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-card", "rl-stepbar"],
        )
        self.context = context
        context.param.watch(self._draw_later, "view")
        context.selection.param.watch(self._draw_later, ["step", "follow"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Handle what the user did. The message comes from the browser."""
        action, value = pair_of(message)
        if action == "move" and value in (-1, 1):
            self.context.move_step(int(value))
        elif action == "show" and _is_share(value):
            self.param.update(self._texts(self._step_at(value)))
        elif action == "select" and _is_share(value):
            self.context.choose_step(self._step_at(value))
            self._draw()
        elif action == "follow" and isinstance(value, bool):
            self.context.selection.follow = value

    def _draw_later(self, *_: Any) -> None:
        self.context.draw_later(self._draw)

    def _draw(self) -> None:
        steps, selection = self.context.snapshot.steps, self.context.selection
        position = steps.position(selection.step) if selection.step is not None else -1
        self.param.update(
            steps=len(steps.values),
            position=max(0, position),
            follow=selection.follow,
            **self._texts(selection.step),
        )

    def _texts(self, step: int | None) -> dict[str, str]:
        """Return the label of a step, and the texts behind it."""
        steps = self.context.snapshot.steps
        if step is None or not len(steps.values):
            return {"label": "", "note": tr("no steps yet"), "doubts": ""}
        position = steps.position(step)
        count = (
            trn(", {count:,} sample", ", {count:,} samples", int(steps.samples[position]))
            if position >= 0
            else ""
        )
        if position >= 0 and steps.episodes[position] != steps.samples[position]:
            count += trn(", {count:,} episode", ", {count:,} episodes", int(steps.episodes[position]))
        place = tr("of {last}", last=int(steps.values[-1])) if len(steps.values) > 1 else tr("· the only one")
        return {
            "label": tr("Step {step}", step=step),
            "note": f"{place}{count}",
            "doubts": " · ".join(step_doubts(self.context.snapshot, step)),
        }

    def _step_at(self, share: float) -> int | None:
        """Return the step at a share of the slider; steps may have been added since the browser drew it."""
        values = self.context.snapshot.steps.values
        return int(values[round(share * (len(values) - 1))]) if len(values) else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1
