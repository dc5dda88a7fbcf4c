"""Run the declared metrics: token arrays of one sample, or sample columns of a batch.

The arrays of a batch are laid end to end, so a metric is one numpy call for thousands of samples; the
sums then come from one ``np.add.reduceat`` a metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.metrics import registry

Arrays = Mapping[str, np.ndarray]


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
    found = {}
    for m in registry.of_level("token"):
        if m.available(arrays):
            inputs = [arrays[need] for need in m.needs]
            if len({len(a) for a in inputs}) == 1:
                with np.errstate(all="ignore"):
                    found[m.name] = m.function(*inputs)
    return found


@dataclass(frozen=True)
class _Laid:
    """One field's arrays of a batch, end to end; ``counts`` by sample, -1 where it was not logged."""

    counts: np.ndarray
    flat: np.ndarray

    def only(self, rows: np.ndarray) -> np.ndarray:
        """The values of the samples in the mask ``rows``."""
        present = self.counts > 0
        if np.array_equal(present, rows):
            return self.flat
        return self.flat[np.repeat(rows[present], self.counts[present])]


def _lay(samples: Sequence[Arrays]) -> dict[str, _Laid]:
    """Every logged field of a batch."""
    laid = {}
    for name in dict.fromkeys(name for arrays in samples for name in arrays):
        found = [arrays.get(name) for arrays in samples]
        counts = np.fromiter((-1 if a is None else len(a) for a in found), np.int64, len(found))
        laid[name] = _Laid(counts, np.concatenate([a for a in found if a is not None]))
    return laid


@dataclass(frozen=True)
class _Batch:
    """Equally long inputs of the samples ``rows``; sample ``rows[i]`` has ``counts[i]`` tokens."""

    rows: np.ndarray
    counts: np.ndarray
    inputs: list[np.ndarray]

    @property
    def starts(self) -> np.ndarray:
        """Where each sample's tokens begin."""
        return np.cumsum(self.counts) - self.counts


def _batch(laid: Mapping[str, _Laid], needs: tuple[str, ...]) -> _Batch | None:
    """The samples that have all of ``needs``, equally long and not empty."""
    counts = laid[needs[0]].counts
    usable = counts > 0
    for need in needs[1:]:
        usable &= laid[need].counts == counts
    inputs = [laid[need].only(usable) for need in needs]
    rows, counts = np.flatnonzero(usable), counts[usable]
    if "loss_mask" in laid:
        keep = _kept(laid["loss_mask"], usable, rows, counts)
        inputs = [values[keep] for values in inputs]
        counts = np.bincount(np.repeat(np.arange(len(rows)), counts)[keep], minlength=len(rows))
        rows, counts = rows[counts > 0], counts[counts > 0]
    return _Batch(rows, counts, inputs) if len(rows) else None


def _kept(mask: _Laid, usable: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Which tokens take part; all of a sample's, where its mask is absent or of another length."""
    keep = np.ones(int(counts.sum()), bool)
    masked = mask.counts[rows] == counts
    which = usable.copy()
    which[rows[~masked]] = False
    keep[np.repeat(masked, counts)] = mask.only(which) != 0
    return keep


def reduce_tokens(samples: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Sample columns from token arrays.

    Tokens outside ``loss_mask`` do not count, where one was logged with the arrays' length.

    Parameters
    ----------
    samples : sequence of mapping, length N
        Token arrays by field name, one mapping a sample.

    Returns
    -------
    dict of str to ndarray of float64, shape (N,)
        ``<metric>_<reduction>``; NaN where a sample lacks an input, has inputs of unequal length, has
        no tokens, or holds a NaN. A metric that no sample allows is absent.
    """
    laid = _lay(samples)
    batches: dict[tuple[str, ...], _Batch | None] = {}
    columns = {}
    for m in registry.of_level("token"):
        if not m.reductions or not m.available(laid):
            continue
        if m.needs not in batches:
            batches[m.needs] = _batch(laid, m.needs)
        batch = batches[m.needs]
        if batch is None:
            continue
        with np.errstate(all="ignore"):
            sums = np.add.reduceat(m.function(*batch.inputs), batch.starts)
        for reduction in m.reductions:
            column = np.full(len(samples), np.nan)
            column[batch.rows] = sums / batch.counts if reduction == "mean" else sums
            columns[f"{m.name}_{reduction}"] = column
    return columns


def derive_columns(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sample metrics from sample columns.

    Parameters
    ----------
    columns : mapping of str to ndarray, shape (N,)

    Returns
    -------
    dict of str to ndarray, shape (N,)
    """
    with np.errstate(all="ignore"):
        return {
            m.name: m.function(*(columns[need] for need in m.needs))
            for m in registry.of_level("sample")
            if m.available(columns)
        }
