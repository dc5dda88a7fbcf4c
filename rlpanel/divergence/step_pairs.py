"""Pairs the steps of two runs, and reads some texts of each pair from the logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rlpanel.analysis.step_texts import RunTexts, steps_to_read
from rlpanel.errors import SettingError
from rlpanel.findings.engine.evaluation_run import mixed_prompts
from rlpanel.findings.engine.places import GROUPS
from rlpanel.findings.engine.places import MEAN as MEAN_OF_PLACE
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import each_sample
from rlpanel.findings.engine.streams import MIN_ANGLE, USUAL, Stream, share_stream, texts_streams
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.columns.step_stats import COUNT, MEAN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.alignment import axis_of
from rlpanel.store.snapshot.snapshot import Snapshot

# -- step pairs ----------------------------------------------------------------------------------------
# Pairs the steps of two runs: equal steps, or steps at the same number of samples, tokens or hours.


#: Axes on which steps are paired.
Align = Literal["step", "samples", "tokens", "time"]
#: Column whose sums are the axis of tokens.
_TOKENS = "response_tokens"


@dataclass(frozen=True)
class StepPairs:
    """Steps of two runs that are compared with each other.

    Attributes
    ----------
    align : str
        The axis, see `Align`.
    here, there : ndarray of int, shape (S,)
        Pair of each complete step of the first and of the second run; -1 for a step without a counterpart.
    first_here, first_there : ndarray of int, shape (P,)
        First step of each pair in both runs.
    position : ndarray of float, shape (P,)
        Position of each pair on the axis.
    """

    align: Align
    here: np.ndarray
    there: np.ndarray
    first_here: np.ndarray
    first_there: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.position)


def pair_steps(
    here: Snapshot, there: Snapshot, here_steps: np.ndarray, there_steps: np.ndarray, align: Align = "step"
) -> StepPairs:
    """Pair the complete steps of two runs.

    On another axis than that of steps, the run with fewer steps gives the bounds of the pairs, and each step
    of the other one belongs to the pair that its middle lies in.

    Parameters
    ----------
    here, there : Snapshot
    here_steps, there_steps : ndarray of int
        Complete steps, ascending.
    align : {"step", "samples", "tokens", "time"}

    Raises
    ------
    SettingError
        If a run does not log what the axis needs.
    """
    if align == "step":
        common, mine, theirs = np.intersect1d(here_steps, there_steps, return_indices=True)
        at = np.arange(len(common))
        return StepPairs(
            align,
            _placed(mine, at, len(here_steps)),
            _placed(theirs, at, len(there_steps)),
            common,
            common,
            common.astype(float),
        )
    ends = _ends(here, align)[: len(here_steps)], _ends(there, align)[: len(there_steps)]
    if not len(ends[0]) or not len(ends[1]):
        empty = np.empty(0)
        nothing = np.full(len(here_steps), -1), np.full(len(there_steps), -1)
        return StepPairs(align, *nothing, empty.astype(int), empty.astype(int), empty)
    last = min(float(ends[0][-1]), float(ends[1][-1]))
    inside = [int(np.count_nonzero(each <= last)) for each in ends]
    bounds = ends[0 if inside[0] <= inside[1] else 1]
    bounds = bounds[bounds <= last]
    found = []
    for each in ends:
        middle = (each + np.concatenate([[0.0], each[:-1]])) / 2
        pair = np.searchsorted(bounds, middle, side="left")
        found.append(np.where(middle <= last, pair, len(bounds)))
    kept = np.intersect1d(found[0], found[1])
    kept = kept[kept < len(bounds)]
    renamed = np.full(len(bounds) + 1, -1)
    renamed[kept] = np.arange(len(kept))
    mine, theirs = (renamed[each] for each in found)
    return StepPairs(
        align,
        mine,
        theirs,
        here_steps[[int(np.argmax(mine == pair)) for pair in range(len(kept))]],
        there_steps[[int(np.argmax(theirs == pair)) for pair in range(len(kept))]],
        bounds[kept],
    )


def mean_of_pairs(values: np.ndarray, pair: np.ndarray, count: int) -> np.ndarray:
    """Return the mean of the finite values of the steps of each pair, shape (..., P); NaN without any."""
    known = np.isfinite(values) & (pair >= 0)
    flat, at = np.where(known, values, 0.0).reshape(-1, values.shape[-1]), np.maximum(pair, 0)
    mask = known.reshape(flat.shape)
    total = np.stack([np.bincount(at, row, minlength=count)[:count] for row in flat])
    number = np.stack([np.bincount(at, row.astype(float), minlength=count)[:count] for row in mask])
    with np.errstate(all="ignore"):
        return (total / number).reshape(*values.shape[:-1], count)


def steps_of_pairs(pair: np.ndarray, count: int) -> np.ndarray:
    """Return the number of steps of each pair, shape (P,)."""
    return np.bincount(pair[pair >= 0], minlength=count)[:count]


def _placed(index: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    found = np.full(size, -1)
    found[index] = at
    return found


def _ends(snapshot: Snapshot, align: Align) -> np.ndarray:
    """Return the position of each step's end on an axis."""
    if align == "tokens":
        if not snapshot.has_number(_TOKENS):
            raise SettingError(f"{snapshot.name!r} logs no token counts; align by samples")
        count, mean = snapshot.steps.stat(_TOKENS, COUNT), snapshot.steps.stat(_TOKENS, MEAN)
        return np.asarray(np.cumsum(np.nan_to_num(count * mean)), float)
    axis = axis_of(snapshot, align)
    if axis is None:
        raise SettingError(f"{snapshot.name!r} logs no times; align by step or samples")
    return np.asarray(axis.positions, float)


# -- read texts ----------------------------------------------------------------------------------------
# Texts of two runs for their comparison: some samples of each pair of steps, read from the logs.


#: Steps of a run that are read between two reports of progress.
_AT_ONCE = 16
#: Name of the stream of prompts that an evaluation has, too.
HELD_OUT = "samples with a prompt of the evaluation"


def with_texts(
    index: RunIndex, context: RuleContext, first_steps: np.ndarray, pairs: StepPairs
) -> Iterator[RuleContext | int]:
    """Read some samples of the paired steps; yield how many steps were read, and last the run with its texts.

    Parameters
    ----------
    index : RunIndex
    context : RuleContext
    first_steps : ndarray of int, shape (P,)
        First step of each pair in this run.
    pairs : StepPairs
        Of a long comparison, steps at the same positions of both runs are read.
    """
    chosen = np.array(steps_to_read(np.arange(len(pairs)), set()), np.int64)
    wanted, texts = np.unique(first_steps[chosen]), RunTexts()
    for stop in range(_AT_ONCE, len(wanted) + _AT_ONCE, _AT_ONCE):
        texts.read(index, context.snapshot, wanted[:stop])
        yield min(stop, len(wanted))
    yield replace(context, texts=texts)


def content_streams(context: RuleContext, held: np.ndarray) -> Iterator[Stream]:
    """Yield the streams of texts, of prompts within groups, and of prompts that an evaluation has, too.

    What is new in a run compared with its own past is left out: it says nothing about another run.

    Parameters
    ----------
    context : RuleContext
    held : ndarray of int
        Hashes of the prompts in the evaluations of both runs.
    """
    yield from (each for each in texts_streams(context, constant=True) if not each.fades)
    groups = np.maximum(context.table(each_sample)[GROUPS, 0], 1)
    values = context.table(mixed_prompts)[MEAN_OF_PLACE, 0]
    if np.isfinite(values).any():
        yield share_stream("samples in groups of different prompts", values, groups, tab="group")
    if len(held) and context.snapshot.split in ("", TRAIN):
        size = len(context.steps)
        inside = np.isin(context.snapshot.prompts(context.rows), held)
        count = np.bincount(context.row_steps, minlength=size)
        with np.errstate(all="ignore"):
            share = np.bincount(context.row_steps, inside, size) / count
        yield Stream(
            HELD_OUT,
            share,
            "share",
            MIN_ANGLE,
            0.25 / groups,
            USUAL / 2,  # `held_out_parting` tests it too
            is_percent=True,
        )
