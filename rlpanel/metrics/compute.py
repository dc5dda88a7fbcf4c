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
    """Arrays of the samples ``rows``, end to end; sample ``rows[i]`` starts at ``starts[i]``."""

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    flat: dict[str, np.ndarray]


def _lay(samples: Sequence[Arrays], needs: tuple[str, ...]) -> _Laid | None:
    """Lay ``needs`` end to end over the samples that have them all, equally long and not empty."""
    rows, counts, parts = [], [], {need: [] for need in needs}
    for row, arrays in enumerate(samples):
        inputs = [arrays.get(need) for need in needs]
        if any(a is None for a in inputs):
            continue
        size = len(inputs[0])
        if size == 0 or any(len(a) != size for a in inputs):
            continue
        mask = arrays.get("loss_mask")
        if mask is not None and len(mask) == size:
            inputs = [a[mask != 0] for a in inputs]
            size = len(inputs[0])
            if size == 0:
                continue
        rows.append(row)
        counts.append(size)
        for need, array in zip(needs, inputs, strict=True):
            parts[need].append(array)
    if not rows:
        return None
    sizes = np.array(counts)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    flat = {need: np.concatenate(arrays) for need, arrays in parts.items()}
    return _Laid(np.array(rows), starts, sizes, flat)


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
    laid: dict[tuple[str, ...], _Laid | None] = {}
    columns = {}
    for m in registry.of_level("token"):
        if not m.reductions:
            continue
        if m.needs not in laid:
            laid[m.needs] = _lay(samples, m.needs)
        batch = laid[m.needs]
        if batch is None:
            continue
        with np.errstate(all="ignore"):
            tokens = m.function(*(batch.flat[need] for need in m.needs))
            sums = np.add.reduceat(tokens, batch.starts)
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
