"""Run the declared metrics: token arrays of one sample, or sample columns of a batch.

The arrays of a batch are laid end to end (`rlpanel.metrics.engine.ragged`); the sums then come from one
``np.add.reduceat`` a metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.constants import USUAL
from rlpanel.metrics.engine.derived_arrays import with_derived
from rlpanel.metrics.engine.metric import remembered
from rlpanel.metrics.engine.ragged import Arrays, Ragged, ragged_fields

_NO_COLUMNS: Mapping[str, np.ndarray] = {}


def token_values(arrays: Arrays) -> dict[str, np.ndarray]:
    """Every token metric that these arrays allow.

    Parameters
    ----------
    arrays : mapping of str to ndarray, each of shape (T,)
        By field name; lengths may differ between fields.

    Returns
    -------
    dict of str to ndarray, shape (T,)
        By metric name, in menu order. A metric whose inputs differ in length is left out.
    """
    known = {name: laid.flat for name, laid in with_derived(ragged_fields([arrays]), _NO_COLUMNS, {}).items()}
    found = {}
    for m in column_info.of_level("token"):
        if m.available(known) and not m.hidden and len({len(known[need]) for need in m.needs}) == 1:
            with np.errstate(all="ignore"):
                found[m.name] = m.call(known)
    return found


class _Some:
    """The samples of a batch that have certain inputs.

    Parameters
    ----------
    rows : ndarray of bool, shape (N,)
        Which of the batch they are.
    counts : ndarray of int
        Tokens of each of them, all above 0.
    """

    def __init__(self, rows: np.ndarray, counts: np.ndarray) -> None:
        self._rows = None if len(counts) == len(rows) else rows
        self.lengths = counts
        self._starts = np.cumsum(counts) - counts
        self._counts = counts.astype(float)

    def columns(self, metric: column_info.Metric, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A metric's sample columns."""
        total = np.add.reduceat(metric.call(given), self._starts, dtype=np.float64)
        made = {}
        for reduction, name in metric.columns.items():
            if reduction == "count":
                made[name] = self._spread(self._counts)
            else:
                made[name] = self._spread(total if reduction == "sum" else total / self._counts)
        return made

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """A column over the whole batch, NaN where a sample has no value."""
        if self._rows is None:
            return values
        column = np.full(len(self._rows), np.nan)
        column[self._rows] = values
        return column


class _Batches:
    """The inputs of a batch's metrics: of the samples that have all of them, equally long and not empty."""

    def __init__(self, laid: Mapping[str, Ragged], constants: Mapping[str, Any]) -> None:
        self._laid, self._constants = laid, constants
        self._known: dict[tuple[str, ...], tuple[_Some, dict[str, Any]] | None] = {}
        self._whole: dict[int, _Some] = {}  # by the counts that several inputs share, all above 0

    def __getitem__(self, needs: tuple[str, ...]) -> tuple[_Some, dict[str, Any]] | None:
        if needs not in self._known:
            self._known[needs] = self._made(needs)
        return self._known[needs]

    def _made(self, needs: tuple[str, ...]) -> tuple[_Some, dict[str, Any]] | None:
        laid = self._laid
        counts = laid[needs[0]].counts
        alike = all(laid[need].counts is counts for need in needs) and "loss_mask" not in laid
        some = self._whole.get(id(counts)) if alike else None
        if some is not None:
            return some, self._given(some, {need: laid[need].flat for need in needs})
        rows = counts > 0
        for need in needs[1:]:
            rows &= laid[need].counts == counts
        given = {need: laid[need].values(rows) for need in needs}
        lengths = counts[rows]
        if "loss_mask" in laid:
            keep = _kept(laid["loss_mask"], rows, lengths)
            given = {need: values[keep] for need, values in given.items()}
            lengths = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[keep], minlength=len(lengths))
            rows[rows] = lengths > 0
            lengths = lengths[lengths > 0]
        if not len(lengths):
            return None
        some = _Some(rows, lengths)
        if alike and len(lengths) == len(counts):
            self._whole[id(counts)] = some
        return some, self._given(some, given)

    def _given(self, some: _Some, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {**self._constants, **inputs, "lengths": some.lengths}


def _kept(mask: Ragged, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Which tokens take part; all of a sample's, where its mask is absent or of another length."""
    masked = mask.counts[rows] == counts
    which = rows.copy()
    which[rows] = masked
    keep = np.ones(int(counts.sum()), bool)
    keep[np.repeat(masked, counts)] = mask.values(which) != 0
    return keep


def reduce_tokens(
    samples: Sequence[Arrays],
    numbers: Mapping[str, np.ndarray] = _NO_COLUMNS,
    constants: Mapping[str, Any] = USUAL,
) -> dict[str, np.ndarray]:
    """Sample columns from token arrays.

    Tokens outside ``loss_mask`` do not count, where one was logged with the arrays' length.

    Parameters
    ----------
    samples : sequence of mapping, length N
        Token arrays by field name, one mapping a sample.
    numbers : mapping of str to ndarray, shape (N,)
        The samples' logged numbers.
    constants : mapping
        What is known of the training; the usual values by default.

    Returns
    -------
    dict of str to ndarray of float64, shape (N,)
        ``<metric>_<reduction>``; NaN where a sample lacks an input, has inputs of unequal length, has
        no tokens, or holds a NaN. A metric that no sample allows is absent.
    """
    return reduce_ragged(ragged_fields(samples), numbers, constants)


def reduce_ragged(
    laid: Mapping[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """`reduce_tokens` of arrays that are laid end to end already."""
    if not laid:
        return {}
    laid = with_derived(laid, numbers, constants)
    batches, columns = _Batches(laid, constants), {}
    with np.errstate(all="ignore"):
        for m in _reducible(frozenset((*laid, *constants))):
            batch = batches[m.needs]
            if batch is not None:
                columns |= batch[0].columns(m, batch[1])
    return columns


@remembered
def _reducible(known: frozenset[str]) -> list[column_info.Metric]:
    """Token metrics that become sample columns and have all they need."""
    return [m for m in column_info.of_level("token") if m.columns and m.available(known)]


def derive_columns(
    columns: Mapping[str, np.ndarray], constants: Mapping[str, Any] = USUAL
) -> dict[str, np.ndarray]:
    """Sample metrics from sample columns; those that look at whole groups wait.

    Parameters
    ----------
    columns : mapping of str to ndarray, shape (N,)
    constants : mapping
        What is known of the training; the usual values by default.

    Returns
    -------
    dict of str to ndarray, shape (N,)
        A metric that no row has a number for is absent, whatever columns stand beside each other.
    """
    known = {**constants, **columns}
    found: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for m in column_info.of_level("sample"):
            if not m.lazy and m.available(known):
                values = m.call(known)
                if not np.isnan(values).all():
                    found[m.name] = known[m.name] = values
    return found


def text_columns(response_text: np.ndarray) -> dict[str, np.ndarray]:
    """Sample metrics of responses' texts, shape (N,) each; too dear to work out for every line of a log."""
    known = {"response_text": response_text}
    return {m.name: m.call(known) for m in column_info.of_level("sample") if m.needs == ("response_text",)}
