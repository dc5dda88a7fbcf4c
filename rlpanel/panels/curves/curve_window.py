"""The steps that all curve cards show: a zoom in one card moves the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import param
from bokeh.events import RangesUpdate
from bokeh.models import BoxZoomTool, DataRange1d

from rlpanel.panels.plots.quiet_figure import PlotParts
from rlpanel.panels.plots.series import Points


class CurveWindow(param.Parameterized):
    """The common axis of the cards; it follows the run until a card is zoomed.

    Bokeh's axis cannot be told to follow again from here, so another run or axis needs a new window.

    Attributes
    ----------
    x_range : DataRange1d
    parts : PlotParts
        Further models that the plots of the cards share.
    """

    zoomed = param.Parameter(
        default=None, doc="First and last position of the zoom, on the axis of the curves; None: all steps."
    )

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self.x_range = DataRange1d(range_padding=0.01)
        self.parts = PlotParts()

    def watch(self, plot: Any, tool: BoxZoomTool) -> None:
        """Follow the zooms of one card's plot."""
        plot.toolbar.active_drag = tool
        plot.on_event(RangesUpdate, self._on_ranges)

    def visible(self, points: Points) -> Points:
        """Return the points within the zoom."""
        if self.zoomed is None:
            return points
        start, end = self.zoomed
        inside = (points["x"] >= start) & (points["x"] <= end)
        return {name: values[inside] for name, values in points.items()}

    def covers(self, points: Points) -> bool:
        """Return whether the zoom, if there is one, contains all points."""
        x = points["x"][np.isfinite(points["x"])]
        return self.zoomed is None or not len(x) or bool(self.zoomed[0] <= x[0] and x[-1] <= self.zoomed[1])

    def _on_ranges(self, event: Any) -> None:
        if event.x0 is not None and event.x1 is not None:
            self.zoomed = (float(event.x0), float(event.x1))
