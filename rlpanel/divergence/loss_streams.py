"""Streams of what a loss is made of: advantages, and logprobs that are not finite.

The rules on findings hold advantages to the formula of the run's algorithm; a comparison of two runs needs no
formula: what differs between the runs is a change of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import column_signal
from rlpanel.findings.engine.streams import MIN_FACTOR, MIN_SPREADS, SECONDARY, Stream, share_stream
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.ragged import UNSCORED
from rlpanel.metrics.engine.segments import Segments, SubSegments

_COLUMN = "advantage"
#: Smallest difference of interest between two correlations.
_MIN_CORRELATION = 0.5


def loss_streams(context: RuleContext) -> Iterator[Stream]:
    """Yield the shares of samples with numbers that are not finite; mean and spread of the advantages.

    Also their correlation with the reward within a prompt. What is not logged, or is constant, is left out.
    """
    snapshot, by_step = context.snapshot, _steps_of(context)
    samples = np.sqrt(by_step.sizes)
    for array, column in UNSCORED.items():
        has_bad = column in snapshot.steps.columns
        if has_bad or snapshot.has_number(f"{array.removesuffix('s')}_mean"):  # else the array is not logged
            bad = context.column(column) > 0 if has_bad else np.zeros(len(context.rows), bool)
            name = f"samples with {array} that are not finite"
            yield share_stream(name, by_step.mean(bad * 1.0), samples, tab="tokens")
    if not snapshot.has_number(_COLUMN):
        return
    values = snapshot.number(_COLUMN)[context.rows]
    without = by_step.mean(~np.isfinite(values) * 1.0)
    yield share_stream("samples without a finite advantage", without, samples, tab="tokens")
    with np.errstate(all="ignore"):
        count, mean, spread = by_step.count(values), by_step.mean(values), by_step.std(values)
    known = np.isfinite(spread)
    if not (known & (spread > 0)).any():
        return
    label, usual = describe(_COLUMN).label, float(np.nanmedian(spread))
    floor = np.where(known, spread, usual) ** 2 / np.maximum(count, 1)
    own = column_signal(_COLUMN)
    yield Stream(label, mean, "level", MIN_SPREADS * usual, floor, SECONDARY, _COLUMN, signal=own)
    noise = 0.5 / np.maximum(np.sqrt(count), 1)
    yield Stream(f"spread of {label}", spread, "factor", 2 * MIN_FACTOR, noise, SECONDARY, _COLUMN)
    if snapshot.has_number("reward"):
        with np.errstate(all="ignore"):
            follows = by_step.correlation(values, _rewards_within_prompts(context, by_step))
        name = "correlation of reward and advantage"
        yield Stream(name, follows, "level", _MIN_CORRELATION, 1 / np.maximum(count, 1), column=_COLUMN)


def _steps_of(context: RuleContext) -> Segments:
    """Return the rows by step."""
    order = np.argsort(context.row_steps, kind="stable")
    starts = np.searchsorted(context.row_steps[order], np.arange(len(context.steps)))
    return Segments(starts, len(order), order)


def _rewards_within_prompts(context: RuleContext, by_step: Segments) -> np.ndarray:
    """Return rewards minus the mean of their prompt in the step; as they are if most prompts occur once."""
    reward = context.snapshot.number("reward")[context.rows]
    prompts = SubSegments(by_step, context.snapshot.prompts(context.rows))
    return reward - prompts.broadcast(prompts.mean(reward)) if np.median(prompts.sizes) > 1 else reward
