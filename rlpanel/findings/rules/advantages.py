"""Rules on the learning signal: groups whose rewards are all the same, and logged advantages against rewards.

Advantages have the wrong sign, centre or scale, or explode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, compared, number, percent, since
from rlpanel.findings.engine.change_finding import affected_rows, finding_of, rows_of_finding
from rlpanel.findings.engine.change_tests import beyond, sustained
from rlpanel.findings.engine.evaluation_run import is_evaluation
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import MEAN, WHOLE_RUN
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import WINDOW, RowBatch, Signal, mark, signal
from rlpanel.metrics.engine.trainer_names import algorithm_of
from rlpanel.number_text import fixed

#: Rewards this close are the same.
_SAME = 1e-6
#: Solved groups count from this share of the limit on.
_SOLVED = 0.9
#: Rise of the share of samples without a signal, and share of groups that fail which is none.
_RISE, _HARDLY = 0.4, 0.05
#: A reward that is 0 in this share of the run's first steps, or in this many, is normal.
_EARLY_SHARE, _EARLY_STEPS = 0.2, 10


@signal("zero_variance", "reward", by_group=True)
def zero_variance_signal(rows: RowBatch) -> np.ndarray:
    """Mark samples whose group has several rewards, all the same."""
    reward = rows.number("reward")
    several = (rows.group_counts(reward) >= 2)[rows.group]
    apart = (rows.group_sums((np.abs(rows.less_group_mean(reward)) > _SAME).astype(float)) > 0)[rows.group]
    return mark(~apart, several & np.isfinite(reward))


@rule("Zero-variance groups", "zero_variance_share", "change_z")
def zero_variance(context: RuleContext) -> Iterator[Finding]:
    """At least this share of the samples are in groups whose rewards are all the same.

    Or their share rises by 40 points. A rise is tested by two windows of steps. Groups in which all samples
    pass are solved: they count from 90% of the limit on, as a warning; as an info if their share grows over
    many steps, and hardly a group fails.
    A reward that is the same everywhere in the first steps is normal; evaluations have no learning signal.
    """
    if not context.view.grouped or is_evaluation(context):
        return
    limit = context.thresholds.zero_variance_share
    found = share_finding(
        context,
        ShareRule(
            signal=zero_variance_signal,
            verb="are in zero-variance groups, which carry no learning signal",
            noun="samples of zero-variance groups",
            of="of the samples",
            rise=_RISE,
            limit=limit,
            harmful=limit,
            column="zero_variance_groups",
            tab="group",
            advice="All samples of a group get the same reward: the prompts are too hard or too easy, the "
            "reward is constant, or the responses are equal.",
        ),
    )
    if found is None:
        return
    mask = np.isin(context.steps, found.steps)
    if _only_early(mask):
        return
    failed, passed = _failed_and_passed(context, found)
    evidence = (
        *found.evidence,
        f"All samples fail (reward below a pass) in {failed:.0%} of these groups, and all pass in "
        f"{passed:.0%}.",
    )
    solved = passed > failed
    if solved and float(np.nanmean(context.table(zero_variance_signal)[MEAN, 0][mask])) < _SOLVED * limit:
        return
    severity = "warning" if found.severity == "alarm" and solved else found.severity
    if solved and failed < _HARDLY and _grows(context, mask):
        severity = "info"  # the policy has learnt these prompts
    yield replace(found, evidence=evidence, severity=severity)


def _grows(context: RuleContext, mask: np.ndarray) -> bool:
    """Return True if the share of samples without a signal grows over many steps.

    A share that grows from the first steps on has no earlier level. Then it has risen as far, and most of the
    rise was before the marked steps.
    """
    change = sustained(context, zero_variance_signal, _RISE)
    if change is not None:
        return not change.sudden
    onset, near = int(mask.argmax()), WINDOW // 2
    share = context.table(zero_variance_signal)[MEAN, 0]
    parts = share[:near], share[max(0, onset - near) : onset], share[mask]
    if onset < WINDOW or not all(np.isfinite(part).any() for part in parts):
        return False
    first, before, after = (float(np.nanmean(part)) for part in parts)
    return after - first >= _RISE and before - first >= (after - first) / 2


def _failed_and_passed(context: RuleContext, found: Finding) -> tuple[float, float]:
    """Return the shares of the groups that a finding speaks of whose samples all fail, and all pass."""
    rows = rows_of_finding(context, found)
    reward = rows.number("reward")
    count = rows.group_counts(reward)
    several = count >= 2
    if not several.any():
        return 0.0, 0.0
    same = several & (rows.group_sums((np.abs(rows.less_group_mean(reward)) > _SAME).astype(float)) == 0)
    passes = rows.group_sums(reward) / np.maximum(count, 1) >= _passing(context) - _SAME
    return float((same & ~passes)[several].mean()), float((same & passes)[several].mean())


def _passing(context: RuleContext) -> float:
    return float(context.snapshot.constants["pass_reward"])


def _only_early(mask: np.ndarray) -> bool:
    """Return True if only the first steps are marked."""
    return bool(mask[0]) and int(np.flatnonzero(mask)[-1]) < max(_EARLY_STEPS, _EARLY_SHARE * len(mask))


#: Smaller standard deviations count as 0.
_ZERO = 1e-6
#: Root mean square of a group's advantages below which rounding decides their mean.
_SMALL = 0.05
#: Distance of a group's mean advantage from 0, in root mean squares of the group's advantages.
_OFF_CENTRE = 0.3
#: Factor between the standard deviation of a group's advantages and 1.
_OFF_SCALE = 1.5
#: Advantages count as scaled before a change if a smaller share of the samples was off scale.
_WERE_SCALED = 0.2
#: Advantage that is exploding: absolute, and in root mean squares of the step.
_HUGE, _HUGE_RELATIVE = 20.0, 8.0
#: Correlation of a step's advantages and rewards whose sign does not arise by chance.
_CORRELATED = 0.2
#: Quantile over the steps that gives the usual size of advantages.
_USUAL = 0.2
#: The finding is ongoing if one of this many newest steps is affected.
_RECENT = 5
#: Trainers whose advantages have mean 0 and standard deviation 1 in each group.
_SCALED = frozenset({"grpo"})
_CENTRED = frozenset({"grpo", "rloo", "dr_grpo", "drgrpo"})


def _advantage(rows: RowBatch) -> np.ndarray:
    """Return the advantage of each sample: as logged, else the mean over its tokens."""
    return rows.number("advantage" if rows.has("advantage") else "token_advantage_mean")


def _of_episodes(rows: RowBatch) -> np.ndarray:
    """Return the advantage of each episode's last row; its mean over a group does not depend on the rows."""
    return np.where(rows.has_outcome, _advantage(rows), np.nan)


@signal("advantage_against_reward", "reward", by_group=True)
def _flipped(rows: RowBatch) -> np.ndarray:
    """Mark samples of groups in which a higher reward has a lower advantage."""
    reward, advantage = rows.number("reward"), _advantage(rows)
    if not rows.view.grouped:
        return _flipped_steps(rows, reward, advantage)
    both = np.isfinite(reward) & np.isfinite(advantage)
    r, a = (rows.less_group_mean(np.where(both, part, np.nan)) for part in (reward, advantage))
    product, spread = rows.group_sums(r * a), rows.group_sums(r * r)
    varied = (spread > _ZERO) & (rows.group_sums(a * a) > _ZERO)
    return mark((product < 0)[rows.group], both & varied[rows.group])


def _flipped_steps(rows: RowBatch, reward: np.ndarray, advantage: np.ndarray) -> np.ndarray:
    """Mark samples of steps in which advantage and reward are negatively correlated; without groups."""
    both = np.isfinite(reward) & np.isfinite(advantage)
    step, size = rows.position, len(rows.steps)
    sums = [
        np.bincount(step[both], part[both], minlength=size)
        for part in (np.ones(len(rows)), reward, advantage, reward**2, advantage**2, reward * advantage)
    ]
    count, r, a, rr, aa, ra = sums
    with np.errstate(all="ignore"):
        correlation = (ra - r * a / count) / np.sqrt((rr - r * r / count) * (aa - a * a / count))
    return mark((correlation < -_CORRELATED)[step], both & np.isfinite(correlation)[step])


@signal("advantage_off_centre", "reward", by_group=True)
def _off_centre(rows: RowBatch) -> np.ndarray:
    """Mark samples of groups whose mean advantage is far from 0."""
    advantage = _of_episodes(rows)
    count, total = rows.group_counts(advantage), rows.group_sums(advantage)
    size = np.sqrt(rows.group_sums(advantage**2) * count)
    defined = (count >= 2) & (size > _SMALL * count)
    return mark(
        (np.abs(total) > _OFF_CENTRE * size)[rows.group], defined[rows.group] & np.isfinite(advantage)
    )


@signal("advantage_off_scale", "reward", by_group=True)
def _off_scale(rows: RowBatch) -> np.ndarray:
    """Mark samples of groups with different rewards whose advantages have another deviation than 1."""
    reward, advantage = rows.number("reward"), _of_episodes(rows)
    r, a = rows.less_group_mean(reward), rows.less_group_mean(advantage)
    count = rows.group_counts(advantage)
    with np.errstate(all="ignore"):
        spread, std = (np.sqrt(rows.group_sums(part * part) / (count - 1)) for part in (r, a))
        off = (std > _OFF_SCALE) | (std < 1 / _OFF_SCALE)
        # Advantages that are not scaled have the rewards' deviation: no group is marked if that is near 1.
        # Rewards that hardly differ are not scaled to 1, because of the constant in the denominator.
        near_one = np.abs(np.log(spread)) < np.log(_OFF_SCALE)
    return mark(off[rows.group], ((count >= 3) & (spread > 1e-3) & ~near_one)[rows.group] & np.isfinite(a))


@signal("advantage_size", "reward", kind="positive")
def _size(rows: RowBatch) -> np.ndarray:
    """Return the absolute advantage."""
    return np.abs(_advantage(rows))


def _comparable(context: RuleContext) -> bool:
    """Return True if advantages belong to groups: not those of a critic."""
    has = context.snapshot.has_number
    return context.view.grouped and (
        has("advantage") or (has("token_advantage_mean") and not has("value_mean"))
    )


def _find(context: RuleContext, which: Signal, *, always: bool) -> Change | None:
    """Return where most groups are wrong; without ``always``, only if they were right before."""
    change = sustained(context, which, 0.3)
    return change or (beyond(context, which, 0.5) if always else None)


@rule("Advantages against rewards", "change_z")
def advantage_sign(context: RuleContext) -> Iterator[Finding]:
    """In half of the groups a higher reward has a lower advantage, or their share rises by 30 points.

    It is the sign of the covariance in each group whose rewards and advantages vary; without groups, a
    correlation below -0.2 in the step. A rise is tested by two
    windows of steps.
    """
    has = context.snapshot.has_number
    known = _comparable(context) or (not context.view.grouped and has("token_advantage_mean"))
    change = _find(context, _flipped, always=True) if known else None
    if change is not None:
        where = "groups" if context.view.grouped else "steps"
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, {percent(change.after)} of the samples{at_place(change)} are "
            f"in {where} where a higher reward has a lower advantage{_before(change)}.",
            harmful=True,
            column="advantage",
            evidence=[_correlation(context, change)],
            advice="Check the sign of the reward and of the baseline, and the order of samples in a group.",
            sort="advantage",
            tab="group",
        )


@rule("Advantages not centred", "change_z")
def advantage_centre(context: RuleContext) -> Iterator[Finding]:
    """In half of the groups the mean advantage exceeds 30% of the advantages' root mean square.

    Or the share of such samples rises by 30 points, by a test of two windows of steps. If it was never lower,
    it is reported for algorithms with advantages that are centred in each group.
    """
    centred = algorithm_of(context.snapshot.constants.logged) in _CENTRED
    change = _find(context, _off_centre, always=centred) if _comparable(context) else None
    if change is not None:
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, {percent(change.after)} of the samples{at_place(change)} are "
            f"in groups whose mean advantage is far from 0{_before(change)}.",
            harmful=True,
            column="advantage",
            evidence=[_moments(context, change)],
            advice="Check whether all samples of a group are logged, and which baseline is subtracted.",
            sort="-advantage",
            tab="group",
        )


@rule("Advantages not scaled", "change_z")
def advantage_scale(context: RuleContext) -> Iterator[Finding]:
    """In half of the groups the advantages' standard deviation is not 1, by a factor of 1.5.

    Or the share of such samples rises by 30 points, by a test of two windows of steps. If it was never lower,
    it is reported for GRPO, which divides by the group's standard deviation.
    """
    logged = context.snapshot.constants.logged
    scaled = algorithm_of(logged) in _SCALED and logged.get("scale_rewards") in (None, True, "group")
    change = _find(context, _off_scale, always=scaled) if _comparable(context) else None
    if change is not None and (scaled or change.before < _WERE_SCALED):
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, {percent(change.after)} of the samples{at_place(change)} are "
            f"in groups whose advantages do not have a standard deviation of 1{_before(change)}.",
            harmful=False,
            column="advantage",
            evidence=[_moments(context, change)],
            advice="Check whether rewards are divided by the group's standard deviation as configured.",
            sort="-advantage",
            tab="group",
        )


@rule("Exploding advantages")
def advantage_explodes(context: RuleContext) -> Iterator[Finding]:
    """An advantage is beyond ±20, and more than eight times the usual one.

    It must also be more than eight times the distance of the reward from its group's mean.

    This happens if a group's standard deviation is almost 0 and advantages are divided by it.
    """
    if not _comparable(context):
        return
    # The lower steps are usual: most steps may be affected.
    series = context.place_series
    usual = float(np.sqrt(np.quantile(series.by_step("squared advantages", _squares), _USUAL)))
    bound = 0.0 if algorithm_of(context.snapshot.constants.logged) in _SCALED else _HUGE_RELATIVE * usual
    bound = max(_HUGE, bound)
    if max(series.by_step("largest advantage", _largest)) <= bound:
        return
    found = [_explosions(rows, bound) for rows in context.blocks.batches]
    steps, sizes, off, largest = map(np.concatenate, zip(*found, strict=True))
    if not len(steps):
        return
    single = np.unique(np.searchsorted(context.steps, steps))
    mask = np.zeros(len(context.steps), bool)
    ongoing = bool(single[-1] >= len(mask) - _RECENT)
    mask[single[0] : None if ongoing else single[-1] + 1] = True
    change = Change(_size, WHOLE_RUN, mask, ongoing, usual, float(sizes.mean()), largest)
    worst = int(sizes.argmax())
    where = f"advantage > {_HUGE:g} or advantage < -{_HUGE:g}"
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {len(sizes):,} advantages are beyond ±{_HUGE:g}, the largest "
        f"is {number(float(sizes[worst]))}; {number(usual)} is usual.",
        harmful=True,
        column="advantage",
        evidence=[
            f"The rewards of these samples differ by {number(float(np.median(off)))} from their "
            "group's mean (median).",
            f"Step {steps[worst]:,} has the largest.",
        ],
        advice="A group's standard deviation is almost 0: drop such groups, or add a larger constant to it.",
        where=where if context.snapshot.is_stored("advantage") else "",
        sort="-advantage",
        tab="group",
    )


def _squares(rows: RowBatch) -> list[float]:
    """Return the mean square of each step's advantages; one that is missing counts as 0."""
    count = np.bincount(rows.position, minlength=len(rows.steps))
    squares = np.bincount(rows.position, _finite_size(rows) ** 2, minlength=len(rows.steps))
    found: list[float] = (squares / np.maximum(count, 1)).tolist()
    return found


def _largest(rows: RowBatch) -> list[float]:
    """Return the largest size of an advantage of each step."""
    largest = np.zeros(len(rows.steps))
    np.maximum.at(largest, rows.position, _finite_size(rows))
    return largest.tolist()


def _explosions(rows: RowBatch, bound: float) -> tuple[np.ndarray, ...]:
    """Return step, size and distance of the reward of each exploding advantage, and each step's largest."""
    size = _finite_size(rows)
    # A large advantage of a large reward is not an explosion.
    off = np.nan_to_num(np.abs(rows.less_group_mean(rows.logged("reward"))))
    huge = np.flatnonzero((size > bound) & (size > _HUGE_RELATIVE * off))
    largest = np.zeros(len(rows.steps))
    np.maximum.at(largest, rows.position, size)
    return rows.steps[rows.position[huge]], size[huge], off[huge], largest


def _finite_size(rows: RowBatch) -> np.ndarray:
    size = _size.values(rows)
    return np.where(np.isfinite(size), size, 0.0)


def _before(change: Change) -> str:
    return compared(change.before, percent(change.before))


def _correlation(context: RuleContext, change: Change) -> str:
    """Return a sentence on the correlation of reward and advantage within the groups."""
    rows = affected_rows(context, change)
    grouped = context.view.grouped
    reward, advantage = (
        rows.less_group_mean(part) if grouped else part - np.nanmean(part)
        for part in (rows.number("reward"), _advantage(rows))
    )
    known = np.isfinite(reward) & np.isfinite(advantage)
    norm = np.sqrt((reward[known] ** 2).sum() * (advantage[known] ** 2).sum())
    value = (reward[known] * advantage[known]).sum() / norm if norm > 0 else np.nan
    within = " within groups" if grouped else ""
    return f"Correlation of reward and advantage{within}: {fixed(value)}; it should be positive."


def _moments(context: RuleContext, change: Change) -> str:
    """Return a sentence on mean and standard deviation of the advantages in the affected samples."""
    rows = affected_rows(context, change)
    advantage = _advantage(rows)
    inside = rows.less_group_mean(advantage)
    return (
        f"Affected samples: mean {number(float(np.nanmean(advantage)))}, standard deviation within groups "
        f"{number(float(np.nanstd(inside)))}."
    )
