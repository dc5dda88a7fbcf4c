"""A card with one curve over the steps: lines with bands, a step cursor, and the step's value in the head."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
from bokeh.events import DoubleTap, Tap
from bokeh.models import (
    HoverTool,
    glyphs,
)
from bokeh.models.annotations import Legend, LegendItem, Span
from bokeh.models.ranges import Range1d

from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.curves.curve_export import curve_export
from rlpanel.panels.curves.curve_selection import Curve
from rlpanel.panels.curves.curve_window import CurveWindow
from rlpanel.panels.curves.overlay_curves import RAW_ALPHA, OverlayCurves
from rlpanel.panels.curves.value_distribution import DISTRIBUTION_BANDS, ValueDistribution
from rlpanel.panels.export.card_export import CardExport
from rlpanel.panels.export.export_menu import ExportMenu, head_with_menu
from rlpanel.panels.export.plot_tables import PlotLine
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.panels.plots.alignment import TIME, alignment_of, chosen_axis
from rlpanel.panels.plots.quiet_figure import add_glyphs, quiet_figure
from rlpanel.panels.plots.step_shading import StepShading
from rlpanel.panels.plots.value_axis import fills_axis, fit_axis
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import delta, safe_text

HEIGHT = 120
_HEIGHTS = [read_assets("panels/plots/curve_height.css")]
_CLASSES = ["rl-card", "rl-curve"]
_BAND_LABELS = {"iqr": "IQR", "range": "min–max", "density": "density", "ridge": "ridges"}
_LEGEND = {"ref_reward": "ref", "valid_reward": "valid", "ref_valid_reward": "ref valid"}
_DASH = {"ref_reward": "dashed", "valid_reward": "dotted", "ref_valid_reward": "dotted"}
#: Opacity of the first column's band.
_BAND_ALPHA = 0.16
#: Size of the point markers, and the largest number of points that get markers.
_MARKER_SIZE, _MAX_MARKERS = 4, 40


class CurveCard:
    """A card: a chart below a head with title, subtitle and value.

    Parameters
    ----------
    context : Context
    curve : Curve
    window : CurveWindow, optional
        The steps that the cards of a page show together.
    """

    def __init__(self, context: Context, curve: Curve, window: CurveWindow | None = None) -> None:
        self.context = context
        self.curve = curve
        self._window = window or CurveWindow()
        # The view that was drawn last: a step may be chosen before the card draws the newest snapshot.
        self._view = context.view
        self._axis = chosen_axis(context.snapshot, context.selection.align)
        parts = self._window.parts
        self._sources = {column: parts.source(_empty_points(), name=column) for column in curve.columns}
        self._sent: dict[str, series.Points | None] = dict.fromkeys(curve.columns)
        self._run_visible = True
        self._dot = parts.source({"x": [], "y": []})
        self._glyphs: list[tuple[str, Any]] = []
        self._head = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/curves/curve_head.css")],
            sizing_mode="stretch_width",
            css_classes=["rl-curve-head"],
        )
        self._plot = self._figure()
        self.overlay = OverlayCurves(context, self._plot, curve.columns[0])
        self._pane = pn.pane.Bokeh(
            self._plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 4, 0, 4), stylesheets=_HEIGHTS
        )
        self._distribution = ValueDistribution(
            context, curve.columns[0], self._sources[curve.columns[0]], HEIGHT
        )
        self.card = pn.Column(
            head_with_menu(self._head, self._menu()),
            self._pane,
            styles={**theme.CARD, "flex": "1 1 215px", "min-width": "215px"},
            stylesheets=[read_assets("panels/curves/curve_card.css")],
            css_classes=_CLASSES,
            margin=0,
        )
        self.restyle()
        self.draw()

    # -- drawing ---------------------------------------------------------------------------------

    def draw(self) -> None:
        """Update the chart to the newest snapshot."""
        self._view, selection = self.context.view, self.context.selection
        self._axis = chosen_axis(self._view.snapshot, selection.align)
        tips = curve_points.tips(
            self.curve.columns[0], alignment_of(self._view.snapshot, selection.align), selection.smooth
        )
        if self._hover.tooltips != tips:
            self._hover.tooltips = tips
        for column, source in self._sources.items():
            points = curve_points.shared_points(
                self._view,
                column,
                selection.align,
                self.context.display,
                selection.smooth,
                log=self.curve.log,
            )
            series.update_source(source, points, self._sent[column])
            self._sent[column] = points
        # Size 0 hides the markers. An invisible renderer would make the legend show the curve as hidden.
        size = _MARKER_SIZE if len(self._points()["x"]) <= _MAX_MARKERS else 0
        for (kind, renderer), column in zip(self._glyphs, self._glyph_columns, strict=True):
            if kind == "mark" and column == self.curve.columns[0] and renderer.glyph.size != size:
                renderer.glyph.size = size
        self._update_visibility()
        self.overlay.draw()
        self.fit()
        self._distribution.draw(self._view.snapshot)
        self.shade()
        if self.card[1] is not (self._distribution.pane or self._pane):
            self.card[1] = self._distribution.pane or self._pane
        self.move_cursor()

    @property
    def is_whole(self) -> bool:
        """True if no zoom hides points."""
        return self._window.covers(self._points())

    def fit(self) -> None:
        """Fit the value axis to the visible part of the lines."""
        lines = [points for points in self._sent.values() if points] if self._run_visible else []
        others = [
            {"x": points["x"], "y": points["y"]}
            for _, points in self.overlay.visible_lines
            if len(points["x"])
        ]
        axis = fit_axis([self._window.visible(line) for line in (*lines, *others)], log=self.curve.log)
        if axis is not None and axis != (self._plot.y_range.start, self._plot.y_range.end):
            start, end = axis
            self._plot.y_range.update(start=start, end=end, reset_start=start, reset_end=end)
        if axis is not None:
            self._fade_full_bands(*axis)

    def _fade_full_bands(self, start: float, end: float) -> None:
        """Fade each band that fills the plot: without an edge in view it is only a coloured rectangle."""
        for (kind, renderer), column in zip(self._glyphs, self._glyph_columns, strict=True):
            points = self._sent[column]
            if kind == "band" and points:
                alpha = _BAND_ALPHA if column == self.curve.columns[0] else _BAND_ALPHA / 2
                full = fills_axis(self._window.visible(points), start, end)
                renderer.glyph.fill_alpha = alpha / 3 if full else alpha

    def move_cursor(self) -> None:
        """Move the step cursor: a vertical line, a dot on the curve, and the value in the head."""
        step = self.context.selection.step
        self._distribution.move_cursor(step)
        points = self._points()
        if step is None or not len(points["x"]):
            self._cursor_line.visible = False
            self._dot.data = {"x": [], "y": []}
            self._write_head(-1)
            return
        x = float(self._axis.positions_of(np.array([step]))[0])
        point = max(0, int(np.searchsorted(points["x"], x, side="right")) - 1)
        self._cursor_line.update(location=x, visible=True)
        self._dot.data = {"x": [points["x"][point]], "y": [points["y"][point]]}
        self._write_head(step)

    def shade(self) -> None:
        """Shade the steps of the opened finding behind the curve, else those of the curve's own finding."""
        own = (self.context.marked_curves.get(column) for column in self.curve.columns)
        marked = self.context.marked or next((steps for steps in own if steps is not None), None)
        if marked is not None:
            self._shading.restyle(marked.color, self.context.selection.dark)
        self._shading.draw(self._axis, marked.steps if marked is not None else ())
        opened = self.context.marked
        own_finding = opened is not None and opened.column in self.curve.columns
        self.card.css_classes = [*_CLASSES, "rl-of-finding"] if own_finding else _CLASSES
        self._distribution.shade(self._axis, marked)

    def restyle(self) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(self.context.selection.dark)
        theme.restyle(self._plot, self.context.selection.dark)
        self._cursor_line.line_color = colors["muted"]
        for (kind, renderer), column in zip(self._glyphs, self._glyph_columns, strict=True):
            color = self._glyph_color(column)
            if kind == "band":
                renderer.glyph.fill_color = color
            elif kind in ("line", "raw"):
                renderer.glyph.line_color = color
            else:
                renderer.glyph.update(fill_color=color, line_color=colors["surface"])
        self.shade()
        self.overlay.draw()
        self._distribution.restyle(self.context.selection.dark)
        for legend in self._plot.legend:
            legend.label_text_color = colors["muted"]

    def export(self) -> CardExport | None:
        """Return the export of the card; None while it has no points."""
        if not len(self._points()["x"]):
            return None
        subtitle = self._subtitle(trainer_scalars.describe(self.curve.columns[0]))
        name, visible = self._view.snapshot.name, self._run_visible
        lines = [
            PlotLine(name, column, points) for column, points in self._sent.items() if points and visible
        ]
        return curve_export(self.context, self.curve.title, subtitle, lines, self.overlay, self._distribution)

    def _points(self) -> series.Points:
        return self._sent[self.curve.columns[0]] or _empty_points()

    def _write_head(self, step: int) -> None:
        column = trainer_scalars.describe(self.curve.columns[0])
        value, before = trainer_scalars.values(self._view, column.name, step)
        change = delta(value, before)
        comparison = trainer_scalars.comparison_of(self._view, self.curve.columns)
        self._head.object = (
            f'<div class="head" title="{safe_text(column.tip)}">'
            f"<b>{safe_text(self.curve.title)}</b>"
            f'<span class="unit parts">{_parts_html(self._subtitle(column))}</span>'
            f"{comparison.html if comparison else ''}"
            f'<span class="number {column.color}">{number(value)}</span>{change}</div>'
        )

    def _subtitle(self, column: column_info.ColumnInfo) -> str:
        """Return the text after the title: statistic, band, unit, smoothing, and steps per point."""
        display = self.context.display
        scalar = trainer_scalars.scalar_of(column.name)
        pooled = column.level == "step"
        parts = [column.detail.removeprefix("mean ") or ("pooled" if pooled else "mean")]
        if column.unit and column.unit != "reward":
            parts.append(column.unit)
        banded = scalar is None and not pooled
        if self.context.selection.smooth:
            parts.append(tr("smoothed {smooth:g}").format(smooth=self.context.selection.smooth))
        if banded and display.band == "std":
            scale = display.variance_scale
            parts[0] += " ± 1σ" if scale == 1 else f" ± {scale:g}σ"
        elif (
            banded
            and display.band in _BAND_LABELS
            and (self._distribution.pane or display.band not in DISTRIBUTION_BANDS)
        ):
            parts[0] += f", {self._band_label()}"
        if self._distribution.note:
            parts.append(self._distribution.note)
        if display.zero_shift:
            parts.append(tr("minus its first step"))
        if self.curve.log:
            parts.append(tr("log scale"))
        size = self._steps_per_point()
        if size > 1:
            parts.append(tr("{size} steps per point").format(size=size))
        return ", ".join(parts)

    def _band_label(self) -> str:
        """Return the band's name; the quantiles of several steps are not those of their samples together."""
        band = self.context.display.band
        if band == "iqr" and self._steps_per_point() > 1:
            return tr("lowest to highest quartile of its steps")
        return _BAND_LABELS[band]

    def _steps_per_point(self) -> int:
        snapshot, scalar = self._view.snapshot, trainer_scalars.scalar_of(self.curve.columns[0])
        steps = snapshot.steps.values if scalar is None else snapshot.scalars.series(scalar).steps
        return series.bucket_size(len(steps))

    # -- building --------------------------------------------------------------------------------

    def _menu(self) -> ExportMenu:
        """Return the card's menu: exports, and the scale of the value axis."""
        entry = (tr("Linear scale") if self.curve.log else tr("Log scale"), self._change_scale)
        return ExportMenu(self.context, self.export, actions=(entry,))

    def _change_scale(self) -> None:
        selection, key = self.context.selection, self.curve.key
        rest = [each for each in selection.log_curves if each != key]
        selection.log_curves = rest if self.curve.log else [*rest, key]

    def _figure(self) -> Any:
        parts = self._window.parts
        plot = quiet_figure(
            parts=parts,
            whole=self.context.selection.align != TIME,  # steps and samples are whole numbers
            height=HEIGHT,
            stylesheets=_HEIGHTS,
            min_border_right=14,
            x_range=self._window.x_range,
            y_range=Range1d(start=0.1, end=1.0),
            y_axis_type="log" if self.curve.log else "linear",
        )
        self._shading = StepShading(plot)
        self._glyph_columns: list[str] = []
        items: list[LegendItem] = []
        for column, source in self._sources.items():
            # The column of the head is drawn strongest; the others are there for comparison.
            first = column == self.curve.columns[0]
            dash = _DASH.get(column, "solid" if first else "dotted")
            band, line, mark = add_glyphs(
                plot,
                source,
                glyphs.VArea(x="x", y1="lo", y2="hi", fill_alpha=_BAND_ALPHA if first else _BAND_ALPHA / 2),
                glyphs.Line(x="x", y="y", line_width=1.7 if first else 1.2, line_dash=dash),
                glyphs.Scatter(x="x", y="y", size=_MARKER_SIZE if first else 0, line_alpha=0),
                parts=parts,
            )
            self._add_renderers(column, ("band", band), ("line", line), ("mark", mark))
            renderers: list[Any] = [line, band, mark]
            items.append(LegendItem(label=self._legend_label(column), renderers=renderers))
        self._cursor_line = Span(dimension="height", line_width=1, line_alpha=0.9, visible=False)
        plot.add_layout(self._cursor_line)
        point = glyphs.Scatter(x="x", y="y", size=8, line_width=1.5)
        [dot] = add_glyphs(plot, self._dot, point, parts=parts)
        self._add_renderers(self.curve.columns[0], ("dot", dot))
        if any(trainer_scalars.scalar_of(column) is None for column in self.curve.columns[1:]):
            # The head compares with the trainer log. Inside the plot a legend would hide the lines.
            plot.add_layout(_legend(items), "above")
        self._add_tools(plot)
        return plot

    def _legend_label(self, column: str) -> str:
        if trainer_scalars.scalar_of(column) is not None:
            return "trainer log"
        return _LEGEND.get(column, trainer_scalars.describe(column).label)

    def _add_renderers(self, column: str, *renderers: tuple[str, Any]) -> None:
        for renderer in renderers:
            self._glyphs.append(renderer)
            self._glyph_columns.append(column)

    def _update_visibility(self) -> None:
        """Show the raw lines only while smoothing is on, and nothing while the run is switched off."""
        run_visible, smoothed = "" not in self.context.muted, self.context.selection.smooth > 0
        if smoothed and not any(kind == "raw" for kind, _ in self._glyphs):
            self._add_raw_lines()
        for kind, renderer in self._glyphs:
            # While the run's state is unchanged, keep what the user hid through the card's own legend.
            if kind == "raw" or self._run_visible != run_visible:
                renderer.visible = run_visible and (kind != "raw" or smoothed)
        self._run_visible = run_visible

    def _glyph_color(self, column: str) -> str:
        """Return the colour of a column's glyphs in the current theme."""
        first = column == self.curve.columns[0]
        # With overlay runs a colour identifies the run; otherwise it identifies the metric.
        name = "policy" if first and self.context.others else _color(column, first)
        return theme.palette(self.context.selection.dark)[name]

    def _add_raw_lines(self) -> None:
        """Add the lines behind the smoothed ones; most pages never smooth."""
        for column, source in self._sources.items():
            color = self._glyph_color(column)
            line = glyphs.Line(x="x", y="raw", line_width=1, line_alpha=RAW_ALPHA, line_color=color)
            self._add_renderers(column, ("raw", *add_glyphs(self._plot, source, line)))

    def _add_tools(self, plot: Any) -> None:
        first = next(renderer for kind, renderer in self._glyphs if kind == "line")
        self._hover = HoverTool(mode="vline", renderers=[first], line_policy="nearest")
        zoom = self._window.parts.zoom_tool()
        plot.add_tools(self._hover, zoom)
        self._window.watch(plot, zoom)
        plot.on_event(Tap, lambda event: self.context.choose_step(self._axis.nearest(event.x)))
        plot.js_on_event(DoubleTap, self._window.parts.reset)


def _legend(items: list[LegendItem]) -> Legend:
    return Legend(
        items=items,
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


def _color(column: str, first: bool) -> str:
    """Return a column's theme colour, or "text" for a scalar that is drawn over the column it equals."""
    return (
        trainer_scalars.describe(column).color
        if first or trainer_scalars.scalar_of(column) is None
        else "text"
    )


def _parts_html(subtitle: str) -> str:
    """Return a subtitle in parts that are shown whole or not at all."""
    first, *rest = (safe_text(part) for part in subtitle.split(", "))
    return f"<span>{first}</span>" + "".join(f"<span>, {part}</span>" for part in rest)


def _empty_points() -> series.Points:
    return {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n", "raw")}
