"""A card with one curve over the steps: its plot, a step cursor, its head, and its export.

The head has the title, the unit, a comparison with the trainer's log, the step's value and its change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
from bokeh.events import DoubleTap, Tap

from rlpanel.board_url import TIME
from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.curves.curve_bar import Curve
from rlpanel.panels.curves.curve_marks import EventMarks, recent_change, trend_html, trend_of
from rlpanel.panels.curves.curve_plot import (
    HEIGHT,
    HEIGHTS,
    CurvePlot,
    CurveWindow,
    ValueDistribution,
    empty_points,
)
from rlpanel.panels.curves.curve_points import BAND_NAMES, BAND_TIPS, OverlayCurves
from rlpanel.panels.export.card_export import CardExport, CardHead, PlotLine, file_name, lines_frame
from rlpanel.panels.export.python_cell import curve_cell
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.panels.plots.value_axis import MIN_SPAN, fit_axis
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.alignment import AXIS_LABELS, alignment_of, chosen_axis
from rlpanel.store.snapshot.run_view import RunView

#: What an export calls each band, but ± 1σ, which a setting scales.
_BANDS = {**BAND_NAMES, "density": "density", "ridge": "ridges"}


def head_html(
    view: RunView, curve: Curve, drawn: str, band: str, marked: MarkedSteps | None, trend: str = ""
) -> str:
    """Return the head's HTML without a value.

    Parameters
    ----------
    view : RunView
    curve : Curve
    drawn : str
        The text of `subtitle`, for the tooltip.
    band : str
        The band that is drawn; empty for none.
    marked : MarkedSteps, optional
        The shaded steps.
    trend : str
        The mark of the last steps, as HTML.
    """
    column = trainer_scalars.describe(curve.columns[0])
    comparison = trainer_scalars.comparison_of(view, curve.columns)
    tip = "\n".join(filter(None, [column.tip, drawn, tr(BAND_TIPS[band]) if band in BAND_TIPS else ""]))
    unit = ", ".join(filter(None, [_unit(column), tr("log scale") if curve.log else ""]))
    return (
        f'<div class="head" title="{safe_text(tip)}">'
        f"<b>{safe_text(curve.title)}</b>"
        f'{f"""<span class="unit fixed">{safe_text(unit)}</span>""" if unit else ""}'
        f"{comparison.html if comparison else ''}{trend}"
        f"{_shaded_html(marked)}</div>"
    )


def _unit(column: column_info.ColumnInfo) -> str:
    return tr(column.unit) if column.unit not in ("reward", column.label) else ""


def _shaded_html(marked: MarkedSteps | None) -> str:
    """Return a label of the shaded steps; empty without any."""
    if marked is None or not marked.steps or not marked.text:
        return ""
    first, last = marked.steps[0], marked.steps[-1]
    steps = (
        tr("shaded: step {first}", first=first)
        if first == last
        else tr("shaded: steps {first}–{last}", first=first, last=last)
    )
    return f'<span class="unit shaded" title="{safe_text(marked.text)}">{safe_text(steps)}</span>'


def value_html(view: RunView, curve: Curve, step: int) -> str:
    """Return the HTML of a curve's value at a step, with its change against the steps before."""
    column = trainer_scalars.describe(curve.columns[0])
    change = recent_change(*trainer_scalars.values(view, column.name, step))
    return f'<span class="number {column.color}">{number(change.value)}</span>{change.html}'


def subtitle(view: RunView, curve: Curve, display: Display, smoothing: float, band: str, note: str) -> str:
    """Return what is drawn: statistic, band, unit, smoothing, and steps per point.

    Parameters
    ----------
    view : RunView
    curve : Curve
    display : Display
    smoothing : float
    band : str
        The band that is drawn; empty for none.
    note : str
        What the band's plot says about its values.
    """
    column = trainer_scalars.describe(curve.columns[0])
    parts = [_statistic(column) + _band(band, display)]
    if column.unit and column.unit != "reward":
        parts.append(tr(column.unit))
    if smoothing:
        parts.append(tr("smoothed {smooth:g}", smooth=smoothing))
    if note:
        parts.append(note)
    if display.zero_shift:
        parts.append(tr("minus its first step"))
    if curve.log:
        parts.append(tr("log scale"))
    size = _steps_per_point(view, curve.columns[0])
    if size > 1:
        parts.append(tr("{size} steps per point", size=size))
    return ", ".join(parts)


def _statistic(column: column_info.ColumnInfo) -> str:
    return column.detail.removeprefix("mean ") or (tr("pooled") if column.level == "step" else tr("mean"))


def _band(band: str, display: Display) -> str:
    """Return the words for a band; empty if there is none."""
    if band == "std":
        scale = display.variance_scale
        return " ± 1σ" if scale == 1 else f" ± {scale:g}σ"
    if band == "se":
        return f" {_BANDS[band]}"
    return f", {_BANDS[band]}" if band in _BANDS else ""


def _steps_per_point(view: RunView, column: str) -> int:
    snapshot, scalar = view.snapshot, trainer_scalars.scalar_of(column)
    steps = snapshot.steps.values if scalar is None else snapshot.scalars.series(scalar).steps
    return series.bucket_size(len(steps))


def curve_export(
    context: Context,
    title: str,
    subtitle: str,
    lines: list[PlotLine],
    overlay: OverlayCurves,
    distribution: ValueDistribution,
) -> CardExport:
    """Return the export of a curve card.

    Parameters
    ----------
    context : Context
    title, subtitle : str
        As in the card's head.
    lines : list of PlotLine
        Lines of the selected run; empty if the run is switched off.
    overlay : OverlayCurves
        Lines of the overlay runs.
    distribution : ValueDistribution
        Exported instead of the lines if it has a plot.
    """
    snapshot, selection, curve = context.snapshot, context.selection, overlay.curve
    alignment = alignment_of(snapshot, selection.align)
    overlay_lines = [PlotLine(other.label, curve, points) for other, points in overlay.visible_lines]
    # A copy: the table is built on a thread, while the settings may change.
    display, smoothing = type(context.display)(**context.display.param.values()), selection.smooth
    legend = [(snapshot.name, "policy")] if lines and overlay_lines else []
    legend += [(other.label, other.color(selection.dark)) for other, _ in overlay.visible_lines]
    curve_name = trainer_scalars.scalar_of(curve) or curve
    return CardExport(
        name=f"{file_name(snapshot.name)}-{file_name(curve_name)}-to-step-{snapshot.steps.values[-1]}",
        title=title,
        words=f"{subtitle}, by {AXIS_LABELS[alignment]}{'' if legend else f', {snapshot.name}'}",
        rows=distribution.make_table
        or (lambda: lines_frame([*lines, *overlay_lines], alignment, display, smoothing)),
        legend=tuple(legend),
    )


_CLASSES = ["rl-card", "rl-curve"]


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
        self._sent: dict[str, series.Points | None] = dict.fromkeys(curve.columns)
        # Steps and samples are whole numbers.
        whole = context.selection.align != TIME
        self.plot = CurvePlot(curve, self._window, whole_numbers=whole, tips=window is None)
        self.plot.figure.on_event(Tap, self._on_tap)
        self.plot.figure.on_event(DoubleTap, self._on_double_tap)
        self._before_tap: dict[str, Any] = {}
        self.overlay = OverlayCurves(context, self.plot.figure, curve.columns[0])
        self._events = EventMarks(self.plot.figure, curve.columns)
        self._pane = pn.pane.Bokeh(
            self.plot.figure,
            sizing_mode="stretch_width",
            height=HEIGHT,
            margin=(0, 4, 0, 4),
            stylesheets=HEIGHTS,
        )
        self._distribution = ValueDistribution(context, self.plot)
        scale = tr("Linear scale") if curve.log else tr("Log scale")
        self.head = CardHead(
            context,
            self.export,
            [(scale, self._change_scale), (tr("Copy as Python"), self._copy_python)],
            stylesheets=[read_assets("panels/curves/curve_head.css")],
        )
        self.card = pn.Column(
            self.head,
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
        alignment = alignment_of(self._view.snapshot, selection.align)
        self.plot.show_tips(
            curve_points.tips(self.curve.columns[0], alignment, selection.smooth, self.context.display.band)
        )
        for column, source in self.plot.sources.items():
            points = curve_points.shared_points(
                self._view,
                column,
                selection.align,
                self.context.display,
                selection.smooth,
                log=self.curve.log,
            )
            # Without smoothing the raw values are those of the line, and are not sent twice.
            left_out = () if selection.smooth else ("raw",)
            series.update_source(source, points, self._sent[column], left_out)
            self._sent[column] = points
        self.plot.show_markers(len(self._points()["x"]))
        self.plot.show_run(on=self._run_visible, smoothed=selection.smooth > 0)
        self.overlay.draw()
        self._distribution.draw(self._view)
        self.mark_events()
        self.fit()
        self.shade()
        if self.card[1] is not self.pane:
            self.card[1] = self.pane
        self.move_cursor()

    @property
    def pane(self) -> Any:
        """The pane that is shown: of the distribution if there is one, else of the curve."""
        return self._distribution.pane or self._pane

    @property
    def band(self) -> str:
        """The band that is drawn around the line or in its place; empty for none."""
        column = self.curve.columns[0]
        if trainer_scalars.scalar_of(column) is not None:
            return ""
        band = series.band_of(self._view, column, self.context.display.band)
        return self._distribution.kind if band in ("density", "ridge") else band

    @property
    def lines(self) -> list[Any]:
        """The renderers of all lines."""
        return [*self.plot.lines, *self.overlay.renderers]

    def follow(self, lines: list[Any]) -> None:
        """Let the axis show all steps of these lines."""
        self._window.follow(lines)

    @property
    def is_whole(self) -> bool:
        """True if no zoom hides points."""
        return self._window.covers(self._points())

    @property
    def _run_visible(self) -> bool:
        return "" not in self.context.hidden_runs

    def fit(self) -> None:
        """Fit the value axis to the visible part of the lines."""
        drawn = {column: self._window.visible(points) for column, points in self._sent.items() if points}
        lines = list(drawn.values()) if self._run_visible else []
        others = [
            self._window.visible({"x": points["x"], "y": points["y"]})
            for _, points in self.overlay.visible_lines
            if len(points["x"])
        ]
        least = MIN_SPAN.get(trainer_scalars.describe(self.curve.columns[0]).unit, 0.0)
        axis = self._distribution.axis(least) or fit_axis(
            [*lines, *others], log=self.curve.log, least=least, whole_band=self.band == "se"
        )
        if axis is not None:
            self.plot.fit(axis, drawn)
        # A run of one step has no curve: the value in the head says all of it. While a run is read, more
        # steps may come, and a plot that appears later would push the page down.
        points = [*self._sent.values(), *(points for _, points in self.overlay.visible_lines)]
        many = any(each is not None and len(each["x"]) > 1 for each in points)
        is_read = self._view.snapshot.progress.caught_up
        self._pane.visible = many or len(self._axis.positions) != 1 or not is_read

    def move_cursor(self) -> None:
        """Move the step cursor: a vertical line, a dot on the curve, and the value in the head."""
        step = self.context.selection.step
        self._distribution.move_cursor(step)
        points = self._points()
        if step is None or not len(self._axis.positions):
            self.plot.move_cursor(None)
            self._write_value(-1)
            return
        x = float(self._axis.positions_of(np.array([step]))[0])
        if not len(points["x"]):
            self.plot.move_cursor(x)
            self._write_value(-1)
            return
        point = max(0, int(np.searchsorted(points["x"], x, side="right")) - 1)
        self.plot.move_cursor(x, (points["x"][point], points["y"][point]))
        self._write_value(step)

    def shade(self) -> None:
        """Shade the steps of the opened finding behind the curve, else those of the curve's own finding."""
        marked = self._marked
        if marked is not None:
            self.plot.shading.restyle(marked.color, self.context.selection.dark)
        self.plot.shading.draw(self._axis, marked.steps if marked is not None else ())
        opened = self.context.shaded_steps
        own_finding = opened is not None and opened.column in self.curve.columns
        self.card.css_classes = [*_CLASSES, "rl-of-finding"] if own_finding else _CLASSES
        self._write_head()

    @property
    def _marked(self) -> MarkedSteps | None:
        """The steps to shade; None for none."""
        own = (self.context.shaded_by_column.get(column) for column in self.curve.columns)
        return self.context.shaded_steps or next((steps for steps in own if steps is not None), None)

    def mark_events(self) -> None:
        """Mark the steps at which something happened."""
        marks = self._window.events.of(self.context)
        self._events.draw(self._axis, marks, dark=self.context.selection.dark)

    def restyle(self) -> None:
        """Apply the colours of the dark or light theme."""
        dark = self.context.selection.dark
        self.plot.restyle(dark=dark, several_runs=bool(self.context.overlays))
        self.shade()
        self.mark_events()
        self.overlay.draw()
        self._distribution.restyle(dark)

    def export(self) -> CardExport | None:
        """Return the export of the card; None while it has no points."""
        if not len(self._points()["x"]):
            return None
        name, visible = self._view.snapshot.name, self._run_visible
        lines = [
            PlotLine(name, column, points, series.band_of(self._view, column, self.context.display.band))
            for column, points in self._sent.items()
            if points and visible
        ]
        return curve_export(
            self.context, self.curve.title, self._subtitle(), lines, self.overlay, self._distribution
        )

    def _points(self) -> series.Points:
        return self._sent[self.curve.columns[0]] or empty_points()

    def _write_head(self) -> None:
        trend = trend_html(trend_of(self.context, self._view, self.curve.columns[0]))
        self.head.head = head_html(self._view, self.curve, self._subtitle(), self.band, self._marked, trend)

    def _write_value(self, step: int) -> None:
        self.head.value = value_html(self._view, self.curve, step)

    def _subtitle(self) -> str:
        smoothing, note = self.context.selection.smooth, self._distribution.note
        return subtitle(self._view, self.curve, self.context.display, smoothing, self.band, note)

    def _on_tap(self, event: Any) -> None:
        """Select the step; with Shift, also filter the grid by the values of the density at this place."""
        selection = self.context.selection
        self._before_tap = {name: getattr(selection, name) for name in ("step", "follow", "uid", "token")}
        step = self._axis.nearest(event.x)
        shift = bool(event.modifiers and event.modifiers["shift"])
        within = self._distribution.range_at(event.x, event.y) if shift else None
        if within is not None:
            self.context.choose_range(step, within.text)
        else:
            self.context.choose_step(step)

    def _on_double_tap(self, _: Any) -> None:
        """Take back the step that the first click selected: a double click only shows all steps again."""
        self.context.selection.param.update(**self._before_tap)

    def _copy_python(self) -> None:
        cell = curve_cell(self.context, self.curve.columns, self.band, log=self.curve.log)
        self.head.send({"kind": "copy", "text": cell})

    def _change_scale(self) -> None:
        selection, key = self.context.selection, self.curve.key
        rest = [each for each in selection.log_curves if each != key]
        selection.log_curves = rest if self.curve.log else [*rest, key]
