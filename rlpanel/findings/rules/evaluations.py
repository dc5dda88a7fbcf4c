"""Rules on evaluations beside the training, and on a reward that rises from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, number, percent, since, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, severity_of
from rlpanel.findings.engine.change_tests import PlaceTable, sustained
from rlpanel.findings.engine.evaluation_run import evaluation_splits, is_evaluation
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import MEAN, SAMPLES
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import RowBatch, column_signal, long_stretches, signal
from rlpanel.findings.rules.held_out import fall, spread
from rlpanel.findings.rules.ranks import equals_step_before
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.snapshot.run_view import RunView

#: A sudden rise: in standard deviations of a step's samples, and how many steps it takes.
_JUMP, _SUDDEN = 0.45, 3
#: Standard errors of these steps against the few before; the windows of the test have more steps.
_NEAR_Z = 4.0
#: Fewest evaluations that are compared.
_MIN_EVALUATIONS = 4
#: First steps of a run, in which a reward may rise fast.
_GRACE = 20
#: Fall of the best reward of the groups, in standard deviations of a step's samples, and its fewest steps.
_BEST, _BEST_STEPS = 0.3, 5
#: Share of an evaluation that repeats the one before, evaluations in a row, and their fewest long responses.
_FROZEN, _FROZEN_IN_A_ROW, _FROZEN_SAMPLES = 0.99, 2, 16
#: Share of an earlier evaluation that shows that responses differ while the policy learns.
_LEARNT = 0.9


def _evaluations(context: RuleContext) -> list[tuple[str, RuleContext]]:
    """Return the splits with evaluations beside the training that is checked, and their contexts."""
    snapshot = context.snapshot
    if snapshot.split not in ("", TRAIN):
        return []
    if _evaluations not in context.results:
        held = [
            (name, replace(context, view=RunView(snapshot.in_split(name)), previous=None, texts=None))
            for name in evaluation_splits(snapshot)
        ]
        context.results[_evaluations] = [
            (name, part) for name, part in held if len(part.steps) >= _MIN_EVALUATIONS
        ]
    found: list[tuple[str, RuleContext]] = context.results[_evaluations]
    return found


@rule("Reward falls in the evaluation", "change_z")
def evaluation_falls(context: RuleContext) -> Iterator[Finding]:
    """The mean reward of an evaluation falls by half a standard deviation and 20%, and stays there.

    It is tested as in "Sustained change", over the steps that have an evaluation.
    """
    for name, held in _evaluations(context):
        change = fall(held, "reward")
        if change is None:
            continue
        trained = sustained(context, column_signal("reward"), 0.25 * spread(context, "reward"), base="half")
        while_ = " while the training reward rose" if trained is not None and trained.ongoing else ""
        yield replace(
            finding_of(
                held,
                change,
                f"{since(held.steps, change)}, the mean reward of the split {name}{at_place(change)} is "
                f"{number(change.after)}; it was {number(change.before)} before{while_}.",
                harmful=True,
                column="reward",
                evidence=[f"The fall is {standard_errors(change.z)} of the two windows."],
                advice="The policy may have learnt what only the training rewards: compare samples of both "
                "splits with a high reward.",
                subject=name,
            ),
            split=name,
        )


@rule("Evaluation beside the training")
def evaluation_run(context: RuleContext) -> Iterator[Finding]:
    """90% of the steps have the prompts of the step before, 16 or more, and no advantages or values.

    It is taken for an evaluation: rules on repeated samples, prompts that come again and zero-variance groups
    do not fit it. A split with the name of an evaluation needs no note.
    """
    if context.snapshot.split in evaluation_splits(context.snapshot) or not is_evaluation(context):
        return
    yield Finding(
        severity="info",
        sentence="Each step has the prompts of the step before, and no advantages are logged: this run looks "
        "like an evaluation.",
        advice="Rules on repeated samples, on prompts that come again and on zero-variance groups are left "
        "out. Log the advantages if this is a training.",
        subject="run",
    )


@rule("Evaluation repeats itself")
def evaluation_frozen(context: RuleContext) -> Iterator[Finding]:
    """99% of an evaluation's samples equal those of the evaluation before, twice in a row.

    Prompt and response must be equal, and at least 16 responses must have 16 characters. In an earlier
    evaluation a tenth must differ: with greedy sampling and a slow start, responses may repeat for a while.
    """
    for name, held in _evaluations(context):
        if not held.available(equals_step_before):
            continue
        table = held.table(equals_step_before)
        share = np.where(table[SAMPLES][0] >= _FROZEN_SAMPLES, table[MEAN][0], np.nan)
        with np.errstate(invalid="ignore"):
            mask = long_stretches(share >= _FROZEN, _FROZEN_IN_A_ROW)
            differs = np.flatnonzero(share[1:] < _LEARNT) + 1  # the first evaluation has none before it
        if not len(differs) or not mask[differs[0] :].any():
            continue
        mask[: differs[0]] = False
        yield Finding(
            severity=severity_of(held, mask, harmful=True),
            sentence=f"The samples of the split {name} in {span(held.steps, mask)} repeat those of the "
            "evaluation before.",
            evidence=(f"{percent(float(share[mask].mean()))} of them are equal in prompt and response.",),
            advice="Check whether the evaluation loads the newest weights, or reads earlier answers.",
            steps=tuple(held.steps[mask].tolist()),
            ongoing=bool(mask[-1]),
            worst=int(held.steps[mask][0]),
            subject=name,
            split=name,
        )


def _jump(context: RuleContext) -> Change | None:
    """Return the sudden rise of the mean reward; None without one."""
    reward = column_signal("reward")
    least = _JUMP * spread(context, "reward") if context.available(reward) else 0.0
    if least <= 0:
        return None
    change = sustained(context, reward, least, places=False)
    if change is None or not change.sudden or not np.isfinite(change.before):
        return None
    if context.steps[change.onset] < context.snapshot.steps.values[0] + _GRACE:
        return None
    table, onset = PlaceTable.of(context, reward), change.onset
    (before, error), (near, near_error) = (
        table.level(0, part) for part in (slice(*change.base), slice(onset, onset + _SUDDEN))
    )
    gain = change.after - change.before
    is_sudden = near - before > max(0.7 * gain, _NEAR_Z * np.hypot(error, near_error))
    return change if gain >= least and is_sudden else None


@rule("Reward jumps", "change_z")
def reward_jumps(context: RuleContext) -> Iterator[Finding]:
    """The mean of a reward rises by 0.45 standard deviations within three steps, and stays there.

    Learning is slower, so that the task, the data or the judge may have changed. Rises in the first 20 steps
    do not count. It is tested by two windows of steps with errors clustered by group, in the training and in
    each evaluation.
    """
    for name, part in (("", context), *_evaluations(context)):
        change = _jump(part)
        if change is None:
            continue
        size = (change.after - change.before) / spread(part, "reward")
        of = f" of the split {name}" if name else ""
        yield replace(
            finding_of(
                part,
                change,
                f"{since(part.steps, change)}, the mean reward{of} jumps from "
                f"{number(change.before)} to {number(change.after)}.",
                harmful=False,
                column="reward",
                evidence=[
                    f"A rise of {size:.1f} standard deviations of a step's samples within {_SUDDEN} steps; "
                    f"{standard_errors(change.z)} of the two windows."
                ],
                advice="Compare samples before and after: a judge or a parser that accepts more, easier "
                "data, a truth in the prompt.",
                sort="-reward",
                subject=name or "reward",
            ),
            split=name,
        )


@signal("best_of_group", "reward", kind="level", by_group=True)
def _best(rows: RowBatch) -> np.ndarray:
    """Return the largest reward of each sample's group."""
    reward = rows.number("reward")
    best = np.full(int(rows.group.max()) + 1 if len(rows) else 0, -np.inf)
    np.maximum.at(best, rows.group, np.where(np.isfinite(reward), reward, -np.inf))
    found = best[rows.group]
    return np.where(np.isfinite(found) & np.isfinite(reward), found, np.nan)


@rule("Best of each group falls", "change_z")
def best_falls(context: RuleContext) -> Iterator[Finding]:
    """The best reward of the groups (pass@G) falls by 0.3 standard deviations while the mean reward does not.

    It is tested by two windows of steps. The mean of the same samples may fall by a quarter of that.
    """
    if not context.view.grouped or not context.available(_best):
        return
    width = spread(context, "reward")
    change = sustained(context, _best, _BEST * width, sign=-1, places=False) if width > 0 else None
    if change is None or not np.isfinite(change.before) or change.mask.sum() < _BEST_STEPS:
        return
    whole = PlaceTable.of(context, column_signal("reward"))
    reward = whole.mean[whole.places.index(change.place)]
    before, after = (float(np.nanmean(reward[part])) for part in (slice(*change.base), change.mask))
    lost = change.before - change.after
    if before - after > 0.25 * lost:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the best reward of a group is "
        f"{number(change.after)} on average (pass@G); it was {number(change.before)} before, while the mean "
        f"reward{at_place(change)} went from {number(before)} to {number(after)}.",
        harmful=False,
        column="reward",
        evidence=[f"The fall is {standard_errors(change.z)} of the two windows."],
        advice="The policy becomes surer of fewer prompts: look at entropy, groups without variance, and "
        "prompts that were solved before.",
        tab="prompt",
        subject="reward",
    )
