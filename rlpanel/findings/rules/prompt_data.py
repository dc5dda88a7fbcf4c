"""Rules on the prompts: mixed in a group, in the same order again, and shared with the evaluation.

They compare hashes of the prompts, so a difference of one character makes another prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rlpanel.findings.engine.change import span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.evaluation_run import (
    evaluation_prompts,
    evaluation_splits,
    is_evaluation,
    mixed_prompts,
)
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding, share_findings
from rlpanel.findings.engine.signal import RowBatch, signal
from rlpanel.store.columns.splits import TRAIN

#: Share of the samples in groups with several prompts from which on it is more than an accident of the log.
_MIXED = 0.05
#: Fewest prompts of a step, and fewest steps in a row, whose repetition is not chance.
_MIN_PROMPTS, _MIN_STEPS = 3, 2
#: Share of a step's prompts that were in one earlier step, from which on the step repeats it.
_SAME = 0.9
#: Rise of the share of samples in groups that share a prompt, and share from which on prompts recur.
_SHARED, _RECUR = 0.4, 0.5
#: Rise of the share of training prompts that are in the evaluation, too.
_LEAK = 0.03


@rule("Groups of different prompts", "change_z")
def mixed_groups(context: RuleContext) -> Iterator[Finding]:
    """The share of samples in groups of different prompts rises by 5 points, or is above 5%.

    Without a rise, the prompts must recur in other groups, else they may be turns of one conversation; it is
    a warning, since the log may have put the groups together. Runs of several agents or with several samples
    per episode are left out. A rise is tested by two windows of steps.
    """
    mixed = ShareRule(
        signal=mixed_prompts,
        verb="are in groups whose samples have different prompts",
        noun="samples in groups of different prompts",
        of="of the samples",
        rise=_MIXED,
        column="reward",
        tab="group",
        advice="Advantages compare answers to one prompt. Check how prompts are repeated for a group "
        "(repeat each, not the whole list), and the sampler of the ranks.",
    )
    found = share_finding(context, mixed)
    if found is None:
        found = share_finding(context, replace(mixed, rise=2.0, limit=_MIXED, harmful=2.0))
        found = found if found is not None and _recur(context) else None
    if found is not None:
        yield found


def _recur(context: RuleContext) -> bool:
    """Return True if the prompts of mixed groups are in other groups of their step, too."""
    rows = context.all_rows
    mixed = mixed_prompts.values(rows) > 0
    return bool(mixed.any()) and float(np.nanmean(_shared.values(rows)[mixed])) > _RECUR


def _prompts_by_step(context: RuleContext) -> list[np.ndarray]:
    """Return the distinct prompts of each complete step, sorted."""
    return context.place_series.by_step("prompts", _distinct_prompts)


def _distinct_prompts(rows: RowBatch) -> list[np.ndarray]:
    """Return the distinct prompts of each step of some rows, sorted."""
    hashes = rows.view.snapshot.prompts(rows.rows)
    order = np.lexsort((hashes, rows.position))
    steps, sorted_hashes = rows.position[order], hashes[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(steps) != 0) | (np.diff(sorted_hashes) != 0)
    bounds = np.searchsorted(steps[first], np.arange(1, len(rows.steps)))
    return np.split(sorted_hashes[first], bounds)


@dataclass(frozen=True)
class _Repeats:
    """Steps that have the prompts of an earlier one.

    Attributes
    ----------
    lags : ndarray of int, shape (S,)
        Distance to the earlier step with the same prompts; 0 without one.
    prompts, latest : ndarray, shape (P,)
        The prompts of all steps, ascending, and the latest step of each.
    """

    lags: np.ndarray
    prompts: np.ndarray
    latest: np.ndarray


def _with_repeats(by_step: list[np.ndarray], first: int, known: _Repeats | None) -> _Repeats:
    """Return the repeats of all steps from those of the steps before a position.

    Only the latest earlier step of each prompt counts.
    """
    counts = np.array([len(prompts) for prompts in by_step[first:]], int)
    before = (
        known if known is not None else _Repeats(np.zeros(0, int), np.empty(0, np.uint64), np.zeros(0, int))
    )
    lags = np.concatenate([before.lags, np.zeros(len(counts), int)])
    if not counts.sum():
        return _Repeats(lags, before.prompts, before.latest)
    # Of steps that are known, each prompt counts once: in its latest step.
    prompts = np.concatenate([before.prompts, *by_step[first:]])
    steps = np.concatenate([before.latest, np.repeat(np.arange(first, len(by_step)), counts)])
    order = np.lexsort((steps, prompts))
    prompts, steps = prompts[order], steps[order]
    is_same = np.diff(prompts) == 0
    later, earlier = steps[1:][is_same], steps[:-1][is_same]
    pairs, same = np.unique(later * len(by_step) + earlier, return_counts=True)
    later, earlier = np.divmod(pairs, len(by_step))
    sizes = np.array([len(by_step[at]) for at in later.tolist()], int)
    size = np.maximum(sizes, [len(by_step[at]) for at in earlier.tolist()])
    alike = (same >= _SAME * size) & (sizes >= _MIN_PROMPTS)
    lags[later[alike]] = (later - earlier)[alike]
    is_latest = np.append(~is_same, True)
    return _Repeats(lags, prompts[is_latest], steps[is_latest])


@rule("Same prompts in the same order")
def prompts_again(context: RuleContext) -> Iterator[Finding]:
    """Two steps in a row, or more, have the prompts of earlier steps, in the same order.

    Steps of fewer than three prompts do not count, nor a fixed order that has repeated for two epochs, nor an
    evaluation.
    """
    if is_evaluation(context):
        return
    by_step = _prompts_by_step(context)
    lags = context.place_series.folded("repeated prompts", partial(_with_repeats, by_step)).lags
    same = np.zeros(len(lags), bool)
    same[1:] = (lags[1:] > 1) & (lags[1:] == lags[:-1])
    same[:-1] |= same[1:] & (lags[:-1] == lags[1:])
    if same.sum() < _MIN_STEPS:
        return
    last = int(np.flatnonzero(same)[-1])
    start = last
    while start and same[start - 1]:
        start -= 1
    mask = np.zeros(len(lags), bool)
    mask[start : last + 1] = True
    first = int(context.steps[start - lags[start]])
    if mask.sum() >= 2 * lags[start]:
        return  # a fixed order over several epochs is a choice
    yield Finding(
        severity=severity_of(context, mask, harmful=False),
        sentence=f"{span(context.steps, mask).capitalize()} have the same prompts in the same order as the "
        f"steps from {first:,} on.",
        evidence=(
            f"{int(mask.sum()):,} steps in a row repeat the prompts of the step {lags[start]:,} logged "
            "steps earlier.",
            f"Step {context.steps[start]:,} has {len(by_step[start]):,} prompts; all were seen before.",
        ),
        advice="After a restart the data loader must go on where it stopped. In a new epoch it should "
        "shuffle again.",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        tab="prompt",
        uid=context.snapshot.uid(int(context.rows[context.row_steps == start][0])),
    )


@signal("shared_prompt", by_group=True)
def _shared(rows: RowBatch) -> np.ndarray:
    """Mark the samples of groups whose prompt another group of the step has, too."""
    if rows.view.snapshot.group_codes is None or not len(rows):
        return np.full(len(rows), np.nan)
    hashes, group = rows.metadata("prompt_hash"), rows.group
    order = np.lexsort((group, hashes, rows.position))
    same = (np.diff(rows.position[order]) == 0) & (np.diff(hashes[order]) == 0)
    shared = np.zeros(len(rows), bool)
    # In a stretch of one prompt, the first and the last sample are of one group unless several share it.
    starts = np.flatnonzero(np.append(True, ~same))
    ends = np.append(starts[1:], len(rows)) - 1
    several = group[order[starts]] != group[order[ends]]
    shared[order] = np.repeat(several, ends - starts + 1)
    return shared.astype(float)


@rule("Same prompts in several groups", "change_z")
def prompts_shared(context: RuleContext) -> Iterator[Finding]:
    """The share of samples whose prompt is that of another group of the step, too, rises by 40 points.

    A rise is tested by two windows of steps with errors clustered by group. Prompts that are drawn from a
    small set meet by chance.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_shared,
            verb="are in a group whose prompt another group of the step has, too",
            noun="samples in groups that share a prompt",
            of="of the samples",
            rise=_SHARED,
            harmful=2.0,
            tab="group",
            advice="Ranks whose samplers have one seed draw the same prompts. Check the sampler after a "
            "resume.",
        ),
    )


@signal("prompt_in_evaluation")
def _in_evaluation(rows: RowBatch) -> np.ndarray:
    snapshot = rows.view.snapshot
    if not evaluation_splits(snapshot) or snapshot.split not in ("", TRAIN):
        return np.full(len(rows), np.nan)
    hashes = evaluation_prompts(snapshot)
    return np.isin(rows.metadata("prompt_hash"), hashes).astype(float)


@rule("Prompts of the evaluation in the training", "change_z")
def evaluation_leak(context: RuleContext) -> Iterator[Finding]:
    """The share of training samples whose prompt is in the evaluation, too, rises by 3 points.

    A rise is tested by two windows of steps with errors clustered by group. A share that was never lower is
    taken for a choice.
    """
    if len(context.snapshot.splits) < 2:
        return
    yield from share_findings(
        context,
        ShareRule(
            signal=_in_evaluation,
            verb="have a prompt of the evaluation",
            noun="samples with a prompt of the evaluation",
            of="of the training samples",
            rise=_LEAK,
            column="reward",
            advice="The evaluation no longer measures unseen prompts. Compare the data of both, and what a "
            "filter, a curriculum or a resume changed.",
        ),
    )
