"""Rules on what a step holds: the number of its samples, the mix of labels, and parts of the reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import number, percent, since
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_statistic import fit_steps, scored
from rlpanel.findings.engine.change_tests import series_rise
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import GROUPS, SAMPLES, WHOLE, rows_by_dimension
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings
from rlpanel.findings.engine.signal import SIGNALS, RowBatch, Signal, each_sample, mark, signal

#: Factor of the number of samples per step, and of a label's odds, that is a change.
_FEWER, _ODDS = 1.2, 3.0
#: Rise of the share of samples in incomplete groups.
_INCOMPLETE = 0.08
#: Rise of the share of samples that are alone in their group.
_ALONE = 0.3
#: Difference of a label's share that is a change.
_SHARE = 0.08
#: Steps on both sides of a sudden change, and the share of it that lies between them.
_NEAR, _AT_ONCE = 10, 0.65
#: Largest share of one value by which a reward is graded; every so many steps are looked at first.
_GRADED, _SOME_STEPS = 0.1, 4
#: Scores of the many labels of a run must be larger by this much.
_MORE_FOR_LABELS = 0.2
#: Share of the steps that a value of the label is in, else it is an identifier.
_RECURS = 0.5
#: Fewest steps of a mix, before it changes, and after.
_MIN_STEPS = 2


@rule("Fewer samples per step", "change_z")
def fewer_samples(context: RuleContext) -> Iterator[Finding]:
    """The number of samples per step falls by a sixth and stays there.

    It is tested by two windows of steps against the noise between steps. If the missing lines were left
    out as copies of others, as with a fixed seed, the sentence says so.
    """
    table = context.table(each_sample)
    samples, groups = table[SAMPLES, 0], table[GROUPS, 0]
    if not len(samples) or np.ptp(samples) == 0:
        return
    with np.errstate(all="ignore"):
        change = series_rise(context, -np.log(np.maximum(samples, 1)), float(np.log(_FEWER)))
    if change is None:
        return
    before, after = (_median(samples, part) for part in (_before(change.onset), change.mask))
    if after > before / _FEWER:
        return
    old, new = (_median(groups, part) for part in (_before(change.onset), change.mask))
    sizes = before / max(old, 1), after / max(new, 1)
    copied = _median(_copies(context), change.mask)
    is_copied = after + copied > before / _FEWER
    same = f" that differ; {number(copied)} more lines are copies of one of them, equal in all fields"
    yield Finding(
        severity=severity_of(context, change.mask, harmful=is_copied),
        sentence=f"{since(context.steps, change)}, a step has {number(after)} samples{same * is_copied}; it "
        f"had {number(before)} before.",
        evidence=(
            *(["Copies were left out: docs/store.md says when."] if is_copied else []),
            f"Groups per step: {number(old)} before, then {number(new)}; samples per group: "
            f"{number(sizes[0])} before, then {number(sizes[1])}.",
        ),
        advice="Check whether the engine has a fixed seed, so that the responses to a prompt are one and the "
        "same, or whether samples are logged twice."
        if is_copied
        else "Check for lost requests, ranks and files, and for filters that drop samples before they are "
        "logged: the gradient is noisier, and what is missing may not be missing at random.",
        steps=tuple(context.steps[change.mask].tolist()),
        ongoing=change.ongoing,
        subject="samples",
    )


def _copies(context: RuleContext) -> np.ndarray:
    """Return the lines of each step that were left out as copies of another one, shape (S,)."""
    step = context.snapshot.metadata("step")[context.snapshot.duplicate_rows]
    at = np.searchsorted(context.steps, step[np.isin(step, context.steps)])
    return np.bincount(at, minlength=len(context.steps))


@signal("incomplete_group", by_group=True)
def _incomplete(rows: RowBatch) -> np.ndarray:
    """Mark the samples of groups that have fewer samples than most groups of these steps."""
    if not rows.view.grouped or not len(rows):
        return np.full(len(rows), np.nan)
    size = np.bincount(rows.group)
    usual = np.bincount(size[size > 0]).argmax()
    return (size[rows.group] < usual).astype(float)


@rule("Groups with fewer samples", "change_z")
def groups_incomplete(context: RuleContext) -> Iterator[Finding]:
    """The share of samples in groups with fewer samples than most rises by 8 points, from at most 5%.

    A rise is tested by two windows of steps.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_incomplete,
            verb="are in groups with fewer samples than most",
            noun="samples in groups with fewer samples",
            of="of the samples",
            rise=_INCOMPLETE,
            at_most_before=0.05,
            harmful=2.0,
            tab="group",
            advice="A filter, for example of overlong responses, or lost requests leave out part of a group: "
            "compare the lengths and rewards before and after. Advantages compare what is left.",
        ),
    )


@signal("single_sample", by_group=True)
def _single(rows: RowBatch) -> np.ndarray:
    """Mark the samples that are the only one of their logged group."""
    codes = rows.view.snapshot.group_codes
    if codes is None or not len(rows):
        return np.full(len(rows), np.nan)
    return mark(np.bincount(rows.group)[rows.group] == 1, codes[rows.rows] >= 0)


@rule("Groups of one sample", "change_z")
def single_groups(context: RuleContext) -> Iterator[Finding]:
    """The share of samples that are alone in their group rises by 30 points, from at most 20%.

    A rise is tested by two windows of steps.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_single,
            verb="are the only one of their group",
            noun="groups of one sample",
            of="of the samples",
            rise=_ALONE,
            at_most_before=0.2,
            column="advantage",
            tab="group",
            advice="A group of one sample has no baseline of its own. Check how ids of groups are made, and "
            "whether samples of a prompt are filtered or split between ranks.",
        ),
    )


def _before(onset: int) -> slice:
    return slice(max(0, onset - 5), max(onset, 1))


def _median(values: np.ndarray, part: slice | np.ndarray) -> float:
    return float(np.median(values[part]))


@rule("Mix of the data", "change_z")
def label_mix(context: RuleContext) -> Iterator[Finding]:
    """The share of the groups with a label changes by 8 points, and its odds by a factor of 3.

    Labels with 2 to 20 values count, for example the data source, if one of the values is in half of the
    steps; others are names of episodes, files or attempts. It is tested by two windows of steps. A slow
    change, as in a curriculum, is an info.
    """
    table = context.table(each_sample)
    places = context.place_series.places
    total = table[GROUPS, 0]
    for name, rows in rows_by_dimension(places).items():
        if name in (WHOLE, "rank") or len(rows) < 2 or len(context.steps) < _MIN_STEPS:
            continue
        share = table[GROUPS, rows] / np.maximum(total, 1)
        if (share > 0).mean(axis=1).max() < _RECURS:
            continue
        onsets = fit_steps(share)[1].tolist()
        large = [row for row, onset in enumerate(onsets) if _is_large(share[row], onset)]
        if not large:
            continue
        usual = (share[large].mean(axis=1, keepdims=True) + 0.01) / 1.02
        error = np.sqrt(usual * (1 - usual) / np.maximum(total, 1))
        threshold = context.thresholds.change_z + _MORE_FOR_LABELS
        windows = [scored(sign * share[large], error, _SHARE, threshold).windows for sign in (1, -1)]
        scores = [(z, large[row]) for each in windows for row, (z, *_) in each.items()]
        if not scores:
            continue
        row = max(scores)[1]
        onset = onsets[row]
        before, after = share[:, :onset].mean(axis=1), share[:, onset:].mean(axis=1)
        near = share[row, onset : onset + _NEAR].mean() - share[row, max(0, onset - _NEAR) : onset].mean()
        is_sudden = abs(near) >= _AT_ONCE * abs(after[row] - before[row])
        mask = np.arange(len(total)) >= onset
        others = np.argsort(-np.abs(after - before))[:4]
        steps = context.steps[mask]
        yield Finding(
            severity=severity_of(context, mask, harmful=False) if is_sudden else "info",
            sentence=f"From step {steps[0]:,} on, {percent(float(after[row]))} of the groups have "
            f"{places[rows[row]].text} ({percent(float(before[row]))} before): the mix of {name} "
            f"{'changed' if is_sudden else 'changes slowly, as in a curriculum'}.",
            evidence=(
                "Before and after: "
                + ", ".join(
                    f"{places[rows[at]].text} {percent(float(before[at]))} → {percent(float(after[at]))}"
                    for at in others.tolist()
                )
                + ".",
            ),
            advice="A change of the mix moves all means. Compare the reward by label before you compare it "
            "in all; then the data loader, the curriculum and filters.",
            steps=tuple(steps.tolist()),
            ongoing=True,
            where=places[rows[row]].where,
            subject=name,
        )


def _is_large(share: np.ndarray, onset: int) -> bool:
    """Return True if a share changed by `_SHARE`, and its odds by a factor of `_ODDS`, for several steps."""
    if not _MIN_STEPS <= onset <= len(share) - _MIN_STEPS:
        return False
    old, new = share[:onset].mean(), share[onset:].mean()
    odds = [(part + 0.005) / (1 - part + 0.005) for part in (old, new)]
    return bool(abs(new - old) >= _SHARE and max(odds) >= _ODDS * min(odds))


@rule("Missing parts of the reward", "missing_share", "change_z")
def missing_parts(context: RuleContext) -> Iterator[Finding]:
    """The share of samples without a finite value of a reward part rises by this much.

    A part that only some samples ever had counts within its categories. A rise is tested by two windows of
    steps with errors clustered by group.
    """
    for column in context.snapshot.numbers:
        if not column.startswith("rewards/"):
            continue
        yield from share_findings(
            context,
            ShareRule(
                signal=_missing_part(column),
                verb=f"have no value of {column}",
                noun=f"samples without {column}",
                of="of the samples",
                rise=context.thresholds.missing_share,
                column=column,
                where=f"missing(`{column}`)",
                advice="Read the errors and time-outs of this reward function. A sum without it is another "
                "reward.",
            ),
            column,
        )


def _missing_part(column: str) -> Signal:
    """Return the signal of samples without a part of the reward; it is registered when first used."""
    name = f"missing {column}"
    if name not in SIGNALS:
        SIGNALS[name] = Signal(
            name, "share", (column,), lambda rows: mark(~np.isfinite(rows.number(column)), rows.has_outcome)
        )
    return SIGNALS[name]


@rule("Reward takes one value", "change_z")
def one_value(context: RuleContext) -> Iterator[Finding]:
    """One exact value of a graded reward becomes 10 points more frequent than the most frequent one was.

    Rewards of which one value was in more than 10% of the samples do not count. It is tested by two windows
    of steps against the noise between steps.
    """
    if not context.snapshot.has_number("reward"):
        return
    common = context.place_series.array_by_step(
        "common reward",
        lambda rows: _most_common(rows.number("reward"), rows.position, len(rows.steps)),
    )
    if np.nanmin(common[0], initial=np.inf) > 2 * _GRADED:
        return  # a reward of few values, as most are
    change = series_rise(context, common[0], 0.1)
    if change is None:
        return
    before, after = _median(common[0], _before(change.onset)), _median(common[0], change.mask)
    if before > _GRADED or after < before + 0.1:
        return
    values, counts = np.unique(common[1][change.mask], return_counts=True)
    value = float(values[counts.argmax()])
    yield Finding(
        severity=severity_of(context, change.mask, harmful=False),
        sentence=f"{since(context.steps, change)}, {percent(after)} of the rewards of a step are the same "
        f"value, mostly {number(value)} ({percent(before)} before).",
        evidence=(
            f"In {int(counts.max()):,} of {int(change.mask.sum()):,} steps it is exactly {number(value)}.",
        ),
        advice="A default after a time-out, a clip, or rounding to integers makes one value frequent.",
        steps=tuple(context.steps[change.mask].tolist()),
        ongoing=change.ongoing,
        column="reward",
        where=f"reward == {value:g}",
        subject="reward",
    )


def _most_common(values: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Return the share of the most frequent value of each step, and that value, shape (2, S)."""
    known = np.isfinite(values)
    steps, values = steps[known], np.round(values[known], 6)
    order = np.lexsort((values, steps))
    steps, values = steps[order], values[order]
    common = np.full((2, count), np.nan)
    if len(steps):
        first = np.flatnonzero(np.r_[True, (np.diff(steps) != 0) | (np.diff(values) != 0)])
        size = np.diff(np.r_[first, len(steps)])
        best = np.lexsort((size, steps[first]))
        last = best[np.flatnonzero(np.r_[np.diff(steps[first][best]) != 0, True])]
        at = steps[first[last]]
        common[:, at] = size[last] / np.bincount(steps, minlength=count)[at], values[first[last]]
    return common
