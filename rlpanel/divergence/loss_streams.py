"""Streams of what a loss is made of: advantages, and logprobs that are not finite.

The rules on findings hold advantages to the formula of the run's algorithm; a comparison of two runs needs no
formula: what differs between the runs is a change of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import column_signal
from rlpanel.findings.engine.streams import LEAST_ANGLE, LEAST_FACTOR, LEAST_SPREADS, SECONDARY, Stream
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.ragged import UNSCORED

_COLUMN = "advantage"
#: Smallest difference of interest between two correlations.
_LEAST_CORRELATION = 0.5


def loss_streams(context: RuleContext) -> Iterator[Stream]:
    """Yield the shares of samples with numbers that are not finite; mean and spread of the advantages.

    Also their correlation with the reward within a prompt. What is not logged, or is constant, is left out.
    """
    snapshot, size, of_row = context.snapshot, len(context.steps), context.row_steps
    for array, column in UNSCORED.items():
        has_bad = column in snapshot.steps.columns
        if has_bad or snapshot.has_number(f"{array.removesuffix('s')}_mean"):  # else the array is not logged
            bad = context.column(column) > 0 if has_bad else np.zeros(len(context.rows), bool)
            yield _share(f"samples with {array} that are not finite", bad, context)
    if not snapshot.has_number(_COLUMN):
        return
    values = snapshot.number(_COLUMN)[context.rows]
    yield _share("samples without a finite advantage", ~np.isfinite(values), context)
    count, mean, spread = _moments(values, of_row, size)
    known = np.isfinite(spread)
    if not (known & (spread > 0)).any():
        return
    label, usual = describe(_COLUMN).label, float(np.nanmedian(spread))
    with np.errstate(all="ignore"):
        floor = np.where(known, spread, usual) ** 2 / np.maximum(count, 1)
    own = column_signal(_COLUMN)
    yield Stream(label, mean, "level", LEAST_SPREADS * usual, floor, SECONDARY, _COLUMN, signal=own)
    noise = 0.5 / np.maximum(np.sqrt(count), 1)
    yield Stream(f"spread of {label}", spread, "factor", 2 * LEAST_FACTOR, noise, SECONDARY, _COLUMN)
    if snapshot.has_number("reward"):
        reward = _within_prompts(snapshot.number("reward")[context.rows], context)
        follows = _correlation(values, reward, of_row, size)
        name = "correlation of reward and advantage"
        yield Stream(name, follows, "level", _LEAST_CORRELATION, 1 / np.maximum(count, 1), column=_COLUMN)


def _share(name: str, bad: np.ndarray, context: RuleContext) -> Stream:
    """Return the stream of a share of the samples."""
    size = len(context.steps)
    count = np.maximum(np.bincount(context.row_steps, minlength=size), 1)
    share = np.bincount(context.row_steps, bad, size) / count
    return Stream(name, share, "share", LEAST_ANGLE, 0.25 / np.sqrt(count), is_percent=True, tab="tokens")


def _moments(values: np.ndarray, of_row: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return number, mean and standard deviation of the finite values of each step."""
    finite = np.isfinite(values)
    at, known = of_row[finite], values[finite]
    count = np.bincount(at, minlength=size)
    with np.errstate(all="ignore"):
        mean = np.bincount(at, known, size) / count
        squares = np.bincount(at, (known - mean[at]) ** 2, size)
        spread = np.where(count > 1, np.sqrt(squares / (count - 1)), np.nan)
    return count, mean, spread


def _within_prompts(reward: np.ndarray, context: RuleContext) -> np.ndarray:
    """Return rewards minus the mean of their prompt in the step; as they are if most prompts occur once."""
    hashes = context.snapshot.prompts(context.rows).astype(np.uint64)
    cells = np.stack([context.row_steps.astype(np.uint64), hashes])
    of_cell = np.unique(cells, axis=1, return_inverse=True)[1].reshape(-1)
    count, mean, _ = _moments(reward, of_cell, int(of_cell.max(initial=-1)) + 1)
    return reward - mean[of_cell] if len(count) and np.median(count) > 1 else reward


def _correlation(a: np.ndarray, b: np.ndarray, of_row: np.ndarray, size: int) -> np.ndarray:
    """Return Pearson's correlation of two numbers over the samples of each step; NaN if one is constant."""
    both = np.isfinite(a) & np.isfinite(b)
    a, b, at = a[both], b[both], of_row[both]
    _, mean_a, spread_a = _moments(a, at, size)
    count, mean_b, spread_b = _moments(b, at, size)
    with np.errstate(all="ignore"):
        product = np.bincount(at, (a - mean_a[at]) * (b - mean_b[at]), size) / (count - 1)
        return np.where((spread_a > 0) & (spread_b > 0), product / (spread_a * spread_b), np.nan)
