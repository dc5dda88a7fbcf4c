"""When? The selected step: ◀ ▶, a slider over steps of any spacing, and follow-latest."""

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

#: Seconds within which a browser answers.
_ECHO = 10.0


class StepBar(Viewer):
    """One line that holds the run's time."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._quiet = False
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
        self._on = self._button("▶", 1, "Next step (→)")
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
            self._on,
            self._label,
            self._slider,
            self._follow,
            styles={**theme.CARD, "align-items": "center"},
            height=40,
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-card", "rl-stepbar"],
        )
        self._sent: deque[tuple[float, int, int]] = deque(maxlen=64)  # when, position, of how many
        self._slider.param.watch(self._slid, "value_throttled")
        self._slider.param.watch(self._preview, "value")
        self._follow.param.watch(self._followed, "value")
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
        at = steps.position(selection.step) if selection.step is not None else -1
        self._quiet = True
        self._sent.append((time.monotonic(), max(0, at), len(steps.values)))
        try:
            with pn.io.hold():
                self._slider.param.update(
                    end=max(1, len(steps.values) - 1), value=max(0, at), disabled=len(steps.values) < 2
                )
                self._follow.value = selection.follow
        finally:
            self._quiet = False
        self._write(selection.step)

    def _write(self, step: int | None) -> None:
        steps = self.context.snapshot.steps
        if step is None or not len(steps.values):
            self._label.object = '<span class="note">no steps yet</span>'
            return
        at = steps.position(step)
        count = f", {int(steps.samples[at]):,} samples" if at >= 0 else ""
        self._label.object = (
            f'<b style="font-size:14px">Step {safe_text(step)}</b> '
            f'<span class="note">of {safe_text(int(steps.values[-1]))}{count}</span>'
        )

    def _step_at(self, position: int) -> int | None:
        values = self.context.snapshot.steps.values
        return int(values[min(position, len(values) - 1)]) if len(values) else None

    def _preview(self, event: Any) -> None:
        """While the slider is dragged only the label follows; the rest comes when it is let go."""
        if self._echoed(event.new):
            self._draw()
        elif not self._quiet:
            self._write(self._step_at(event.new))

    def _echoed(self, position: int) -> bool:
        """Whether the browser only says back what it was told a moment ago, when it stood for another step.

        Positions move while older steps are read, and a busy browser answers late.
        """
        since, (_, now, count) = time.monotonic() - _ECHO, self._sent[-1]
        stale = (sent for at, sent, many in self._sent if at > since and many != count)
        return not self._quiet and position != now and position in stale

    def _slid(self, event: Any) -> None:
        step = self._step_at(event.new)
        if not self._quiet and step != self.context.selection.step:
            self.context.choose_step(step)

    def _followed(self, event: Any) -> None:
        if not self._quiet:
            self.context.selection.follow = event.new
