"""Prompts of groups and of evaluations, and runs that are evaluations beside the training."""

from __future__ import annotations

import numpy as np

from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.store.columns.splits import is_evaluation_split
from rlpanel.store.snapshot.snapshot import Snapshot

# -- group signals -------------------------------------------------------------------------------------
# Prompts of groups and of evaluations, for rules and comparisons of runs.


@signal("mixed_prompts", by_group=True)
def mixed_prompts(rows: RowBatch) -> np.ndarray:
    """Mark the samples of groups with several prompts; a group of agents or of turns may have several."""
    snapshot, unknown = rows.view.snapshot, np.full(len(rows), np.nan)
    codes = snapshot.group_codes
    if codes is None or snapshot.has_episodes or {"agent", "trajectory"} & set(snapshot.labels):
        return unknown
    grouped, hashes = codes[rows.rows] >= 0, rows.metadata("prompt_hash")
    order = np.lexsort((hashes, rows.group))
    first = np.ones(len(order), bool)
    same_group = np.diff(rows.group[order]) == 0
    first[1:] = ~(same_group & (np.diff(hashes[order]) == 0))
    distinct = np.bincount(rows.group[order], first)
    return mark(distinct[rows.group] > 1, grouped)


def evaluation_splits(snapshot: Snapshot) -> list[str]:
    """Return the splits that hold evaluations of the policy."""
    return [name for name in snapshot.splits if is_evaluation_split(name)]


def evaluation_prompts(snapshot: Snapshot) -> np.ndarray:
    """Return the hashes of the prompts of all evaluations, not unique; empty without one."""
    held = [snapshot.in_split(name) for name in evaluation_splits(snapshot)]
    hashes = [each.metadata("prompt_hash")[each.alive_rows] for each in held]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


# -- evaluation run ------------------------------------------------------------------------------------
# Recognises a run that is an evaluation beside the training: the same prompts in each step, and no training.
#
# Rules on training do not fit such a run: its prompts come again on purpose, greedy responses repeat while
# the policy changes little, and groups of equal rewards cost no learning signal.


#: Columns that only a training has.
_TRAINED = ("advantage", "token_advantage_mean", "return", "returns", "value", "value_mean", "lag")
#: Fewest steps, share of a step's prompts that the step before has, too, and share of such steps.
_MIN_STEPS, _SAME, _MIN_SHARE = 4, 0.9, 0.9
#: Fewest different prompts of a step: a training may repeat a few for a trial, an evaluation has a set.
_PROMPTS = 16


def is_evaluation(context: RuleContext) -> bool:
    """Return True if the checked samples are those of an evaluation.

    Either their split says so, or each step has the 16 or more prompts of the step before and nothing of a
    training is logged. The newest steps are looked at first, so that a training costs nothing.
    """
    if is_evaluation not in context.results:
        snapshot = context.snapshot
        named = snapshot.split in evaluation_splits(snapshot)
        context.results[is_evaluation] = named or (not _is_trained(snapshot) and _comes_again(context))
    found: bool = context.results[is_evaluation]
    return found


def _is_trained(snapshot: Snapshot) -> bool:
    return any(snapshot.has_number(name) for name in _TRAINED)


def _comes_again(context: RuleContext) -> bool:
    """Return True if nearly all steps have the prompts of the step before."""
    steps, rows = context.steps, context.rows
    if len(steps) < _MIN_STEPS:
        return False
    bounds = np.searchsorted(context.row_steps, np.arange(len(steps) + 1))
    prompts = context.snapshot.prompts

    def same(at: int) -> bool:
        now, before = (prompts(rows[bounds[each] : bounds[each + 1]]) for each in (at, at - 1))
        return bool(len(now)) and float(np.isin(now, before).mean()) >= _SAME

    newest = prompts(rows[bounds[-2] :])
    if len(np.unique(newest)) < _PROMPTS or not same(len(steps) - 1):
        return False
    tried = np.unique(np.linspace(1, len(steps) - 1, min(len(steps) - 1, 40)).astype(int))
    return float(np.mean([same(at) for at in tried.tolist()])) >= _MIN_SHARE
