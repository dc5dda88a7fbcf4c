"""The bar that selects the step: ◀ ▶, a slider over steps of any spacing, and a switch to follow the run."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import safe_text

#: Seconds within which a browser may send back a slider position that it received.
_ECHO_SECONDS = 10.0


class StepBar(Viewer):
    """One row with step buttons, label, slider and switch."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._updating = False
        self._label = HtmlPane(
            "",
            stylesheets=[theme.CSS],
            width=230,
            margin=(0, 4, 0, 8),
            align="center",
            css_classes=["rl-step"],
        )
        self._slider = pmui.IntSlider(
            start=0,
            end=1,
            value=0,
            label="",
            show_value=False,
            tooltips=False,
            size="small",
            sizing_mode="stretch_width",
            margin=(0, 12),
            align="center",
        )
        self._back = self._button("◀", -1, "Previous step (←)")
        self._forward = self._button("▶", 1, "Next step (→)")
        self._follow = pmui.Switch(
            label="Follow latest",
            value=True,
            margin=(0, 8),
            size="small",
            css_classes=["rl-follow"],
            width=130,
            align="center",
        )
        self._bar = pn.Row(
            self._back,
            self._forward,
            self._label,
            self._slider,
            self._follow,
            styles={**theme.CARD, "align-items": "center"},
            height=40,
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-card", "rl-stepbar"],
        )
        self._sent: deque[tuple[float, int, int]] = deque(maxlen=64)  # time, slider position, number of steps
        self._slider.param.watch(self._on_slide, "value_throttled")
        self._slider.param.watch(self._on_drag, "value")
        self._follow.param.watch(self._on_follow, "value")
        context.param.watch(self._draw, "view")
        context.selection.param.watch(self._draw, ["step", "follow"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._bar

    def _button(self, text: str, by: int, tip: str) -> pmui.Button:
        return pmui.Button(
            label=text,
            variant="outlined",
            size="small",
            color="default",
            description=tip,
            width=38,
            height=28,
            margin=(0, 2, 0, 6),
            align="center",
            sx={"minWidth": "34px", "padding": "1px 6px", "borderColor": "divider"},
            on_click=lambda _: self.context.move_step(by),
            css_classes=[f"rl-step-{'back' if by < 0 else 'on'}"],
        )

    def _draw(self, *_: Any) -> None:
        steps, selection = self.context.snapshot.steps, self.context.selection
        position = max(0, steps.position(selection.step) if selection.step is not None else -1)
        self._updating = True
        self._sent.append((time.monotonic(), position, len(steps.values)))
        try:
            with pn.io.hold():
                self._slider.param.update(
                    end=max(1, len(steps.values) - 1), value=position, disabled=len(steps.values) < 2
                )
                self._follow.value = selection.follow
        finally:
            self._updating = False
        self._write_label(selection.step)

    def _write_label(self, step: int | None) -> None:
        steps = self.context.snapshot.steps
        if step is None or not len(steps.values):
            self._label.object = '<span class="note">no steps yet</span>'
            return
        position = steps.position(step)
        count = f", {int(steps.samples[position]):,} samples" if position >= 0 else ""
        self._label.object = (
            f'<b style="font-size:14px">Step {safe_text(step)}</b> '
            f'<span class="note">of {safe_text(int(steps.values[-1]))}{count}</span>'
        )

    def _step_at(self, position: int) -> int | None:
        values = self.context.snapshot.steps.values
        return int(values[min(position, len(values) - 1)]) if len(values) else None

    def _on_drag(self, event: Any) -> None:
        """Update only the label while the slider is dragged; the step is selected when it is released."""
        if self._is_echo(event.new):
            self._draw()
        elif not self._updating:
            self._write_label(self._step_at(event.new))

    def _is_echo(self, position: int) -> bool:
        """Return whether the browser only sends back a position that belonged to another number of steps.

        Positions shift while older steps are read, and a busy browser answers late.
        """
        since, (_, current, count) = time.monotonic() - _ECHO_SECONDS, self._sent[-1]
        outdated = (old for sent_at, old, steps in self._sent if sent_at > since and steps != count)
        return not self._updating and position != current and position in outdated

    def _on_slide(self, event: Any) -> None:
        step = self._step_at(event.new)
        if not self._updating and step != self.context.selection.step:
            self.context.choose_step(step)

    def _on_follow(self, event: Any) -> None:
        if not self._updating:
            self.context.selection.follow = event.new
