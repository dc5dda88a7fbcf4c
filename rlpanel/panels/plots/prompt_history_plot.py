"""Plot of one prompt's samples over the steps: a point per sample and a line through the means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Line, Scatter

from rlpanel.panels.plots.quiet_figure import add_glyphs, quiet_figure
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.prompts import SamplesOfPrompt

HEIGHT = 116


class PromptHistoryPlot:
    """A small plot of one number of the samples.

    Parameters
    ----------
    color : str
        Name of a theme colour.
    name : str
        Prefix of the data sources' names: ``<name>-points`` and ``<name>-means``.
    choose : callable
        Called with the position in the history of the sample nearest to a click.
    """

    def __init__(self, color: str, name: str, choose: Callable[[int], None]) -> None:
        self._color, self._choose = color, choose
        self._history: SamplesOfPrompt | None = None
        self._values = np.empty(0)
        self._points = ColumnDataSource({"step": [], "value": []}, name=f"{name}-points")
        self._means = ColumnDataSource({"step": [], "value": []}, name=f"{name}-means")
        self._x, self._y = Range1d(start=0, end=1), Range1d(start=0, end=1)
        self.plot = quiet_figure(height=HEIGHT, x_range=self._x, y_range=self._y)
        self._step_line = Span(location=0, dimension="height", line_width=1)
        self.plot.add_layout(self._step_line)
        [self._line] = add_glyphs(self.plot, self._means, Line(x="step", y="value", line_width=1.6))
        dots = Scatter(x="step", y="value", size=6, fill_alpha=0.55, line_width=0)
        [self._dots] = add_glyphs(self.plot, self._points, dots)
        self.plot.on_event(Tap, self._on_tap)
        self.pane = pn.pane.Bokeh(self.plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6))

    def draw(self, history: SamplesOfPrompt, values: np.ndarray, step: int) -> None:
        """Show a history's values, shape (N,), with a vertical line at the selected step."""
        self._history, self._values = history, values
        finite = np.isfinite(values)
        steps, means = history.means(values)
        with theme.hold_changes():
            self._points.data = {"step": history.step[finite], "value": values[finite]}
            self._means.data = {"step": steps, "value": means}
            self._step_line.location = step
            if finite.any():
                _fit(self._x, history.step[finite])
                _fit(self._y, values[finite])

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(dark)
        with theme.hold_changes():
            theme.restyle(self.plot, dark)
            self._line.glyph.line_color = colors[self._color]
            self._dots.glyph.fill_color = colors[self._color]
            self._step_line.line_color = colors["muted"]

    def _on_tap(self, event: Any) -> None:
        if self._history is None or not np.isfinite(self._values).any():
            return
        width = np.ptp(self._history.step) or 1
        height = np.nanmax(self._values) - np.nanmin(self._values) or 1
        distance = np.hypot((self._history.step - event.x) / width * 3, (self._values - event.y) / height)
        self._choose(int(np.nanargmin(distance)))


def _fit(axis_range: Range1d, values: np.ndarray) -> None:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * ((high - low) or 1.0)
    axis_range.update(start=low - margin, end=high + margin)
