"""A number of one prompt's samples over the steps: a point a sample, a line through the means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Line, Scatter

from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.prompts import SamplesOfPrompt

HEIGHT = 116


class PromptHistoryPlot:
    """One small plot.

    Parameters
    ----------
    color : str
        Of the theme.
    name : str
        Of the sources: ``<name>-points`` and ``<name>-means``.
    choose : callable
        Called with the place in the history of the sample nearest to a click.
    """

    def __init__(self, color: str, name: str, choose: Callable[[int], None]) -> None:
        self._color, self._choose = color, choose
        self._history: SamplesOfPrompt | None = None
        self._values = np.empty(0)
        self._points = ColumnDataSource({"step": [], "value": []}, name=f"{name}-points")
        self._means = ColumnDataSource({"step": [], "value": []}, name=f"{name}-means")
        self._x, self._y = Range1d(start=0, end=1), Range1d(start=0, end=1)
        self.plot = theme.quiet_figure(height=HEIGHT, x_range=self._x, y_range=self._y)
        self._here = Span(location=0, dimension="height", line_width=1)
        self.plot.add_layout(self._here)
        [self._line] = theme.over(self.plot, self._means, Line(x="step", y="value", line_width=1.6))
        dots = Scatter(x="step", y="value", size=6, fill_alpha=0.55, line_width=0)
        [self._dots] = theme.over(self.plot, self._points, dots)
        self.plot.on_event(Tap, self._tapped)
        self.pane = pn.pane.Bokeh(self.plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6))

    def draw(self, history: SamplesOfPrompt, values: np.ndarray, step: int) -> None:
        """Show a history's values, shape (N,), with a line at the step that is shown."""
        self._history, self._values = history, values
        finite = np.isfinite(values)
        steps, means = history.means(values)
        with theme.drawing():
            self._points.data = {"step": history.step[finite], "value": values[finite]}
            self._means.data = {"step": steps, "value": means}
            self._here.location = step
            if finite.any():
                _fit(self._x, history.step[finite])
                _fit(self._y, values[finite])

    def restyle(self, dark: bool) -> None:
        """Colours for dark or light."""
        colors = theme.palette(dark)
        with theme.drawing():
            theme.restyle(self.plot, dark)
            self._line.glyph.line_color = colors[self._color]
            self._dots.glyph.fill_color = colors[self._color]
            self._here.line_color = colors["muted"]

    def _tapped(self, event: Any) -> None:
        if self._history is None or not np.isfinite(self._values).any():
            return
        wide, high = np.ptp(self._history.step) or 1, np.nanmax(self._values) - np.nanmin(self._values) or 1
        far = np.hypot((self._history.step - event.x) / wide * 3, (self._values - event.y) / high)
        self._choose(int(np.nanargmin(far)))


def _fit(shown: Range1d, values: np.ndarray) -> None:
    low, high = float(values.min()), float(values.max())
    room = 0.06 * ((high - low) or 1.0)
    shown.update(start=low - room, end=high + room)
