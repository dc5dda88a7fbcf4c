"""Exact quantiles of a column per step, computed on demand and cached; only changed steps are recomputed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.snapshot.step_batches import step_batches

#: Number of rows that are sorted at a time.
_BATCH = 128 << 10


@dataclass(frozen=True)
class _CachedQuantiles:
    """Quantiles by step at a version of the snapshot."""

    version: int
    steps: np.ndarray
    values: np.ndarray


class Quantiles:
    """Cache of quantiles across the snapshots of one run; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: dict[tuple[str, tuple[float, ...]], _CachedQuantiles] = {}

    def get(
        self,
        name: str,
        q: tuple[float, ...],
        version: int,
        steps: Steps,
        step: np.ndarray,
        values: np.ndarray,
    ) -> np.ndarray:
        """Return quantiles of a column per step.

        Parameters
        ----------
        name : str
        q : tuple of float
        version : int
            Version of the snapshot.
        steps : Steps
            Steps of the snapshot.
        step, values : ndarray, shape (N,)
            Step and value of the living rows.

        Returns
        -------
        ndarray, shape (len(q), S)
        """
        with self._lock:
            cached = self._cached.get((name, q))
        result = np.full((len(q), len(steps.values)), np.nan)
        stale = np.ones(len(steps.values), bool)
        if cached is not None and cached.version <= version and len(cached.steps):
            position, stale = steps.compare_steps(cached.steps, cached.version)
            result[:, ~stale] = cached.values[:, position[~stale]]
        if stale.any():
            wanted = steps.values[stale]
            rows = None if stale.all() else np.flatnonzero(np.isin(step, wanted))
            parts = [
                quantiles(step[batch.rows], values[batch.rows], wanted[batch.first : batch.last], q)
                for batch in step_batches(step, rows, wanted, _BATCH)
            ]
            result[:, stale] = np.concatenate(parts, axis=1)
        if cached is None or cached.version < version:
            with self._lock:
                self._cached[name, q] = _CachedQuantiles(version, steps.values, result)
        return result


def quantiles(step: np.ndarray, values: np.ndarray, wanted: np.ndarray, q: Sequence[float]) -> np.ndarray:
    """Return linearly interpolated quantiles of the finite values of each wanted step; NaN if it has none.

    Parameters
    ----------
    step, values : ndarray, shape (N,)
    wanted : ndarray of int, shape (S,)
        Steps, ascending.
    q : sequence of float
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (len(q), S)
    """
    finite = np.isfinite(values)
    step, values = step[finite], values[finite]
    order = np.lexsort((values, step))
    step, values = step[order], values[order]
    starts, ends = np.searchsorted(step, wanted), np.searchsorted(step, wanted, side="right")
    result = np.full((len(q), len(wanted)), np.nan)
    has_values = ends > starts
    for row, p in enumerate(q):
        first, last = starts[has_values], ends[has_values] - 1
        position = first + p * (last - first)
        low = values[np.floor(position).astype(int)]
        high = values[np.ceil(position).astype(int)]
        result[row, has_values] = low + (high - low) * (position - np.floor(position))
    return result
