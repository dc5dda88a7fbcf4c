"""Columns of undeclared token arrays: mean, minimum and maximum over a sample's tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from rlpanel.metrics.engine.metric import of_level
from rlpanel.metrics.engine.ragged import Ragged, sample_starts, token_mask
from rlpanel.schema import TOKEN_MAX, TOKEN_MEAN, TOKEN_MIN

#: Columns of tables of tokens besides metrics.
_HEAD = frozenset({"uid", "step", "rank", "position", "token", "token_id", "loss_mask", "logged"})
#: Reductions of a sample's values by the prefix of their columns; sums become means.
_REDUCE = ((TOKEN_MEAN, np.add), (TOKEN_MIN, np.minimum), (TOKEN_MAX, np.maximum))


def array_columns(fields: Mapping[str, Ragged], names: Collection[str]) -> dict[str, np.ndarray]:
    """Return the columns of some token arrays of a batch.

    Parameters
    ----------
    fields : mapping of str to Ragged
        Token arrays of N samples by name.
    names : collection of str
        Undeclared arrays: those besides the fields of the schema.

    Returns
    -------
    dict of str to ndarray of float64, shape (N,)
        Over the finite values in the loss mask; NaN for samples without one.
    """
    columns = {}
    for name in names:
        field = fields[name]
        rows = field.counts > 0
        lengths, values = field.counts[rows], field.values(rows).astype(float)
        keep = np.isfinite(values)
        if "loss_mask" in fields:
            keep &= token_mask(fields["loss_mask"], rows, lengths)
        owner = np.repeat(np.flatnonzero(rows), lengths)[keep]
        used = np.bincount(owner, minlength=len(rows))
        present, values = used > 0, values[keep]
        for prefix, function in _REDUCE:
            column = columns[prefix + name] = np.full(len(rows), np.nan)
            if present.any():
                column[present] = function.reduceat(values, sample_starts(used[present]))
        columns[TOKEN_MEAN + name] /= np.where(present, used, 1)
    return columns


def array_names(columns: Iterable[str]) -> list[str]:
    """Return the names of the token arrays, besides fields, that have columns among these."""
    return [column.removeprefix(TOKEN_MEAN) for column in columns if column.startswith(TOKEN_MEAN)]


def query_names(names: Iterable[str]) -> dict[str, str]:
    """Return arrays by the names of their columns in tables of tokens.

    An array with the name of another column, such as a metric's, is called ``logged_<name>``.
    """
    taken = {m.name for m in of_level("token")} | _HEAD
    return {f"logged_{name}" if name in taken else name: name for name in names}
