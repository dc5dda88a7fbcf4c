"""Recognises a run that is an evaluation beside the training: the same prompts in each step, and no training.

Rules on training do not fit such a run: its prompts come again on purpose, greedy responses repeat while the
policy changes little, and groups of equal rewards cost no learning signal.
"""

from __future__ import annotations

import numpy as np

from rlpanel.findings.engine.group_signals import evaluation_splits
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.store.snapshot.snapshot import Snapshot

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
