"""A card with one curve over the steps: its plot, a step cursor, its head, and its export.

The head has the title, what is drawn, a comparison with the trainer's log, the step's value and its change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap

from rlpanel.board_url import TIME
from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.curves.curve_plot import HEIGHT, HEIGHTS, CurvePlot, CurveWindow, empty_points
from rlpanel.panels.curves.curve_points import BAND_NAMES
from rlpanel.panels.curves.curve_selection import Curve
from rlpanel.panels.curves.overlay_curves import OverlayCurves
from rlpanel.panels.curves.value_distribution import DISTRIBUTION_BANDS, ValueDistribution
from rlpanel.panels.export.card_export import CardExport, PlotLine, file_name, lines_frame
from rlpanel.panels.export.card_head import CardHead
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.panels.plots.value_axis import fit_axis
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import delta, safe_text
from rlpanel.store.snapshot.alignment import AXIS_LABELS, alignment_of, chosen_axis
from rlpanel.store.snapshot.run_view import RunView

#: What the head calls each band, but ± 1σ, which a setting scales.
_BANDS = {**BAND_NAMES, "density": "density", "ridge": "ridges"}


def head_html(view: RunView, curve: Curve, drawn: str) -> str:
    """Return the head's HTML without a value; ``drawn`` is the text of `subtitle`."""
    column = trainer_scalars.describe(curve.columns[0])
    comparison = trainer_scalars.comparison_of(view, curve.columns)
    return (
        f'<div class="head" title="{safe_text(column.tip)}">'
        f"<b>{safe_text(curve.title)}</b>"
        f'<span class="unit parts">{_parts_html(drawn)}</span>'
        f"{comparison.html if comparison else ''}</div>"
    )


def value_html(view: RunView, curve: Curve, step: int) -> str:
    """Return the HTML of a curve's value at a step, with its change since the step before."""
    column = trainer_scalars.describe(curve.columns[0])
    value, before = trainer_scalars.values(view, column.name, step)
    return f'<span class="number {column.color}">{number(value)}</span>{delta(value, before)}'


def subtitle(
    view: RunView, curve: Curve, display: Display, smoothing: float, distribution: ValueDistribution
) -> str:
    """Return the text after the title: statistic, band, unit, smoothing, and steps per point."""
    column = trainer_scalars.describe(curve.columns[0])
    parts = [_statistic(column) + _band(column, display, distribution)]
    if column.unit and column.unit != "reward":
        parts.append(column.unit)
    if smoothing:
        parts.append(tr("smoothed {smooth:g}", smooth=smoothing))
    if distribution.note:
        parts.append(distribution.note)
    if display.zero_shift:
        parts.append(tr("minus its first step"))
    if curve.log:
        parts.append(tr("log scale"))
    size = _steps_per_point(view, curve.columns[0])
    if size > 1:
        parts.append(tr("{size} steps per point", size=size))
    return ", ".join(parts)


def _statistic(column: column_info.ColumnInfo) -> str:
    return column.detail.removeprefix("mean ") or ("pooled" if column.level == "step" else "mean")


def _band(column: column_info.ColumnInfo, display: Display, distribution: ValueDistribution) -> str:
    """Return what is drawn around the line; empty if there is nothing."""
    if trainer_scalars.scalar_of(column.name) is not None or column.level == "step":
        return ""
    if display.band == "std":
        scale = display.variance_scale
        return " ± 1σ" if scale == 1 else f" ± {scale:g}σ"
    if display.band in DISTRIBUTION_BANDS and not distribution.pane:
        return ""
    return f", {_BANDS[display.band]}" if display.band in _BANDS else ""


def _steps_per_point(view: RunView, column: str) -> int:
    snapshot, scalar = view.snapshot, trainer_scalars.scalar_of(column)
    steps = snapshot.steps.values if scalar is None else snapshot.scalars.series(scalar).steps
    return series.bucket_size(len(steps))


def _parts_html(drawn: str) -> str:
    """Return a subtitle in parts that are shown whole or not at all."""
    first, *rest = (safe_text(part) for part in drawn.split(", "))
    return f"<span>{first}</span>" + "".join(f"<span>, {part}</span>" for part in rest)


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
        self.plot = CurvePlot(curve, self._window, whole_numbers=context.selection.align != TIME)
        self.plot.figure.on_event(Tap, lambda event: self.context.choose_step(self._axis.nearest(event.x)))
        self.overlay = OverlayCurves(context, self.plot.figure, curve.columns[0])
        self._pane = pn.pane.Bokeh(
            self.plot.figure,
            sizing_mode="stretch_width",
            height=HEIGHT,
            margin=(0, 4, 0, 4),
            stylesheets=HEIGHTS,
        )
        self._distribution = ValueDistribution(
            context, curve.columns[0], self.plot.sources[curve.columns[0]], HEIGHT
        )
        scale = tr("Linear scale") if curve.log else tr("Log scale")
        self.head = CardHead(
            context,
            self.export,
            [(scale, self._change_scale)],
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
            series.update_source(source, points, self._sent[column])
            self._sent[column] = points
        self.plot.show_markers(len(self._points()["x"]))
        self.plot.show_run(on=self._run_visible, smoothed=selection.smooth > 0)
        self.overlay.draw()
        self.fit()
        self._distribution.draw(self._view.snapshot)
        self.shade()
        if self.card[1] is not self.pane:
            self.card[1] = self.pane
        self.move_cursor()

    @property
    def pane(self) -> Any:
        """The pane that is shown: of the distribution if there is one, else of the curve."""
        return self._distribution.pane or self._pane

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
        axis = fit_axis([*lines, *others], log=self.curve.log)
        if axis is not None:
            self.plot.fit(axis, drawn)

    def move_cursor(self) -> None:
        """Move the step cursor: a vertical line, a dot on the curve, and the value in the head."""
        step = self.context.selection.step
        self._distribution.move_cursor(step)
        points = self._points()
        if step is None or not len(self._axis.positions):
            self.plot.move_cursor(None)
            self._write_head(-1)
            return
        x = float(self._axis.positions_of(np.array([step]))[0])
        if not len(points["x"]):
            self.plot.move_cursor(x)
            self._write_head(-1)
            return
        point = max(0, int(np.searchsorted(points["x"], x, side="right")) - 1)
        self.plot.move_cursor(x, (points["x"][point], points["y"][point]))
        self._write_head(step)

    def shade(self) -> None:
        """Shade the steps of the opened finding behind the curve, else those of the curve's own finding."""
        own = (self.context.shaded_by_column.get(column) for column in self.curve.columns)
        marked = self.context.shaded_steps or next((steps for steps in own if steps is not None), None)
        if marked is not None:
            self.plot.shading.restyle(marked.color, self.context.selection.dark)
        self.plot.shading.draw(self._axis, marked.steps if marked is not None else ())
        opened = self.context.shaded_steps
        own_finding = opened is not None and opened.column in self.curve.columns
        self.card.css_classes = [*_CLASSES, "rl-of-finding"] if own_finding else _CLASSES
        self._distribution.shade(self._axis, marked)

    def restyle(self) -> None:
        """Apply the colours of the dark or light theme."""
        dark = self.context.selection.dark
        self.plot.restyle(dark=dark, several_runs=bool(self.context.overlays))
        self.shade()
        self.overlay.draw()
        self._distribution.restyle(dark)

    def export(self) -> CardExport | None:
        """Return the export of the card; None while it has no points."""
        if not len(self._points()["x"]):
            return None
        name, visible = self._view.snapshot.name, self._run_visible
        lines = [
            PlotLine(name, column, points) for column, points in self._sent.items() if points and visible
        ]
        return curve_export(
            self.context, self.curve.title, self._subtitle(), lines, self.overlay, self._distribution
        )

    def _points(self) -> series.Points:
        return self._sent[self.curve.columns[0]] or empty_points()

    def _write_head(self, step: int) -> None:
        self.head.param.update(
            head=head_html(self._view, self.curve, self._subtitle()),
            value=value_html(self._view, self.curve, step),
        )

    def _subtitle(self) -> str:
        smoothing = self.context.selection.smooth
        return subtitle(self._view, self.curve, self.context.display, smoothing, self._distribution)

    def _change_scale(self) -> None:
        selection, key = self.context.selection, self.curve.key
        rest = [each for each in selection.log_curves if each != key]
        selection.log_curves = rest if self.curve.log else [*rest, key]
