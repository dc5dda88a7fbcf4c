"""The points of a curve as the viewer wants them: on the chosen axis, smoothed, the raw values with them."""

from __future__ import annotations

from rlpanel.store.snapshot import Snapshot
from rlpanel.views import series, trainer_log
from rlpanel.views.alignment import Axis
from rlpanel.views.context import Context
from rlpanel.views.smoothing import smooth


def points(context: Context, snapshot: Snapshot, curve: str, axis: Axis) -> series.Points:
    """Points of a run's curve.

    Parameters
    ----------
    context : Context
        Says how it is shown.
    snapshot : Snapshot
        Of the run.
    curve : str
        As `rlpanel.views.trainer_log` names it.
    axis : Axis
        Of the same run.

    Returns
    -------
    dict of str to ndarray, shape (P,)
        As `rlpanel.views.series.curve`; ``y``, ``lo`` and ``hi`` are smoothed, ``raw`` is not.
    """
    found = trainer_log.points(snapshot, curve, context.display)
    weight, size = context.selection.smooth, series.bucket_size(len(snapshot.steps.values))
    smoothed = {name: smooth(found[name], weight, size) for name in ("y", "lo", "hi")}
    return {**found, **smoothed, "raw": found["y"], "x": axis.place(found["x"])}
