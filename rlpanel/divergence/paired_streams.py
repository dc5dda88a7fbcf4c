"""Differences of the streams of two runs, pair of steps by pair; among them streams of the loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.divergence.step_pairs import StepPairs, content_streams, mean_of_pairs, steps_of_pairs
from rlpanel.findings.engine.places import VARIANCE
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import column_signal
from rlpanel.findings.engine.streams import (
    MIN_FACTOR,
    MIN_SPREADS,
    SECONDARY,
    TRAINERS,
    Stream,
    scalar_values,
    share_stream,
    streams_of,
)
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.ragged import UNSCORED
from rlpanel.metrics.engine.segments import Segments, SubSegments
from rlpanel.store.columns.step_stats import MEAN as MEAN_OF_STEP

# -- loss streams --------------------------------------------------------------------------------------
# Streams of what a loss is made of: advantages, and logprobs that are not finite.
#
# The rules on findings hold advantages to the formula of the run's algorithm; a comparison of two runs needs
# no formula: what differs between the runs is a change of the loss.


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


# -- paired streams ------------------------------------------------------------------------------------
# Differences of the streams of two runs, pair of steps by pair of steps, with their errors.
#
# A stream is a number of each step, see `rlpanel.findings.engine.streams`. Of number columns, samples of the
# same prompt in both steps are compared with each other: what makes a prompt hard then cancels in the
# difference. Otherwise the errors of both means are clustered by group and added. Differences are taken in
# the scale of the test, and a mean's error is carried there by the first term of its Taylor series.


#: Prompts of a pair are compared one by one from this many shared ones on that hold this share.
_MIN_PROMPTS, _SHARED = 4, 0.5
#: A scalar that grows in this share of the steps is a counter.
_GROWS = 0.95
#: Scalars of the trainer that measure the machine, such as `step_time`: they do not belong to the training.
_OF_MACHINE = re.compile(
    r"(^|[/_.])(time|seconds|throughput|tokens_per_second|samples_per_second|steps_per_second)($|[/_.])"
)
#: Odd number that spreads pairs of steps over the hashes of prompts.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
#: Smallest change of interest of a number that both runs share exactly, such as a planned learning rate.
_EXACT_LEAST, _EXACT_SHARE = 0.01, 0.5


@dataclass(frozen=True)
class PairedStream:
    """Difference of a stream between two runs.

    Attributes
    ----------
    stream : Stream
        Name, scale and weight.
    here, there : ndarray of float, shape (P,)
        Values of both runs, as displayed.
    difference, variance : ndarray of float, shape (P,)
        Second run minus first run in the scale of the test, and its variance.
    by_prompt : ndarray of bool, shape (P,)
        Pairs that were compared prompt by prompt.
    is_exact : bool
        True if both runs have equal values in many pairs, such as those of a schedule.
    """

    stream: Stream
    here: np.ndarray
    there: np.ndarray
    difference: np.ndarray
    variance: np.ndarray
    by_prompt: np.ndarray
    is_exact: bool = False

    @property
    def least(self) -> float:
        """Smallest difference of interest, in the scale of the test."""
        return (
            _EXACT_LEAST if self.is_exact and self.stream.scale == "factor" else max(self.stream.least, 1e-9)
        )


@dataclass(frozen=True)
class PairCells:
    """Samples of both runs by pair of steps and prompt.

    Attributes
    ----------
    here, there : ndarray of int, shape (N,), shape (M,)
        Cell of each row of both runs.
    pair : ndarray of int, shape (C,)
        Pair of each cell; -1 for rows without a counterpart.
    """

    here: np.ndarray
    there: np.ndarray
    pair: np.ndarray


def prompt_cells(here: RuleContext, there: RuleContext, pairs: StepPairs) -> PairCells:
    """Return the cells of the rows of two runs."""
    keys, at = [], []
    for context, pair in ((here, pairs.here), (there, pairs.there)):
        of_row = pair[context.row_steps] if len(pair) else np.empty(0, int)
        hashes = context.snapshot.prompts(context.rows).astype(np.uint64)
        keys.append(hashes ^ ((of_row + 1).astype(np.uint64) * _SPREAD))
        at.append(of_row)
    both, pair_of = np.concatenate(keys), np.concatenate(at)
    _, first, cell = np.unique(both, return_index=True, return_inverse=True)
    mine, theirs = np.split(cell.reshape(-1), [len(keys[0])])
    return PairCells(mine, theirs, pair_of[first])


def paired_streams(
    here: RuleContext,
    there: RuleContext,
    pairs: StepPairs,
    held: np.ndarray,
    ignored: frozenset[str] = frozenset(),
) -> Iterator[PairedStream | str]:
    """Yield the streams of two runs, and the names of those that only one of them has.

    Parameters
    ----------
    here, there : RuleContext
    pairs : StepPairs
    held : ndarray of int
        Hashes of the prompts in the evaluations of both runs.
    ignored : set of str
        Columns that mean different things in the two runs.
    """
    # Two columns may have one label, such as lengths in tokens and in characters.
    mine, theirs = (
        {
            (each.name, each.column): each
            for streams in (
                streams_of(replace(run, texts=None)),
                loss_streams(run),
                content_streams(run, held),
            )
            for each in streams
        }
        for run in (here, there)
    )
    for name in sorted({*here.snapshot.scalars.names} & {*there.snapshot.scalars.names}):
        # One that never changes in either run, such as a constant learning rate, may differ between them.
        a, b = (_constant(f"{name}{TRAINERS}", run) for run in (here, there))
        if a is not None and b is not None and np.nanmax(a.values) != np.nanmax(b.values):
            mine[a.name, ""], theirs[b.name, ""] = a, b
    cells = prompt_cells(here, there, pairs)
    for key in dict.fromkeys((*mine, *theirs)):
        name, a, b = key[0], mine.get(key), theirs.get(key)
        known = _in_one_scale(a, b)
        if known.column in ignored or (not known.column and "reward" in name and "reward" in ignored):
            continue
        if known.column and name == describe(known.column).label:
            if here.snapshot.has_number(known.column) and there.snapshot.has_number(known.column):
                yield _of_column(known, here, there, pairs, cells)
            else:
                yield name
            continue
        if name.endswith(TRAINERS) and _OF_MACHINE.search(name.removesuffix(TRAINERS)):
            continue
        a, b = a or _absent(known, here), b or _absent(known, there)
        if a is None or b is None:
            yield name
        elif (found := _of_streams(a, b, pairs)).is_exact or not (_is_counter(a) and _is_counter(b)):
            yield found


def _in_one_scale(a: Stream | None, b: Stream | None) -> Stream:
    """Return the stream whose scale fits both runs: a flag of one may be a number of the other."""
    if a is not None and b is not None and a.scale != b.scale:
        return b if a.scale == "share" else a
    found = a or b
    assert found is not None
    return found


def _is_counter(stream: Stream) -> bool:
    """Return whether a scalar only grows, such as a count of tokens: its difference never settles."""
    known = stream.values[np.isfinite(stream.values)]
    return stream.name.endswith(TRAINERS) and len(known) > 2 and bool((np.diff(known) > 0).mean() > _GROWS)


def _absent(other: Stream, context: RuleContext) -> Stream | None:
    """Return the stream of a run that lacks it since it never changes; None if its value is unknown."""
    if other.name.endswith(TRAINERS):
        return _constant(other.name, context)
    column = other.where.partition("missing(`")[2].partition("`)")[0]
    label = other.where.partition(" ==")[0].strip("`")
    is_zero = context.snapshot.has_number(column) if column else label in ("rank", *context.snapshot.labels)
    if other.scale != "share" or not other.where or not is_zero:
        return None
    size = len(context.steps)
    return replace(other, values=np.zeros(size), floor=np.full(size, float(np.nanmean(other.floor))))


def _constant(name: str, context: RuleContext) -> Stream | None:
    """Return the stream of a trainer's scalar that has one value; None if it is not logged, or the reward."""
    scalar = name.removesuffix(TRAINERS)
    if scalar not in context.snapshot.scalars.names or scalar == "reward":
        return None
    values = scalar_values(context, scalar)
    known = values[np.isfinite(values)]
    if not len(known) or np.ptp(known) > 0:
        return None
    is_factor = bool(known[0] > 0)
    return Stream(name, values, "factor" if is_factor else "level", 2 * MIN_FACTOR if is_factor else 0.0)


def _of_streams(a: Stream, b: Stream, pairs: StepPairs) -> PairedStream:
    """Return the difference of two streams; without a common scale, in the displayed unit."""
    count = len(pairs)
    if a.scale != b.scale:
        middle = float(np.nanmedian(np.abs(np.concatenate([a.values, b.values]))))
        a, b = (replace(each, scale="level", least=max(0.2 * middle, 1e-9), floor=0.0) for each in (a, b))
    sides = []
    for each, pair in ((a, pairs.here), (b, pairs.there)):
        floor = np.broadcast_to(np.asarray(each.floor, float), each.values.shape)
        number = np.maximum(steps_of_pairs(pair, count), 1)
        rows = np.stack([each.values, each.scaled, floor])
        shown, scaled, variance = mean_of_pairs(rows, pair, count)
        sides.append((shown, scaled, variance / number))
    (shown, scaled, variance), (other, other_scaled, other_variance) = sides
    difference = other_scaled - scaled
    known = np.isfinite(difference)
    equal = np.abs(difference[known]) <= 1e-9 * np.maximum(np.abs(scaled[known]), 1e-12)
    is_exact = bool(known.any() and equal[: max(4, len(equal) // 2)].mean() >= _EXACT_SHARE)
    nowhere = np.zeros(count, bool)
    return PairedStream(
        replace(a, least=max(a.least, b.least)),
        shown, other, difference, variance + other_variance, nowhere, is_exact and a.scale == "factor",
    )  # fmt: skip


def _scaled(stream: Stream, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means in the scale of the test, and the derivative of that scale."""
    with np.errstate(all="ignore"):
        if stream.scale == "factor":
            return np.where(mean > 0, np.log(mean), np.nan), np.where(mean > 0, 1 / mean, np.nan)
        if stream.scale == "share":
            inside = np.clip(mean, 0.0, 1.0)
            return np.arcsin(np.sqrt(inside)), 0.5 / np.sqrt(np.maximum(inside * (1 - inside), 1e-3))
    return mean, np.ones_like(mean)


def _of_column(
    stream: Stream, here: RuleContext, there: RuleContext, pairs: StepPairs, cells: PairCells
) -> PairedStream:
    """Return the difference of a number column's mean, prompt by prompt where prompts are shared."""
    count, sides, means, within = len(pairs), [], [], np.zeros(2)
    for context, pair, cell in ((here, pairs.here, cells.here), (there, pairs.there, cells.there)):
        shown = context.snapshot.steps.stat(stream.column, MEAN_OF_STEP)[: len(context.steps)]
        variance = context.table(column_signal(stream.column))[VARIANCE, 0]
        rows = mean_of_pairs(np.stack([shown, variance]), pair, count)
        sides.append((rows[0], rows[1] / np.maximum(steps_of_pairs(pair, count), 1)))
        values = context.snapshot.counted(stream.column, context.rows)
        known = np.isfinite(values)
        size = len(cells.pair)
        number = np.bincount(cell[known], minlength=size)
        with np.errstate(all="ignore"):
            means.append((np.bincount(cell[known], values[known], minlength=size) / number, number))
        rest = values[known] - means[-1][0][cell[known]]
        within += rest @ rest, len(rest) - np.count_nonzero(number)
    (shown, own), (other, others) = sides
    (mine, mine_count), (theirs, theirs_count) = means
    with np.errstate(all="ignore"):
        (scaled, slope), (other_scaled, other_slope) = _scaled(stream, shown), _scaled(stream, other)
        difference = other_scaled - scaled
        variance = own * slope**2 + others * other_slope**2
        if stream.scale == "share":  # few samples near 0 and 1 show no spread
            variance = np.fmax(variance, mean_of_pairs(np.atleast_2d(stream.floor), pairs.here if len(
                np.atleast_1d(stream.floor)) == len(pairs.here) else pairs.there, count)[0] / 2)  # fmt: skip
    shared = np.flatnonzero((mine_count > 0) & (theirs_count > 0) & (cells.pair >= 0))
    of_pair = cells.pair[shared]

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(of_pair, values, minlength=count)[:count]

    prompts = summed(np.ones(len(shared)))
    covered = np.minimum(
        _share_of(mine_count, shared, cells.pair, count), _share_of(theirs_count, shared, cells.pair, count)
    )
    with np.errstate(all="ignore"):
        paired_mean, paired_other = summed(mine[shared]) / prompts, summed(theirs[shared]) / prompts
        (at, slope), (other_at, other_slope) = _scaled(stream, paired_mean), _scaled(stream, paired_other)
        rest = (theirs[shared] - paired_other[of_pair]) * other_slope[of_pair]
        rest -= (mine[shared] - paired_mean[of_pair]) * slope[of_pair]
        spread = summed(rest**2) / (prompts * (prompts - 1))
    by_prompt = (prompts >= _MIN_PROMPTS) & (covered >= _SHARED) & np.isfinite(other_at - at)
    if stream.scale == "level" and by_prompt.any() and within[1] > 0:
        # Against samples of the same prompt, the spread between prompts does not count.
        least = MIN_SPREADS * float(np.sqrt(within[0] / within[1]))
        stream = replace(stream, least=min(stream.least, least) if least > 0 else stream.least)
    return PairedStream(
        stream,
        np.where(by_prompt, paired_mean, shown),
        np.where(by_prompt, paired_other, other),
        np.where(by_prompt, other_at - at, difference),
        np.where(by_prompt, spread, variance),
        by_prompt,
    )


def _share_of(number: np.ndarray, shared: np.ndarray, pair: np.ndarray, count: int) -> np.ndarray:
    """Return the share of a run's samples in each pair whose prompt both runs have."""
    inside = pair >= 0
    total = np.bincount(pair[inside], number[inside], minlength=count)[:count]
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.bincount(pair[shared], number[shared], minlength=count)[:count] / total)
