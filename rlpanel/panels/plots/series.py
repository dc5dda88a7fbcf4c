"""Points of a column over the steps, reduced to what a screen can show, and incremental updates of them.

A new step streams one point to the browser, and a changed step patches one. The steps of long runs are
grouped into buckets of 2^k steps, so that existing buckets do not shift while the run grows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource

from rlpanel.display_settings import Display
from rlpanel.metrics.engine.column_info import is_outcome, step_names
from rlpanel.store.columns.step_stats import COUNT, MAX, MIN
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Maximum number of points of a curve.
POINTS = 2000
#: Number of samples from which on quartiles are those of a part of them: a curve is drawn at once.
EXACT_SAMPLES = 1 << 19
#: A column has few values if it has at most this many distinct ones, each this many times on average.
FEW_VALUES, FEW_REPEATS = 12, 4
#: Clusters of values: bins of the range, most clusters, least share of one, and least share of all of them.
CLUSTER_BINS, MAX_CLUSTERS, CLUSTER_SHARE, CLUSTERED = 20, 4, 0.05, 0.98
#: Median number of samples a step from which on a continuous reward is shown as a density.
DENSE_SAMPLES = 64
#: Number of values that are looked at to tell whether they are few: first some, then more.
_LOOKED_AT = (512, 20_000)
#: Maximum length of an array that is sent as a list.
MAX_LIST_LENGTH = 128

Points = dict[str, np.ndarray]


def bucket_size(steps: int) -> int:
    """Return the number of steps that one point stands for, a power of two."""
    size = 1
    while steps > POINTS * size:
        size *= 2
    return size


def curve(view: RunView, column: str, display: Display, band: str = "") -> Points:
    """Return the points of a column's mean with its band, or of one number per step, which has no band.

    Parameters
    ----------
    view : RunView
    column : str
    display : Display
    band : str
        The band, such as that of `band_of`; by default the one of ``display``.

    Returns
    -------
    dict of str to ndarray, shape (P,)
        ``x`` (step), ``y`` (mean), ``lo`` and ``hi`` (band), ``n`` (samples behind the point).
    """
    steps = view.snapshot.steps
    if column in step_names() or view.is_statistic(column):
        return points_without_band(steps.values, view.step_values(column), display)
    size = bucket_size(len(steps.values))
    starts = np.arange(0, len(steps.values), size)
    count, mean, m2 = steps.stat(column, COUNT), steps.mean(column), steps.squared_deviations(column)
    with np.errstate(all="ignore"):
        n = np.add.reduceat(count, starts) if len(starts) else count
        y = _sum(np.where(count > 0, count * mean, 0.0), starts) / n
        off = np.where(count > 0, count * np.square(mean - np.repeat(y, size)[: len(mean)]), 0.0)
        deviation = np.sqrt((_sum(np.where(count > 0, m2, 0.0), starts) + _sum(off, starts)) / (n - 1))
    std = np.where(n > 1, deviation, np.nan)
    lo, hi = _band(view, column, band or display.band, display.variance_scale, starts, y, std, n)
    shift = _first(y) if display.zero_shift else 0.0
    x = steps.values[starts].astype(float)
    return {"x": x, "y": y - shift, "lo": lo - shift, "hi": hi - shift, "n": n}


def band_of(view: RunView, column: str, chosen: str) -> str:
    """Return the band that a curve shows for the chosen one; none for one number per step.

    Quartiles of few values would jump between them, so these get the standard error of the mean.
    """
    if column in step_names() or view.is_statistic(column):
        return "none"
    if chosen not in ("auto", "iqr") or not view.snapshot.has_number(column):
        return chosen
    few, dense = cached_on(view, "value kind", column, lambda: _value_kind(view, column))
    if few:
        return "se"
    return "density" if chosen == "auto" and dense and is_outcome(column) else "iqr"


def _value_kind(view: RunView, column: str) -> tuple[bool, bool]:
    """Return whether a column has few distinct values or clusters, and whether it has many samples a step."""
    values = view.snapshot.counted(column)
    few = True
    for count in _LOOKED_AT:
        part = values[:: max(1, len(values) // count)]
        part = part[np.isfinite(part)]
        distinct = len(np.unique(part))
        repeated = 0 < distinct <= FEW_VALUES and distinct * FEW_REPEATS <= len(part)
        few = few and (repeated or _in_clusters(part))
    counts = view.snapshot.steps.stat(column, COUNT)
    return few, len(counts) > 0 and float(np.median(counts)) >= DENSE_SAMPLES


def _in_clusters(values: np.ndarray) -> bool:
    """Return whether nearly all values, shape (N,), are in two to four narrow clusters with a wide gap.

    Rewards of nearly 0 and nearly 1 are an example: their quartiles jump as those of 0 and 1 do.
    """
    least, most = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    with np.errstate(over="ignore"):
        spread = most - least
    if not 0 < spread < np.inf:
        return False
    counts = np.bincount(np.rint((values - least) / spread * CLUSTER_BINS).astype(int))
    large = np.flatnonzero(counts >= CLUSTER_SHARE * len(values))
    if not 2 <= len(large) <= MAX_CLUSTERS or counts[large].sum() < CLUSTERED * len(values):
        return False
    return bool(np.diff(large).max() > CLUSTER_BINS / 4)


def points_without_band(steps: np.ndarray, values: np.ndarray, display: Display) -> Points:
    """Return the points of one value per step, which have no band; the format is that of `curve`."""
    size = bucket_size(len(steps))
    starts = np.arange(0, len(steps), size)
    finite = np.isfinite(values)
    n = _sum(finite.astype(float), starts)
    with np.errstate(all="ignore"):
        y = _sum(np.where(finite, values, 0.0), starts) / n
    none = np.full(len(y), np.nan)
    shift = _first(y) if display.zero_shift else 0.0
    return {"x": steps[starts].astype(float), "y": y - shift, "lo": none, "hi": none, "n": n}


def _band(
    view: RunView,
    column: str,
    band: str,
    scale: float,
    starts: np.ndarray,
    y: np.ndarray,
    std: np.ndarray,
    n: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    if band in ("se", "std", "range") and len(starts):
        steps = view.snapshot.steps
        low = np.fmin.reduceat(steps.stat(column, MIN), starts)
        high = np.fmax.reduceat(steps.stat(column, MAX), starts)
        if band == "range":
            return low, high
        with np.errstate(all="ignore"):
            half = 2 * std / np.sqrt(n) if band == "se" else scale * std
        # Within the values of the step: a KL k3 is never below 0, and a rate never above 1.
        return np.maximum(y - half, low), np.minimum(y + half, high)
    if band in ("iqr", "auto") and len(starts):
        size = bucket_size(len(view.snapshot.steps.values))
        low, high = view.quantiles(column, (0.25, 0.75), size, EXACT_SAMPLES)
        return low, high
    return np.full(len(y), np.nan), np.full(len(y), np.nan)


def _sum(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else values


def _first(y: np.ndarray) -> float:
    finite = y[np.isfinite(y)]
    return float(finite[0]) if len(finite) else 0.0


def smooth(values: np.ndarray, weight: float, steps: int = 1) -> np.ndarray:
    """Return the moving average of values; missing values stay missing and do not affect the others.

    This is TensorBoard's smoothing: each value weighs ``weight`` times as much as the value after it, and the
    weights are divided by their sum, so that the first values are not drawn towards zero.

    Parameters
    ----------
    values : ndarray of float, shape (P,)
    weight : float
        Weight of a step relative to the next one; 0 returns the values unchanged.
    steps : int
        Number of steps that a value stands for.
    """
    if not weight or not len(values):
        return values
    average = pd.Series(values).ewm(alpha=1 - weight**steps, adjust=True, ignore_na=True).mean().to_numpy()
    return np.where(np.isnan(values), np.nan, average)


def update_source(
    source: ColumnDataSource, points: Points, sent: Points | None, left_out: Container[str] = ()
) -> None:
    """Update ``source`` from ``sent`` to ``points`` with as little data as possible.

    Columns that are left out are not in the source.

    If few of the sent points changed, these are patched and new points are streamed; otherwise all points are
    replaced.
    """
    points = {name: values for name, values in points.items() if name not in left_out}
    sent_count = len(sent["x"]) if sent else 0
    same = source.data.keys() == points.keys()
    if (
        not sent
        or not same
        or sent_count > len(points["x"])
        or not _equal(sent["x"], points["x"][:sent_count]).all()
    ):
        source.data = column_payload(points)
        return
    differs = np.zeros(sent_count, bool)
    for name, values in points.items():
        differs |= ~_equal(sent[name], values[:sent_count])
    changed = np.flatnonzero(differs)
    if len(changed) > max(8, sent_count // 8):
        source.data = column_payload(points)
        return
    if len(changed):
        patches: dict[str, list[tuple[Any, Any]]] = {
            name: [(int(i), float(values[i])) for i in changed] for name, values in points.items()
        }
        source.patch(patches)
    if len(points["x"]) > sent_count:
        source.stream(column_payload({name: values[sent_count:] for name, values in points.items()}))


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def column_payload(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns in the format to send to the browser.

    Short arrays become lists, because each array takes two websocket messages and two system calls. Long
    arrays are copied, because a data source writes its patches into its own arrays.
    """
    return {name: _list_or_copy(values) for name, values in columns.items()}


def _list_or_copy(values: Any) -> Any:
    if not isinstance(values, np.ndarray):
        return values
    return values.tolist() if len(values) <= MAX_LIST_LENGTH else values.copy()
