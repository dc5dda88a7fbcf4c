"""Compute metrics over many samples: step metrics, group metrics, and sample metrics that need groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlpanel.metrics.engine.column_info import Metric, get
from rlpanel.metrics.engine.segments import Segments, SubSegments

#: Key of rows that belong to no group.
NO_GROUP = -1


class StepRows:
    """Rows of some steps, with the inputs of metrics.

    Parameters
    ----------
    step : ndarray of int, shape (N,)
        Step of each row, ascending.
    column : function
        Returns a column of these rows by name, shape (N,); KeyError if it does not exist.
    constants : mapping
        Training constants.
    """

    def __init__(
        self, step: np.ndarray, column: Callable[[str], np.ndarray], constants: Mapping[str, Any]
    ) -> None:
        self._step = step
        self.column = column
        self._constants = constants
        self._columns: dict[str, Any] = {}

    @cached_property
    def by(self) -> Segments:
        """Segments of rows by step."""
        starts = np.flatnonzero(np.append(True, np.diff(self._step) != 0)) if len(self._step) else self._step
        return Segments(starts, len(self._step))

    @cached_property
    def groups(self) -> SubSegments:
        """Segments of rows by group within each step, from the column ``group_key``."""
        keys = self._get("group_key")
        return SubSegments(self.by, keys, keys != NO_GROUP)

    def value(self, name: str) -> np.ndarray:
        """Compute a step (shape (S,)), group (G,) or sample metric (N,); KeyError if a column is missing."""
        m = get(name)
        with np.errstate(all="ignore"):
            return np.asarray(m.call(self._inputs(m)), float)

    def _inputs(self, m: Metric) -> dict[str, Any]:
        """Return the metric's inputs by name; optional ones that are missing are left out."""
        inputs: dict[str, Any] = {name: getattr(self, name) for name in m.ordering}
        inputs |= {name: self._get(name) for name in (*m.needs, *m.constants)}
        for name in m.optional:
            try:
                inputs[name] = self._get(name)
            except KeyError:
                continue
        return inputs

    def _get(self, name: str) -> Any:
        if name in self._constants:
            return self._constants[name]
        if name not in self._columns:
            self._columns[name] = self.column(name)
        return self._columns[name]
