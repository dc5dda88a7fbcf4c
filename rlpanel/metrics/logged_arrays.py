"""Token arrays as they were logged: columns of undeclared ones, and arrays shifted by one token."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from rlpanel.metrics.engine.metric import of_level
from rlpanel.metrics.engine.ragged import Ragged, sample_starts, token_mask
from rlpanel.schema import TOKEN_MAX, TOKEN_MEAN, TOKEN_MIN

# -- logged arrays -------------------------------------------------------------------------------------
# Columns of undeclared token arrays: mean, minimum and maximum over a sample's tokens.


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


# -- logprob shift -------------------------------------------------------------------------------------
# Detects that two arrays of logprobs of one response are shifted against each other by one token.


#: Column → the array that is compared with ``logprobs``.
SHIFTS = {"engine_shift": "rollout_logprobs", "ref_shift": "ref_logprobs"}
#: Correlations of fewer tokens are chance.
MIN_TOKENS = 8
#: A variance that is a smaller share of the mean square is rounding, so that the array counts as constant.
_ROUNDING = 1e-10


def shift_columns(fields: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
    """Return the columns `SHIFTS` of which a batch has both arrays.

    Parameters
    ----------
    fields : mapping of str to Ragged
        Token arrays of N samples by field name.

    Returns
    -------
    dict of str to ndarray of float, shape (N,)
        `shifts` of each sample; NaN also where an array is missing or the lengths differ. A column without
        any number is left out.
    """
    logprobs = fields.get("logprobs")
    columns = {}
    for name, field in SHIFTS.items():
        if logprobs is None or field not in fields:
            continue
        other = fields[field]
        rows = (logprobs.counts == other.counts) & (logprobs.counts >= MIN_TOKENS)
        column = np.full(len(rows), np.nan)
        if rows.any():
            column[rows] = shifts(logprobs.values(rows), other.values(rows), logprobs.counts[rows])
        if np.isfinite(column).any():
            columns[name] = column
    return columns


def shifts(x: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return by how much two arrays correlate more after a shift by one token, to the better side.

    Parameters
    ----------
    x, y : ndarray of float, shape (T₁ + … + T_N,)
    lengths : ndarray of int, shape (N,)
        Number of tokens of each sample, all above 0.

    Returns
    -------
    ndarray of float, shape (N,)
        Pearson correlation at lag 1 or -1 of the overlapping tokens, whichever is higher, minus that at
        lag 0: -2 to 2. Tokens that are not finite in both arrays are left out. NaN if fewer than 8 are left,
        or if one of the arrays is constant.
    """
    with np.errstate(invalid="ignore"):
        if np.isfinite(x.sum() + y.sum()):
            return np.where(lengths >= MIN_TOKENS, _shifts(x, y, lengths), np.nan)
    bad = ~(np.isfinite(x) & np.isfinite(y))
    counts = lengths - np.add.reduceat(bad, sample_starts(lengths), dtype=np.int64)
    enough = counts >= MIN_TOKENS
    keep = ~bad & np.repeat(enough, lengths)
    found = np.full(len(lengths), np.nan)
    if enough.any():
        found[enough] = _shifts(x[keep], y[keep], counts[enough])
    return found


def _shifts(x: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return `shifts` of finite arrays."""
    starts = sample_starts(lengths)
    first, last = starts, starts + lengths - 1
    sums_x, sums_y = (np.stack([np.add.reduceat(v, starts), np.add.reduceat(v * v, starts)]) for v in (x, y))
    with np.errstate(all="ignore"):
        same = _correlations(lengths, sums_x, sums_y, np.add.reduceat(x * y, starts))
        shifted = [
            _correlations(
                lengths - 1,
                sums_a - [a[last], a[last] ** 2],
                sums_b - [b[first], b[first] ** 2],
                _products_with_next(a, b, starts, last),
            )
            for a, b, sums_a, sums_b in ((x, y, sums_x, sums_y), (y, x, sums_y, sums_x))
        ]
    return np.asarray(np.fmax(*shifted) - same)


def _products_with_next(a: np.ndarray, b: np.ndarray, starts: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the sum of each token's ``a`` times the next token's ``b``, by sample."""
    products = np.empty(len(a))
    np.multiply(a[:-1], b[1:], out=products[:-1])
    products[last] = 0.0
    return np.add.reduceat(products, starts)


def _correlations(
    count: np.ndarray, sums_a: np.ndarray, sums_b: np.ndarray, products: np.ndarray
) -> np.ndarray:
    """Return Pearson correlations from sums of values and squares, shape (2, N), and of products."""
    spread_a, spread_b = (_spread(count, sums) for sums in (sums_a, sums_b))
    return np.asarray((products - sums_a[0] * sums_b[0] / count) / np.sqrt(spread_a * spread_b))


def _spread(count: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return the sum of squared deviations from the mean; NaN for a constant array."""
    total, squares = sums
    spread = squares - total * total / count
    return np.where(spread > _ROUNDING * squares, spread, np.nan)
