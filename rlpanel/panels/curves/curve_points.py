"""The points of a curve as the viewer wants them: on the chosen axis, smoothed, the raw values with them."""

from __future__ import annotations

from functools import partial

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.plots import series
from rlpanel.panels.plots.alignment import TIME, WORDS, RunAxis, chosen_axis
from rlpanel.panels.plots.smoothing import smooth
from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.settings import Display
from rlpanel.store.snapshot.run_view import RunView


def points(view: RunView, curve: str, axis: RunAxis, display: Display, weight: float) -> series.Points:
    """Points of a run's curve.

    Parameters
    ----------
    view : RunView
    curve : str
        As `rlpanel.panels.curves.trainer_scalars` names it.
    axis : RunAxis
        Of the same run.
    display : Display
    weight : float
        Of the smoothing.

    Returns
    -------
    dict of str to ndarray, shape (P,)
        As `rlpanel.panels.plots.series.curve`; ``y``, ``lo`` and ``hi`` are smoothed, ``raw`` is not.
    """
    found = trainer_scalars.points(view, curve, display)
    size = series.bucket_size(len(view.snapshot.steps.values))
    smoothed = {name: smooth(found[name], weight, size) for name in ("y", "lo", "hi")}
    return {**found, **smoothed, "raw": found["y"], "x": axis.place(found["x"])}


def shared_points(
    view: RunView, curve: str, alignment: str, display: Display, weight: float
) -> series.Points:
    """`points` on the axis that is asked for, worked out once for all sessions that want the same."""
    key = (curve, alignment, weight, display.band, display.variance_scale, display.zero_shift)
    make = partial(points, view, curve, chosen_axis(view.snapshot, alignment), display, weight)
    return cached_on(view, "points", key, make)


def tips(curve: str, alignment: str, weight: float) -> list[tuple[str, str]]:
    """What the pointer is told: fixed words, as column names come from logs and tooltips are markup."""
    found = [(WORDS[alignment], "@x{0.00}" if alignment == TIME else "@x{0,0}")]
    if trainer_scalars.scalar_of(curve) is not None:
        found.append(("logged", "@raw{0.0000000}"))
    else:
        found += [("mean", "@raw{0.0000}"), ("band", "@lo{0.000} … @hi{0.000}"), ("samples", "@n{0,0}")]
    if weight:
        found.insert(2, ("smoothed", "@y{0.0000}"))
    return found
