"""Means of a signal in the whole run and in each place, with their errors."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rlpanel.findings.engine.block_tables import MEAN, VARIANCE, independent_samples
from rlpanel.findings.engine.change_statistic import step_errors
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import Signal


class PlaceTable:
    """Means of a signal in the whole run and all places, in the scale in which changes are measured.

    Attributes
    ----------
    places : tuple of Place
        The whole run first.
    mean : ndarray of float, shape (K, S)
        Means by step, as displayed.
    scaled, variance : ndarray of float, shape (K, S)
        Means in the scale of the test (logarithms of positive numbers), negated for falls; their variance.
    """

    def __init__(self, context: RuleContext, signal: Signal, sign: int = 1) -> None:
        self.places = context.place_series.places
        table = context.table(signal)
        self.mean, variance = table[MEAN], table[VARIANCE]
        self.is_share = signal.kind == "share"
        #: Number of independent samples, see `independent_samples`.
        self.independent = independent_samples(table, by_group=signal.by_group)
        if signal.kind == "positive":
            with np.errstate(all="ignore"):
                level = np.where(self.mean > 0, self.mean, np.nan)
                self.scaled, self.variance = sign * np.log(level), variance / level**2
        else:
            self.scaled, self.variance = sign * self.mean, variance

    @classmethod
    def of(cls, context: RuleContext, signal: Signal, sign: int = 1) -> PlaceTable:
        """Return the table of a signal; one for all rules of a check."""
        key = cls, signal.name, sign
        if key not in context.results:
            context.results[key] = cls(context, signal, sign)
        found: PlaceTable = context.results[key]
        return found

    def level(self, row: int, part: slice | np.ndarray) -> tuple[float, float]:
        """Return mean and standard error of a place over some steps; NaN without values."""
        values, error = self.mean[row, part], self.error[row, part]
        known = np.isfinite(values)
        if not known.any():
            return np.nan, np.nan
        return float(values[known].mean()), float(np.sqrt(np.nansum(error[known] ** 2)) / known.sum())

    @cached_property
    def error(self) -> np.ndarray:
        """Error of each step's mean in the scale of the test, shape (K, S)."""
        return step_errors(self.scaled, self.variance)
