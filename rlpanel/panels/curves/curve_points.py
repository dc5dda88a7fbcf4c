"""Points of a curve on the chosen axis, smoothed and raw, and the lines of overlay runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.models.glyphs import MultiLine

from rlpanel.board_url import TIME
from rlpanel.display_settings import Display
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.language.labels import marked
from rlpanel.panels.plots import series
from rlpanel.panels.plots.quiet_figure import add_glyphs
from rlpanel.panels.plots.series import smooth
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import OverlayRun
from rlpanel.store.snapshot.alignment import AXIS_LABELS, RunAxis, alignment_of, axis_of, chosen_axis
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

# -- curve points --------------------------------------------------------------------------------------
# Points of a curve on the chosen axis: smoothed values together with the raw ones.


#: What heads and tooltips call each band.
BAND_NAMES = {"iqr": "25–75%", "se": "± 2 standard errors", "std": "± 1σ", "range": "min–max"}
#: Band → what it shows, with formula, unit and number of samples.
BAND_TIPS = {
    "iqr": marked("Band: the middle half of the step's values, from the 25th to the 75th percentile."),
    "se": marked(
        "Band: mean ± 2 standard errors, 2·s/√n in the unit of the curve, with the standard deviation s of "
        "the step's n samples. The samples of a prompt are alike, so the true error is larger."
    ),
    "std": marked("Band: mean ± the standard deviation of the step's samples."),
    "range": marked("Band: from the step's smallest to its largest value."),
    "density": marked(
        "Shades: how many of the step's samples have a value, from the surface (none) to the brightest (the "
        "most frequent value). Shift and click: list the samples with these values."
    ),
    "ridge": marked("Outlines: the distribution of the values in stretches of steps, the newest in front."),
}


def smoothed_points(
    view: RunView, curve: str, axis: RunAxis, display: Display, weight: float
) -> series.Points:
    """Return the points of a run's curve.

    Parameters
    ----------
    view : RunView
    curve : str
        A column, or a scalar as `rlpanel.panels.curves.trainer_scalars` names it.
    axis : RunAxis
        Axis of the same run.
    display : Display
    weight : float
        Smoothing weight; 0 for no smoothing.

    Returns
    -------
    dict of str to ndarray, shape (P,)
        As `rlpanel.panels.plots.series.curve`; ``y``, ``lo`` and ``hi`` are smoothed, ``raw`` is not.
    """
    raw = trainer_scalars.points(view, curve, display)
    size = series.bucket_size(len(view.snapshot.steps.values))
    smoothed = {name: smooth(raw[name], weight, size) for name in ("y", "lo", "hi")}
    return {**raw, **smoothed, "raw": raw["y"], "x": axis.positions_of(raw["x"])}


def shared_points(
    view: RunView, curve: str, alignment: str, display: Display, weight: float, *, log: bool = False
) -> series.Points:
    """Return `smoothed_points` on the requested axis, cached on the view for all sessions.

    For a logarithmic axis, values of 0 and below are missing, and the band ends below the smallest value.
    """
    key = (curve, alignment, weight, display.band, display.variance_scale, display.zero_shift, log)

    def make() -> series.Points:
        found = smoothed_points(view, curve, chosen_axis(view.snapshot, alignment), display, weight)
        return _positive(found) if log else found

    return cached_on(view, "points", key, make)


def _positive(found: series.Points) -> series.Points:
    """Return points for a logarithmic axis."""
    above = {name: np.where(found[name] > 0, found[name], np.nan) for name in ("y", "raw", "hi")}
    least = np.nanmin(above["y"], initial=np.inf)
    low = np.where(np.isnan(above["hi"]), np.nan, np.maximum(found["lo"], least / 10))
    return {**found, **above, "lo": low}


def tips(curve: str, alignment: str, weight: float, band: str) -> list[tuple[str, str]]:
    """Return the rows of the hover tooltip.

    Their labels are fixed: tooltips are markup, and column names come from logs.
    """
    rows = [(AXIS_LABELS[alignment], "@x{0.00}" if alignment == TIME else "@x{0,0}")]
    raw = "raw" if weight else "y"
    if trainer_scalars.scalar_of(curve) is not None:
        rows.append(("logged", f"@{raw}{{0.0000000}}"))
    else:
        named = [(BAND_NAMES[band], "@lo{0.000} … @hi{0.000}")] if band in BAND_NAMES else []
        rows += [("mean", f"@{raw}{{0.0000}}"), *named, ("samples", "@n{0,0}")]
    if weight:
        rows.insert(2, ("smoothed", "@y{0.0000}"))
    return rows


# -- overlay curves ------------------------------------------------------------------------------------
# Lines of the overlay runs in one plot, one colour per run.
#
# When a run grows, only its line is sent.


#: Opacity of the raw line behind the smoothed one.
RAW_ALPHA = 0.28
#: Column of the data source → key in a curve's points.
_COLUMNS = {"xs": "x", "ys": "y", "raws": "raw"}
_NO_POINTS = {name: np.empty(0) for name in _COLUMNS.values()}


class OverlayCurves:
    """The lines of all overlay runs in one plot.

    All lines share one glyph. A renderer per run would cost milliseconds each, in the browser and on the
    server, and a page may show eight runs in four plots.

    Parameters
    ----------
    context : Context
    plot : figure
    curve : str
        A column, or a scalar as `rlpanel.panels.curves.trainer_scalars` names it.
    """

    def __init__(self, context: Context, plot: Any, curve: str) -> None:
        self._context, self._plot, self.curve = context, plot, curve
        self._display = Display(band="none")  # overlay runs are drawn without bands, so none are computed
        empty: dict[str, Any] = {name: [] for name in ("run", "color", *_COLUMNS)}
        self._source = ColumnDataSource(empty, name=f"over-{curve}")
        self._lines: Any = None  # created on demand: most pages have no overlay runs
        self._raw: Any = None
        self._cache: dict[str, tuple[RunView, tuple[object, ...], series.Points]] = {}
        self._sent: dict[str, tuple[str, series.Points]] = {}

    def draw(self) -> None:
        """Update the lines to the newest snapshots and to the overlay runs that are not switched off."""
        context, selection = self._context, self._context.selection
        visible = [other for other in context.overlays if other.key not in context.hidden_runs]
        if visible and self._lines is None:
            self._lines = self._add_renderer("ys", line_width=1.4)
        lines = {other.key: (other.color(selection.dark), self._points(other)) for other in visible}
        colors = [(key, color) for key, (color, _) in lines.items()]
        if colors == [(key, color) for key, (color, _) in self._sent.items()]:
            self._patch(lines)
        else:
            self._source.data = {
                "run": [key for key, _ in colors],
                "color": [color for _, color in colors],
                **{name: [points[key] for _, points in lines.values()] for name, key in _COLUMNS.items()},
            }
        self._sent = lines
        self._show_raw(on=selection.smooth > 0 and bool(visible))

    @property
    def visible_lines(self) -> list[tuple[OverlayRun, series.Points]]:
        """The overlay runs whose lines are drawn, with their points."""
        return [
            (other, self._sent[other.key][1]) for other in self._context.overlays if other.key in self._sent
        ]

    @property
    def renderers(self) -> list[Any]:
        """The renderer of the lines; none as long as there were no overlay runs."""
        return [] if self._lines is None else [self._lines]

    def _patch(self, wanted: dict[str, tuple[str, series.Points]]) -> None:
        """Send the lines of the runs whose points changed."""
        changed = [
            (position, points)
            for position, (key, (_, points)) in enumerate(wanted.items())
            if points is not self._sent[key][1]
        ]
        if changed:
            self._source.patch(
                {
                    name: [(position, points[key]) for position, points in changed]
                    for name, key in _COLUMNS.items()
                }
            )

    def _points(self, other: OverlayRun) -> series.Points:
        """Return the points of a run's line; the same object as long as nothing changed."""
        selection = self._context.selection
        alignment = alignment_of(self._context.snapshot, selection.align)
        options = (alignment, selection.smooth, self._context.display.zero_shift)
        cached = self._cache.get(other.key)
        if cached is not None and cached[0] is other.view and cached[1] == options:
            return cached[2]
        # A split of the selected run uses that run's axis, and has no trainer log of its own.
        own = other.is_split
        axis, points = axis_of(self._context.snapshot if own else other.snapshot, alignment), _NO_POINTS
        if own and trainer_scalars.scalar_of(self.curve) is not None:
            axis = None
        if axis is not None and trainer_scalars.has_data(other.view, self.curve):
            self._display.zero_shift = self._context.display.zero_shift
            points = smoothed_points(other.view, self.curve, axis, self._display, selection.smooth)
        self._cache[other.key] = other.view, options, points
        return points

    def _show_raw(self, *, on: bool) -> None:
        if on and self._raw is None:
            self._raw = self._add_renderer("raws", line_width=1, line_alpha=RAW_ALPHA)
        if self._raw is not None and self._raw.visible != on:
            self._raw.visible = on

    def _add_renderer(self, ys: str, **style: Any) -> Any:
        glyph = MultiLine(xs="xs", ys=ys, line_color="color", **style)
        [renderer] = add_glyphs(self._plot, self._source, glyph, level="underlay")
        return renderer
