"""Scatter plot of two numbers of the step's samples; a box filters the grid, and a click selects a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import param
from bokeh.events import SelectionGeometry, Tap
from panel.viewable import Viewer

from rlpanel.panels.explain.link_rows import both, note_pane
from rlpanel.panels.inputs.input_fields import select_field
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import ON_BOARD, finish_on_board, scatter_points
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import note_html

_HEIGHT = 330


class ScatterView(Viewer):
    """Choice of two columns, and the plot; samples that pass the grid's filter are filled."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is drawn before.")
    asked = param.Parameter(default=(), doc="The columns of the two axes; empty: the usual ones.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._frame = pd.DataFrame({"x": [], "y": [], "uid": []})
        self._updating = False
        self._x = select_field("scatter-x", tr("Horizontal axis"), 230)
        self._y = select_field("scatter-y", tr("Vertical axis"), 230)
        self._note = note_pane("rl-scatter-note")
        self._plot = pn.pane.HoloViews(
            None, sizing_mode="stretch_width", height=_HEIGHT, margin=0, linked_axes=False
        )
        self._column = pn.Column(
            pn.FlexBox(self._x, self._y, margin=(6, 10, 0, 10), gap="4px"),
            self._note,
            pn.Column(
                self._plot, sizing_mode="stretch_width", margin=(0, 8), css_classes=["rl-scatter-plot"]
            ),
            sizing_mode="stretch_width",
            margin=0,
        )
        for choice in (self._x, self._y):
            choice.param.watch(self._on_choice, "value")
        watch_step(context, self._draw)
        context.param.watch(self._draw, ["index", "filtered_uids"])
        context.selection.param.watch(self._draw, "dark")
        self.param.watch(self._draw, ["active", "asked"])

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _on_choice(self, *_: Any) -> None:
        if not self._updating:
            self.asked = (self._x.value or "", self._y.value or "")

    def _draw(self, *_: Any) -> None:
        context, step = self.context, self.context.selection.step
        if not self.active:
            return
        self._list_columns()
        x, y = self._x.value, self._y.value
        if context.index is None or step is None or x is None or y is None:
            self._note.html = note_html(tr("This run has no numbers yet."))
            self._plot.object = None
            return
        snapshot = context.snapshot
        rows = snapshot.sampled_rows(step, context.display.max_samples)
        values = {"x": snapshot.number(x)[rows], "y": snapshot.number(y)[rows]}
        finite = np.isfinite(values["x"]) & np.isfinite(values["y"])
        frame = pd.DataFrame({name: column[finite] for name, column in values.items()})
        frame["uid"] = snapshot.uids(rows[finite])
        passing = context.filtered_uids
        frame["passes"] = True if passing is None else frame["uid"].isin(passing)
        self._frame = frame
        left = len(rows) - len(frame)
        missing = tr("; {left:,} without one of the two numbers", left=left) if left else ""
        text = tr(
            "Step {step:,}: {count:,} samples{missing}. Drag a box to filter, click a point to open it.",
            step=step,
            count=len(frame),
            missing=missing,
        )
        self._note.html = note_html(text)
        self._plot.object = self._element(x, y)

    def _list_columns(self) -> None:
        """Offer the number columns; reward and KL are chosen first."""
        snapshot = self.context.snapshot
        columns = [name for name in snapshot.numbers if snapshot.has_number(name)]
        options = {described(name).axis: name for name in columns}
        names = list(options.values())
        kl = f"{self.context.display.kl_estimator}_mean"
        first, second = (*self.asked, "", "")[:2]
        x = next((name for name in (first, kl, "response_tokens", *names) if name in names), None)
        y = next((name for name in (second, "reward", *names[::-1]) if name in names), None)
        self._updating = True
        if options != self._x.options or (x, y) != (self._x.value, self._y.value):
            self._x.param.update(options=options, value=x)
            self._y.param.update(options=options, value=y)
        self._updating = False

    def _element(self, x: str, y: str) -> Any:
        """Return the points; those that pass the grid's filter are drawn in the colour of the policy."""
        colors = theme.palette(self.context.selection.dark)
        frame = self._frame.assign(
            color=np.where(self._frame["passes"], colors["policy"], colors["faint"]),
        )
        points = scatter_points(
            frame, "x", "y", color="color", size=34, alpha=0.75, hover=False, responsive=True, height=_HEIGHT
        )
        return points.opts(
            **ON_BOARD,
            tools=["box_select"],
            active_tools=["box_select"],
            xlabel=described(x).axis,
            ylabel=described(y).axis,
            nonselection_alpha=0.75,
            hooks=[self._finish],
        )

    def _finish(self, plot: Any, _: Any) -> None:
        """Style the figure that HoloViews made, and handle boxes and clicks."""
        figure = plot.state
        finish_on_board(figure, self.context.selection.dark)
        figure.on_event(SelectionGeometry, self._on_box)
        figure.on_event(Tap, self._on_tap)

    def _on_box(self, event: Any) -> None:
        """Filter the grid by the box."""
        box = event.geometry
        if not event.final or not {"x0", "x1", "y0", "y1"} <= set(box):
            return
        ranges = [
            ValueRange(name, min(low, high), max(low, high)).text
            for name, low, high in (
                (self._x.value, box["x0"], box["x1"]),
                (self._y.value, box["y0"], box["y1"]),
            )
        ]
        self.context.choose_range(self.context.selection.step, both(*ranges))

    def _on_tap(self, event: Any) -> None:
        """Select the sample nearest to the click, if it is near."""
        frame = self._frame
        if event.x is None or not len(frame):
            return
        spread = [max(float(np.ptp(frame[name])), 1e-12) for name in ("x", "y")]
        distance = np.hypot((frame["x"] - event.x) / spread[0], (frame["y"] - event.y) / spread[1])
        if distance.min() < 0.05:
            self.context.choose_sample(str(frame["uid"].iloc[int(distance.argmin())]))
