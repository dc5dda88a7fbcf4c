"""Texts of two runs for their comparison: some samples of each pair of steps, read from the logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.analysis.step_texts import RunTexts, steps_to_read
from rlpanel.divergence.step_pairs import StepPairs
from rlpanel.findings.engine.group_signals import mixed_prompts
from rlpanel.findings.engine.places import GROUPS, MEAN
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import each_sample
from rlpanel.findings.engine.streams import MIN_ANGLE, USUAL, Stream, share_stream, texts_streams
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_index import RunIndex

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
    values = context.table(mixed_prompts)[MEAN, 0]
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
