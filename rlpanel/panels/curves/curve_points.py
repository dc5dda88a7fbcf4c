"""Points of a curve on the chosen axis: smoothed values together with the raw ones."""

from __future__ import annotations

import numpy as np

from rlpanel.board_url import TIME
from rlpanel.display_settings import Display
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.language.labels import marked
from rlpanel.panels.plots import series
from rlpanel.panels.plots.series import smooth
from rlpanel.store.snapshot.alignment import AXIS_LABELS, RunAxis, chosen_axis
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

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


def points(view: RunView, curve: str, axis: RunAxis, display: Display, weight: float) -> series.Points:
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
    """Return `points` on the requested axis, cached on the view for all sessions.

    For a logarithmic axis, values of 0 and below are missing, and the band ends below the smallest value.
    """
    key = (curve, alignment, weight, display.band, display.variance_scale, display.zero_shift, log)

    def make() -> series.Points:
        found = points(view, curve, chosen_axis(view.snapshot, alignment), display, weight)
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
