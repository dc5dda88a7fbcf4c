"""Exact quantiles per step, made when someone asks and only for the steps that changed since."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.step_stats import Steps


@dataclass(frozen=True)
class _Known:
    """Quantiles as of a version, by step."""

    version: int
    steps: np.ndarray
    found: np.ndarray


class Quantiles:
    """Remembers quantiles between snapshots of one run; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, tuple[float, ...]], _Known] = {}

    def of(
        self,
        name: str,
        q: tuple[float, ...],
        version: int,
        steps: Steps,
        step: np.ndarray,
        values: np.ndarray,
    ) -> np.ndarray:
        """Quantiles of a column.

        Parameters
        ----------
        name : str
        q : tuple of float
        version : int
            The snapshot's.
        steps : Steps
            The snapshot's steps.
        step, values : ndarray, shape (N,)
            Step and value of the living rows.

        Returns
        -------
        ndarray, shape (len(q), S)
        """
        with self._lock:
            known = self._known.get((name, q))
        found = np.full((len(q), len(steps.values)), np.nan)
        stale = np.ones(len(steps.values), bool)
        if known is not None and known.version <= version and len(known.steps):
            at, stale = steps.since(known.steps, known.version)
            found[:, ~stale] = known.found[:, at[~stale]]
        if stale.any():
            wanted = steps.values[stale]
            rows = slice(None) if stale.all() else np.isin(step, wanted)
            found[:, stale] = quantiles(step[rows], values[rows], wanted, q)
        if known is None or known.version < version:
            with self._lock:
                self._known[name, q] = _Known(version, steps.values, found)
        return found


def quantiles(step: np.ndarray, values: np.ndarray, wanted: np.ndarray, q: Sequence[float]) -> np.ndarray:
    """Quantiles of the finite values of each wanted step, as pandas gives them; NaN where there are none.

    Parameters
    ----------
    step, values : ndarray, shape (N,)
    wanted : ndarray of int, shape (S,)
        Ascending.
    q : sequence of float

    Returns
    -------
    ndarray, shape (len(q), S)
    """
    finite = np.isfinite(values)
    step, values = step[finite], values[finite]
    order = np.lexsort((values, step))
    step, values = step[order], values[order]
    starts, ends = np.searchsorted(step, wanted), np.searchsorted(step, wanted, side="right")
    found = np.full((len(q), len(wanted)), np.nan)
    some = ends > starts
    for row, p in enumerate(q):
        at = starts[some] + p * (ends[some] - starts[some] - 1)
        low = values[np.floor(at).astype(int)]
        high = values[np.ceil(at).astype(int)]
        found[row, some] = low + (high - low) * (at - np.floor(at))
    return found
