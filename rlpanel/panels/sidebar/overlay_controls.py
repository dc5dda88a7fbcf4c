"""Sidebar fields for overlay runs, the alignment of their curves, and smoothing."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.session.overlay_run import MAX_OVERLAY_RUNS
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.multi_choice import multi_choice


class OverlayControls(Viewer):
    """Fields of the sidebar, below the list of runs."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        selection = context.selection
        self._runs = multi_choice(
            "Overlay runs",
            f"Up to {MAX_OVERLAY_RUNS} runs whose curves are drawn over those of the selected run.",
            "rl-over",
            max_items=MAX_OVERLAY_RUNS,
            margin=(16, 12, 4, 12),
            searchable=True,
        )
        field: dict[str, Any] = {"size": "small", "margin": (4, 12), "sizing_mode": "stretch_width"}
        self._align = pmui.Select.from_param(
            selection.param.align, description=selection.param.align.doc, sx=theme.FIELD_SX, **field
        )
        self._smooth = pmui.FloatSlider(
            label="Smoothing",
            value=selection.smooth,
            start=0.0,
            end=selection.param.smooth.bounds[1],
            step=selection.param.smooth.step,
            description=selection.param.smooth.doc,
            sx=theme.FIELD_SX,
            css_classes=["rl-smooth"],
            **field,
        )
        self._runs.param.watch(self._on_choice, "value")
        # Only when the slider is released, because each value adds an entry to the browser's history.
        self._smooth.param.watch(lambda event: setattr(selection, "smooth", event.new), "value_throttled")
        selection.param.watch(lambda event: setattr(self._smooth, "value", event.new), "smooth")
        selection.param.watch(self._update, ["run", "over"])
        context.param.watch(self._update, "runs")
        self._column = pn.Column(
            self._runs,
            self._align,
            self._smooth,
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-run-choice"],
        )
        self._update()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _update(self, *_: Any) -> None:
        context, selection = self.context, self.context.selection
        labels = run_labels(context.runs)
        options = {label: name for name, label in labels.items() if name != selection.run}
        self._runs.visible = bool(options)
        if options != self._runs.options:
            self._runs.options = options
        value = [name for name in selection.over if name in options.values()]
        if value != self._runs.value:
            self._runs.value = value

    def _on_choice(self, event: Any) -> None:
        available = set(self._runs.options.values())
        if event.new != [name for name in self.context.selection.over if name in available]:
            self.context.selection.over = list(event.new)
