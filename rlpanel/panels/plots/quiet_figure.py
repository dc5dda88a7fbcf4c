"""Figures in the style of the board, and shaded steps behind their lines.

Plots with few models: no tools, one set of gridlines, and parts that several plots share.

Creating a figure by its own methods makes 27 models, most of them without a state of their own. A browser and
a server handle every model of a page for itself: each one fewer makes opening a page cheaper.

Shading of steps behind a curve: one vertical strip for each stretch of consecutive steps.

The strips have a data source of their own, so that shading sends a few numbers and no curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from bokeh.models import (
    AllIndices,
    AllLabels,
    BasicTicker,
    BasicTickFormatter,
    BoxZoomTool,
    CDSView,
    ColumnDataSource,
    CrosshairTool,
    CustomJS,
    Grid,
    LinearAxis,
    LinearScale,
    LogTicker,
    PrintfTickFormatter,
    UnionRenderers,
)
from bokeh.models.annotations import Span
from bokeh.models.glyph import Glyph
from bokeh.models.glyphs import VStrip
from bokeh.plotting import figure

from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.alignment import RunAxis

#: Borders as wide as the labels, so that the left edges of plots below each other are aligned.
_QUIET: dict[str, Any] = {
    "output_backend": "canvas",
    "toolbar_location": None,
    "tools": [],
    "title": None,
    "sizing_mode": "stretch_width",
    "min_border": 2,
    "min_border_left": 34,
    "min_border_right": 8,
}
#: Format of a tick: four digits without trailing zeros, while Bokeh's own format pads 2e-4 to 2.000e-4.
#: A formatter with code of its own would not work in a report, whose policy allows no code from text.
_TICK = "%.4g"


class PlotParts:
    """Models that the plots of one document may share, because none keeps a state of one plot.

    Give plots of different documents different parts: a model belongs to one document.
    """

    def __init__(self) -> None:
        self.scale = LinearScale()  # the browser makes a copy for each plot
        self.all_labels = AllLabels()
        self.all_rows = AllIndices()
        self.selection_policy = UnionRenderers()
        self.x_ticker = BasicTicker(desired_num_ticks=4, num_minor_ticks=0)
        self.y_ticker = BasicTicker(desired_num_ticks=3, num_minor_ticks=0)
        self.x_format = BasicTickFormatter()  # it may be shared by axes with the same ticks only
        self.y_format = PrintfTickFormatter(format=_TICK)
        self._handles: Any = None

    @cached_property
    def whole_ticker(self) -> BasicTicker:
        """Ticker of an axis of whole numbers."""
        return BasicTicker(desired_num_ticks=4, num_minor_ticks=0, min_interval=1)

    @cached_property
    def log_ticker(self) -> LogTicker:
        """Ticker of a logarithmic axis."""
        return LogTicker(desired_num_ticks=3, num_minor_ticks=0)

    @cached_property
    def cursor(self) -> Span:
        """Vertical line at the selected position of the axis that the plots share."""
        return Span(dimension="height", line_width=1, line_alpha=0.9, visible=False)

    @cached_property
    def crosshair(self) -> Span:
        """Vertical line at the mouse, in all plots at once."""
        return Span(dimension="height", line_width=1, line_dash="dotted", level="overlay")

    def crosshair_tool(self) -> CrosshairTool:
        """Return the tool of one plot that shows the line at the mouse."""
        return CrosshairTool(overlay=self.crosshair)

    @cached_property
    def reset(self) -> CustomJS:
        """Callback for an event of a plot: the plot shows all again."""
        return CustomJS(code="cb_obj.origin.reset.emit()")

    def zoom_tool(self) -> BoxZoomTool:
        """Return the tool of one plot that zooms along its horizontal axis."""
        tool = BoxZoomTool(dimensions="width")
        self._handles = self._handles or tool.overlay.handles  # they are never shown
        tool.overlay.handles = self._handles
        return tool

    def source(self, data: Any, name: str | None = None) -> ColumnDataSource:
        """Return a data source of one plot."""
        return ColumnDataSource(data, name=name, selection_policy=self.selection_policy)


def quiet_figure(*, parts: PlotParts | None = None, whole: bool = False, **options: Any) -> figure:
    """Return a figure that fills its container's width, with about three gridlines and no tools.

    Parameters
    ----------
    parts : PlotParts, optional
        Parts that other plots with the same horizontal axis share; without them the figure gets its own.
    whole : bool
        Whether the horizontal axis has ticks at whole numbers only.
    **options
        As for `bokeh.plotting.figure`; ``y_axis_type`` is linear or log.
    """
    parts = parts or PlotParts()
    log = options.pop("y_axis_type", "linear") == "log"
    plot = figure(**{**_QUIET, **options}, x_axis_type=None, y_axis_type="log" if log else None)
    x_ticker = parts.whole_ticker if whole else parts.x_ticker
    plot.x_scale = parts.scale
    plot.add_layout(_axis(parts, ticker=x_ticker, formatter=parts.x_format), "below")
    if log:
        plot.yaxis.ticker = parts.log_ticker
    else:
        plot.y_scale = parts.scale
        y_axis = _axis(parts, ticker=parts.y_ticker, formatter=parts.y_format)
        plot.add_layout(y_axis, "left")
        plot.add_layout(Grid(dimension=1, axis=y_axis), "center")
    theme.style_plot(plot)
    return plot


def add_glyphs(
    plot: figure, source: ColumnDataSource, *glyphs: Glyph, parts: PlotParts | None = None, **options: Any
) -> list[Any]:
    """Add glyphs that share one source, and return their renderers; options are those of `add_glyph`.

    For each glyph, a figure's own methods also create one for unselected points, one for muted points, and a
    view of the source. A page has fifty renderers, and opening it traverses all models many times.
    """
    view = CDSView(filter=parts.all_rows) if parts is not None else CDSView()
    return [plot.add_glyph(source, glyph, view=view, **options) for glyph in glyphs]


def _axis(parts: PlotParts, **options: Any) -> LinearAxis:
    return LinearAxis(major_label_policy=parts.all_labels, **options)


class StepShading:
    """The shaded steps of one plot.

    Parameters
    ----------
    plot : figure
        The strips are drawn behind its curves, and on top of its images.
    """

    def __init__(self, plot: Any) -> None:
        self._plot = plot
        self._color: str | None = None
        self._strips: Any = None  # created with the first shaded step: most plots have none

    def draw(self, axis: RunAxis, steps: Sequence[int]) -> None:
        """Shade these steps; without steps, nothing is shaded."""
        left, right = strips(axis, np.asarray(steps, np.int64))
        if self._strips is None:
            if not len(left):
                return
            self._strips = self._add_strips()
        if not all(map(np.array_equal, self.edges, (left, right))):
            self._strips.data_source.data = {"left": left, "right": right}
        if self._strips.visible != bool(len(left)):
            self._strips.visible = bool(len(left))

    def restyle(self, color: str, dark: bool) -> None:
        """Colour the strips by a theme colour of the dark or light theme."""
        self._color = theme.palette(dark)[color]
        if self._strips is not None:
            self._strips.glyph.update(fill_color=self._color, line_color=self._color)

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Left and right edges of the strips that are shown."""
        shown = self._strips.data_source.data if self._strips is not None else _no_strips()
        return shown["left"], shown["right"]

    def _add_strips(self) -> Any:
        strip = VStrip(x0="left", x1="right", fill_alpha=0.12, line_alpha=0.35, line_width=1)
        if self._color is not None:
            strip.update(fill_color=self._color, line_color=self._color)
        source = ColumnDataSource(_no_strips(), name="shading")
        return self._plot.add_glyph(source, strip, level="underlay", visible=False)


def strips(axis: RunAxis, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the left and right edges of the strips that cover steps of a run.

    Parameters
    ----------
    axis : RunAxis
        Axis of the run; steps that it lacks are ignored.
    steps : ndarray of int, shape (M,)

    Returns
    -------
    left, right : ndarray of float, shape (K,)
        Positions halfway to the neighbouring steps, within the run. K is the number of stretches of steps
        that follow each other in the run.
    """
    marked = np.isin(axis.steps, steps)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    first, last = edges[::2], edges[1::2] - 1
    at = np.asarray(axis.positions, float)
    if not len(first):
        return _no_strips()["left"], _no_strips()["right"]
    end = len(at) - 1
    return (at[first] + at[np.maximum(first - 1, 0)]) / 2, (at[last] + at[np.minimum(last + 1, end)]) / 2


def _no_strips() -> dict[str, np.ndarray]:
    return {"left": np.empty(0), "right": np.empty(0)}
