"""Run the metrics that look at many samples: of steps, of groups, and of samples within their group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlpanel.metrics.engine.column_info import Metric, get
from rlpanel.metrics.engine.segments import Segments, SubSegments

#: The key of a row that belongs to no group.
NO_GROUP = -1


class StepRows:
    """Rows of some steps, step by step, with what metrics ask for.

    Parameters
    ----------
    step : ndarray of int, shape (N,)
        Ascending.
    column : function
        A column of these rows by name, shape (N,); KeyError where there is none.
    constants : mapping
        What is known of the training.
    """

    def __init__(
        self, step: np.ndarray, column: Callable[[str], np.ndarray], constants: Mapping[str, Any]
    ) -> None:
        self._step = step
        self._column = column
        self._constants = constants
        self._known: dict[str, Any] = {}

    @cached_property
    def by(self) -> Segments:
        """The rows of each step."""
        starts = np.flatnonzero(np.append(True, np.diff(self._step) != 0)) if len(self._step) else self._step
        return Segments(starts, len(self._step))

    @cached_property
    def groups(self) -> SubSegments:
        """The rows of each group, from the column ``group_key``."""
        keys = self._get("group_key")
        return SubSegments(self.by, keys, keys != NO_GROUP)

    def value(self, name: str) -> np.ndarray:
        """A metric of level step (shape (S,)), group (G,) or sample (N,); KeyError if a column is missing."""
        m = get(name)
        with np.errstate(all="ignore"):
            return np.asarray(m.call(self._given(m)), float)

    def _given(self, m: Metric) -> dict[str, Any]:
        given: dict[str, Any] = {name: getattr(self, name) for name in m.ordering}
        given |= {name: self._get(name) for name in (*m.needs, *m.constants)}
        for name in m.takes:
            try:
                given[name] = self._get(name)
            except KeyError:
                continue
        return given

    def _get(self, name: str) -> Any:
        if name in self._constants:
            return self._constants[name]
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]
