"""Plot of a curve card: lines with bands and markers, or the distribution of values over the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import param
from bokeh.events import DoubleTap, RangesUpdate
from bokeh.models import BoxZoomTool, DataRange1d, HoverTool, glyphs
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.ranges import Range1d

from rlpanel.board_url import STEP
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_bar import Curve
from rlpanel.panels.curves.curve_marks import RunMarks
from rlpanel.panels.curves.curve_points import RAW_ALPHA
from rlpanel.panels.export.card_export import density_frame, ridges_frame
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.panels.plots.density_plot import DensityLayer, RidgePlot
from rlpanel.panels.plots.plot_elements import ridges
from rlpanel.panels.plots.quiet_figure import PlotParts, StepShading, add_glyphs, quiet_figure
from rlpanel.panels.plots.series import Points, band_of
from rlpanel.panels.plots.value_axis import ValueRange, fills_axis
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.run_view import RunView

# -- curve plot ----------------------------------------------------------------------------------------
# Plot of a curve card: lines with bands and markers, the step cursor, the legend and the tools.
#
# All cards show the same window of steps: a zoom in one moves the others.


class CurveWindow(param.Parameterized):
    """The common axis of the cards; it follows the run until a card is zoomed.

    Bokeh's axis cannot be told to follow again from here, so another run or axis needs a new window.

    Attributes
    ----------
    x_range : DataRange1d
    parts : PlotParts
        Further models that the plots of the cards share.
    events : RunMarks
        The marks that all cards show.
    """

    zoomed = param.Parameter(
        default=None, doc="First and last position of the zoom, on the axis of the curves; None: all steps."
    )

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        # One step stands in the middle of an axis with one tick.
        self.x_range = DataRange1d(range_padding=0.01, default_span=1.0)
        self.parts = PlotParts()
        self.events = RunMarks()

    def follow(self, lines: list[Any]) -> None:
        """Let the axis show all steps of these lines; an image has room for further steps, so it is none."""
        if lines != self.x_range.renderers:
            self.x_range.renderers = lines

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
            self.zoomed = round_ends(float(event.x0), float(event.x1))


def round_ends(start: float, end: float) -> tuple[float, float]:
    """Round the ends of a zoom to a thousandth of its width: the address has no digits that nobody sees."""
    digits = 3 - math.floor(math.log10(end - start)) if end > start else 0
    return round(start, digits), round(end, digits)


HEIGHT = 120
#: Stylesheets of the plot and of its pane.
HEIGHTS = [read_assets("panels/plots/curve_height.css")]
_LEGEND = {"ref_reward": "ref", "valid_reward": "valid", "ref_valid_reward": "ref valid"}
_DASH = {"ref_reward": "dashed", "valid_reward": "dotted", "ref_valid_reward": "dotted"}
#: Opacity of the first column's band.
_BAND_ALPHA = 0.16
#: Size of the point markers, and the largest number of points that get markers.
_MARKER_SIZE, _MAX_MARKERS = 4, 40


class CurvePlot:
    """The plot of a curve's columns; the first one is drawn strongest, the others are for comparison.

    Parameters
    ----------
    curve : Curve
    window : CurveWindow
        The steps that the plots of a page show together.
    whole_numbers : bool
        Whether the x axis counts steps or samples, which have no fractions.
    tips : bool
        Whether a tooltip has the values at the mouse, for a page where no head shows them.
    """

    def __init__(self, curve: Curve, window: CurveWindow, *, whole_numbers: bool, tips: bool = False) -> None:
        self.curve = curve
        parts = window.parts
        self.sources = {column: parts.source(empty_points(), name=column) for column in curve.columns}
        self._window = window
        self._run_visible = True
        self._several_runs, self._dark, self._over_density = False, True, False
        self._dot = parts.source({"x": [], "y": []})
        self._glyphs: list[tuple[str, str, Any]] = []  # kind, column, renderer
        self.value_range = Range1d(start=0.1, end=1.0)
        self.figure = quiet_figure(
            parts=parts,
            whole=whole_numbers,
            height=HEIGHT,
            stylesheets=HEIGHTS,
            min_border_right=14,
            x_range=window.x_range,
            y_range=self.value_range,
            y_axis_type="log" if curve.log else "linear",
        )
        self.shading = StepShading(self.figure)
        items = [self._add_column(column) for column in curve.columns]
        self._cursor_line = parts.cursor
        self.figure.add_layout(self._cursor_line)
        point = glyphs.Scatter(x="x", y="y", size=8, line_width=1.5)
        [dot] = add_glyphs(self.figure, self._dot, point, parts=parts)
        self._glyphs.append(("dot", curve.columns[0], dot))
        if any(trainer_scalars.scalar_of(column) is None for column in curve.columns[1:]):
            # The head compares with the trainer log. Inside the plot a legend would hide the lines.
            self.figure.add_layout(_legend(items), "above")
        self._hover = HoverTool(mode="vline", renderers=self.lines, line_policy="nearest") if tips else None
        self._add_tools()

    @property
    def lines(self) -> list[Any]:
        """The renderers of the run's lines, the first column's first."""
        return [renderer for kind, _, renderer in self._glyphs if kind == "line"]

    # -- drawing ---------------------------------------------------------------------------------

    def show_tips(self, tips: list[tuple[str, str]]) -> None:
        """Set the rows of the hover tooltip."""
        if self._hover is not None and self._hover.tooltips != tips:
            self._hover.tooltips = tips

    def show_markers(self, points: int) -> None:
        """Show markers if there are few points."""
        # Size 0 hides the markers. An invisible renderer would make the legend show the curve as hidden.
        size = _MARKER_SIZE if points <= _MAX_MARKERS else 0
        for kind, column, renderer in self._glyphs:
            if kind == "mark" and column == self.curve.columns[0] and renderer.glyph.size != size:
                renderer.glyph.size = size

    def show_run(self, *, on: bool, smoothed: bool) -> None:
        """Show the lines of the run or hide them, and the raw lines only behind smoothed ones."""
        if smoothed and not any(kind == "raw" for kind, *_ in self._glyphs):
            self._add_raw_lines()
        for kind, _, renderer in self._glyphs:
            # While the run's state is unchanged, keep what the user hid through the card's own legend.
            if kind == "raw" or self._run_visible != on:
                renderer.visible = on and (kind != "raw" or smoothed)
        self._run_visible = on

    def show_over(self, *, density: bool) -> None:
        """Colour the first line for its background: a heatmap of its own colour, or the plain card."""
        if density != self._over_density:
            self._over_density = density
            self.restyle(dark=self._dark, several_runs=self._several_runs)

    def fit(self, axis: tuple[float, float], shown: dict[str, series.Points]) -> None:
        """Set the ends of the value axis, and fade each band that fills the plot.

        Without an edge in view, such a band is only a coloured rectangle. ``shown`` has the visible points of
        each column that has any.
        """
        start, end = axis
        if axis != (self.value_range.start, self.value_range.end):
            self.value_range.update(start=start, end=end, reset_start=start, reset_end=end)
        for kind, column, renderer in self._glyphs:
            if kind == "band" and column in shown:
                alpha = self._band_alpha(column)
                full = fills_axis(shown[column], start, end)
                renderer.glyph.fill_alpha = alpha / 3 if full else alpha

    def move_cursor(self, position: float | None, point: tuple[float, float] | None = None) -> None:
        """Move the cursor's line, which the plots share, to a position on the x axis, and its dot to a point.

        None hides them.
        """
        if position is None:
            self._cursor_line.visible = False
        else:
            self._cursor_line.update(location=position, visible=True)
        shown = {"x": [point[0]], "y": [point[1]]} if point is not None else {"x": [], "y": []}
        if shown != self._dot.data:
            self._dot.data = shown

    def restyle(self, *, dark: bool, several_runs: bool) -> None:
        """Apply the colours of the theme; with overlay runs a colour tells the run, else the metric."""
        self._dark, self._several_runs = dark, several_runs
        colors = theme.palette(dark)
        theme.restyle(self.figure, dark)
        self._cursor_line.line_color = colors["muted"]
        self._window.parts.crosshair.line_color = colors["text"]
        for kind, column, renderer in self._glyphs:
            color = self._color(column)
            if kind == "band":
                renderer.glyph.fill_color = color
            elif kind in ("line", "raw"):
                renderer.glyph.line_color = color
            else:
                renderer.glyph.update(fill_color=color, line_color=colors["surface"])
        for legend in self.figure.legend:
            legend.label_text_color = colors["muted"]

    # -- building --------------------------------------------------------------------------------

    def _add_column(self, column: str) -> LegendItem:
        """Add the glyphs of a column, and return its legend item."""
        first = column == self.curve.columns[0]
        dash = _DASH.get(column, "solid" if first else "dotted")
        band, line, mark = add_glyphs(
            self.figure,
            self.sources[column],
            glyphs.VArea(x="x", y1="lo", y2="hi", fill_alpha=self._band_alpha(column)),
            glyphs.Line(x="x", y="y", line_width=1.7 if first else 1.2, line_dash=dash),
            glyphs.Scatter(x="x", y="y", size=_MARKER_SIZE if first else 0, line_alpha=0),
            parts=self._window.parts,
        )
        self._glyphs += [("band", column, band), ("line", column, line), ("mark", column, mark)]
        renderers: list[Any] = [line, band, mark]
        return LegendItem(label=_legend_label(column), renderers=renderers)

    def _add_raw_lines(self) -> None:
        """Add the lines behind the smoothed ones; most pages never smooth."""
        for column, source in self.sources.items():
            line = glyphs.Line(
                x="x", y="raw", line_width=1, line_alpha=RAW_ALPHA, line_color=self._color(column)
            )
            self._glyphs += [("raw", column, raw) for raw in add_glyphs(self.figure, source, line)]

    def _add_tools(self) -> None:
        parts = self._window.parts
        zoom = parts.zoom_tool()
        self.figure.add_tools(*[self._hover] if self._hover else [], parts.crosshair_tool(), zoom)
        self._window.watch(self.figure, zoom)
        self.figure.js_on_event(DoubleTap, self._window.parts.reset)

    def _band_alpha(self, column: str) -> float:
        return _BAND_ALPHA if column == self.curve.columns[0] else _BAND_ALPHA / 2

    def _color(self, column: str) -> str:
        """Return the colour of a column's glyphs in the current theme."""
        first, name = column == self.curve.columns[0], trainer_scalars.describe(column).color
        if first and self._over_density:
            name = "text"
        elif first and self._several_runs:
            name = "policy"
        elif not first and trainer_scalars.scalar_of(column) is not None:
            name = "text"  # drawn over the column that it equals
        return theme.palette(self._dark)[name]


def empty_points() -> series.Points:
    """Return points of a column without data."""
    return {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n", "raw")}


def _legend_label(column: str) -> str:
    if trainer_scalars.scalar_of(column) is not None:
        return "trainer log"
    return _LEGEND.get(column, trainer_scalars.describe(column).label)


def _legend(items: list[LegendItem]) -> Legend:
    legend = Legend(
        click_policy="hide",
        orientation="horizontal",
        location="left",
        margin=0,
        padding=0,  # type: ignore[arg-type]  # as margin, it may be a number
        spacing=8,
        label_text_font_size="10px",
        label_standoff=4,
        glyph_width=14,
        glyph_height=8,
        label_height=10,
        background_fill_alpha=0,
        border_line_alpha=0,
    )
    legend.items = items  # Bokeh 3.10 does not declare it as an argument
    return legend


# -- value distribution --------------------------------------------------------------------------------
# Distribution of a column's values over the steps, in a curve card: a heatmap behind the line, or ridges.


class ValueDistribution:
    """Draws the density or the ridges that the chosen band asks for.

    There are none for a metric with one value per step, with overlay runs, on another axis than the step, or
    shifted to begin at zero: these are drawn as lines only.

    Parameters
    ----------
    context : Context
    plot : CurvePlot
        The plot that gets the heatmap.
    """

    def __init__(self, context: Context, plot: CurvePlot) -> None:
        self.context = context
        #: ``density``, ``ridge``, or empty for none.
        self.kind = ""
        self._plot, self._column, self._log = plot, plot.curve.columns[0], plot.curve.log
        self._layer: DensityLayer | None = None
        self._ridges: RidgePlot | None = None

    @property
    def pane(self) -> Any:
        """The pane of the ridges; None while the card shows the curve."""
        return self._ridges.pane if self._ridges is not None else None

    @property
    def note(self) -> str:
        """Text with the number of values that a log scale cannot show; empty if it shows all."""
        counted = self._shown.density if self._shown is not None else None
        return (
            tr("{left_out:,} values ≤ 0 left out", left_out=counted.left_out)
            if counted is not None and counted.left_out
            else ""
        )

    @property
    def make_table(self) -> Callable[[], pd.DataFrame] | None:
        """A function that returns the plot's data as a table; None without a plot or without data."""
        counted = self._shown.density if self._shown is not None else None
        if counted is None:
            return None
        if self.kind == "ridge":
            return lambda: ridges_frame(ridges(counted))
        return lambda: density_frame(counted)

    def draw(self, view: RunView) -> None:
        """Update to a view and to the settings."""
        self.kind = kind = self._kind(view)
        if kind == "density":
            self._layer = self._layer or self._add_layer()
            self.kind = kind if self._layer.draw(view.snapshot) else ""
        elif self._layer is not None:
            self._layer.hide()
        if kind == "ridge":
            self._ridges = self._ridges or self._make_ridges(self._log)
            self._ridges.draw(view.snapshot)
            if self._ridges.density is not None and self._ridges.density.axis.log != self._ridges.log:
                self._ridges = self._make_ridges(False)  # most values are not above 0
                self._ridges.draw(view.snapshot)
        else:
            self._ridges = None
        self._plot.show_over(density=self.kind == "density")

    def axis(self, least: float) -> tuple[float, float] | None:
        """Return start and end of the value axis of the density; None without one."""
        return self._layer.axis(least) if self._layer is not None else None

    def range_at(self, x: float, y: float) -> ValueRange | None:
        """Return the range of the values at a place of the density; None without one."""
        return self._layer.range_at(x, y) if self._layer is not None else None

    def move_cursor(self, step: int | None) -> None:
        """Highlight the ridge with the selected step."""
        if self._ridges is not None:
            self._ridges.move_cursor(step)

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        for part in (self._layer, self._ridges):
            if part is not None:
                part.restyle(dark)

    @property
    def _shown(self) -> DensityLayer | RidgePlot | None:
        return self._ridges or self._layer

    def _kind(self, view: RunView) -> str:
        """Return ``density``, ``ridge``, or the empty string where lines are drawn only."""
        selection, display = self.context.selection, self.context.display
        if self.context.overlays or selection.align != STEP or not view.snapshot.has_number(self._column):
            return ""
        kind = band_of(view, self._column, display.band)
        return kind if kind == "ridge" or (kind == "density" and not display.zero_shift) else ""

    def _add_layer(self) -> DensityLayer:
        color, mean = trainer_scalars.describe(self._column).color, self._plot.sources[self._column]
        layer = DensityLayer(self._plot.figure, self._column, color, mean, log=self._log)
        layer.restyle(self.context.selection.dark)
        return layer

    def _make_ridges(self, log: bool) -> RidgePlot:
        color = trainer_scalars.describe(self._column).color
        made = RidgePlot(self._column, color, HEIGHT, log=log, on_pick=self._pick)
        made.restyle(self.context.selection.dark)
        return made

    def _pick(self, x: float, within: ValueRange) -> None:
        self.context.choose_range(self.context.nearest_step(x), within.text)
