"""Share of a later change that the samples with an earlier change carry.

The samples after the change are weighted so that the earlier number is spread as it was before. What then is
left of the later change is not explained (DiNardo, Fortin and Lemieux 1996, doi:10.2307/2171954). Where the
number has left its old range, no sample could be weighted: then the slope of the later number over the
earlier one, within steps, says what the shift explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Bins of a number, and fewest samples of a bin that is used.
_BINS, _MIN_SAMPLES = 10, 3
#: Least share of the samples before the change that have a like one after it.
_OVERLAP = 0.7
#: Blocks of groups that are left out in turn for the error.
_BLOCKS = 20
#: Least share of a number's variance within groups for a statement about the inside of groups.
_INSIDE = 0.1


@dataclass(frozen=True)
class WindowSamples:
    """Samples of two windows: the earlier number x, the later one y, and their groups.

    Attributes
    ----------
    x, y : ndarray of float, shape (N,)
        NaN in x is a value of its own; samples without y are left out.
    after : ndarray of bool, shape (N,)
    group, step : ndarray of int, shape (N,)
    """

    x: np.ndarray
    y: np.ndarray
    after: np.ndarray
    group: np.ndarray
    step: np.ndarray

    def known(self, *, needs_x: bool = False) -> WindowSamples:
        """Return the samples that have y, and x if it is needed."""
        mask = np.isfinite(self.y) & (np.isfinite(self.x) if needs_x else True)
        return WindowSamples(self.x[mask], self.y[mask], self.after[mask], self.group[mask], self.step[mask])


@dataclass(frozen=True)
class ExplainedShare:
    """Share of a change, and how it was found.

    Attributes
    ----------
    share, error : float
        1 if all of the later change vanishes; NaN if it cannot be estimated.
    within : float
        The same from differences between samples of a group; NaN where groups have one value.
    by : str
        ``mix``: samples were weighted; ``slope``: the number left its old range; empty: neither is possible.
    """

    share: float
    error: float
    within: float
    by: str

    @property
    def is_clear(self) -> bool:
        """True if at least a fifth is explained, beyond two errors."""
        return self.share >= 0.2 and self.share >= 2 * self.error


UNKNOWN = ExplainedShare(float("nan"), float("nan"), float("nan"), "")


def explained_share(samples: WindowSamples, *, needs_x: bool = False) -> ExplainedShare:
    """Return the share of the change of y that the change of x explains.

    Parameters
    ----------
    samples : WindowSamples
    needs_x : bool
        True if samples without x are unknown rather than a part of their own.
    """
    known = samples.known(needs_x=needs_x)
    count = int(known.after.sum())
    if min(count, len(known.y) - count) < 2 * _MIN_SAMPLES:
        return UNKNOWN
    codes = _codes(known.x)
    block = known.group % _BLOCKS
    cells = (block * 2 + known.after) * (codes.max() + 1) + codes
    shape = (_BLOCKS, 2, int(codes.max()) + 1)
    size = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    total = np.bincount(cells, known.y, minlength=int(np.prod(shape))).reshape(shape)
    share, overlap = _mix(size.sum(axis=0)[None], total.sum(axis=0)[None])
    within = _slope_share(known, by_group=True)
    if overlap[0] >= _OVERLAP:
        left, _ = _mix(size.sum(axis=0) - size, total.sum(axis=0) - total)
        return ExplainedShare(float(share[0]), _error(left), within, "mix")
    if not np.isfinite(known.x).all() or len(np.unique(known.x)) < 3:
        return ExplainedShare(float("nan"), float("nan"), within, "")
    whole = _slope_share(known, by_group=False)
    found = []
    for each in range(_BLOCKS):
        kept = block != each
        part = WindowSamples(
            known.x[kept], known.y[kept], known.after[kept], known.group[kept], known.step[kept]
        )
        if 0 < part.after.sum() < len(part.y):
            found.append(_slope_share(part, by_group=False))
    return ExplainedShare(whole, _error(np.array(found)), within, "slope")


def left_out_share(samples: WindowSamples, inside: np.ndarray) -> ExplainedShare:
    """Return the share of the change of y that vanishes without the samples of a place.

    Parameters
    ----------
    samples : WindowSamples
    inside : ndarray of bool, shape (N,)
    """
    known = np.isfinite(samples.y)
    y, after, inside, group = samples.y[known], samples.after[known], inside[known], samples.group[known]
    block = group % _BLOCKS

    def share(kept: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            old, new = y[kept & ~after], y[kept & after]
            rest = kept & ~inside
            if not len(old) or not len(new) or not (rest & after).any() or not (rest & ~after).any():
                return float("nan")
            return float(1 - (y[rest & after].mean() - y[rest & ~after].mean()) / (new.mean() - old.mean()))

    found = np.array([share(block != each) for each in range(_BLOCKS)])
    return ExplainedShare(share(np.ones(len(y), bool)), _error(found), float("nan"), "mix")


def _codes(x: np.ndarray) -> np.ndarray:
    """Return the bin of each value: the value itself if there are few, else ranges of equal numbers."""
    codes = np.zeros(len(x), int)
    known = np.isfinite(x)
    values = np.unique(x[known])
    edges = (
        values[1:] if len(values) <= _BINS else np.unique(np.quantile(x[known], np.arange(1, _BINS) / _BINS))
    )
    codes[known] = np.searchsorted(edges, x[known], side="right") + 1
    return np.unique(codes, return_inverse=True)[1]


def _mix(size: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return explained share and overlap of tables of samples and sums of y, shape (B, 2, K) each."""
    with np.errstate(all="ignore"):
        old, new = (total[:, each].sum(axis=1) / size[:, each].sum(axis=1) for each in (0, 1))
        usable = size[:, 1] >= _MIN_SAMPLES
        weight = np.where(usable, size[:, 0], 0.0)
        overlap = weight.sum(axis=1) / size[:, 0].sum(axis=1)
        mean = np.where(usable, total[:, 1] / size[:, 1], 0.0)
        restored = (weight * mean).sum(axis=1) / weight.sum(axis=1)
        return (new - restored) / (new - old), overlap


def _slope_share(samples: WindowSamples, *, by_group: bool) -> float:
    """Return the shift of x times the slope of y over x inside steps or groups, over the change of y."""
    after = samples.after & np.isfinite(samples.x)
    before = ~samples.after & np.isfinite(samples.x)
    if after.sum() < 2 * _MIN_SAMPLES or not before.any():
        return float("nan")
    x, y = samples.x[after], samples.y[after]
    key = samples.group[after] if by_group else samples.step[after]
    inside, of_y = _less_mean(x, key), _less_mean(y, key)
    square = float(inside @ inside)
    spread = float(((x - x.mean()) ** 2).sum())
    if square <= (_INSIDE * spread if by_group else 1e-12 * max(spread, 1e-300)):
        return float("nan")
    change = float(samples.y[samples.after].mean() - samples.y[~samples.after].mean())
    shift = float(x.mean() - samples.x[before].mean())
    return float(inside @ of_y) / square * shift / change if change else float("nan")


def _less_mean(values: np.ndarray, key: np.ndarray) -> np.ndarray:
    codes = np.unique(key, return_inverse=True)[1]
    return np.asarray(values - (np.bincount(codes, values) / np.bincount(codes))[codes])


def _error(shares: np.ndarray) -> float:
    """Return the jackknife's standard error of a share from those without each block."""
    known = shares[np.isfinite(shares)]
    if len(known) < 3:
        return float("nan")
    return float(np.sqrt((len(known) - 1) / len(known) * ((known - known.mean()) ** 2).sum()))
