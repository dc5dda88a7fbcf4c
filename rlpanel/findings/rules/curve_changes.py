"""Rules on curves: sustained changes of reward, length, KL and surprisal, and steps far from those around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, number, since, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, reward_clause
from rlpanel.findings.engine.change_statistic import step_errors
from rlpanel.findings.engine.change_tests import PlaceTable, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.label_mix import Mix, explaining_mix, mix_between
from rlpanel.findings.engine.places import WHOLE_RUN
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import WINDOW, Signal, column_signal, long_stretches, running_median
from rlpanel.findings.rules.held_out import (
    copies,
    is_start,
    parts,
    reward_parts,
    rises_meanwhile,
    spread,
    sustained_fall,
)
from rlpanel.findings.rules.held_out import spread as spread_of
from rlpanel.store.columns.step_stats import MAX, MIN

#: Loss of reward in standard deviations that is an alarm, and the share of a part and of the reward that is
#: left then.
_LOST, _LEFT = 0.7, (0.3, 0.5)
#: A loss of more standard deviations is that of a part which was constant.
_MAX_DEVIATIONS = 100.0
#: Factor of a sudden change of the response length, of one within half of the run so far, and of any.
_SUDDEN_LENGTH, _FAST_LENGTH, _LENGTH = 1.6, 2.0, 3.0
#: Factor of a rise of KL, sudden or within half of the run so far, to at least this many nats per token.
_KL, _MIN_KL = 4.0, 0.2
#: KL starts at 0 and climbs: a rise from less than this is normal.
_STARTED = 0.01
#: Factor of a rise of the surprisal.
_SURPRISAL = 2.0
#: Factor from which on it is an alarm, whatever the reward does.
_EXPLOSION = 2.5
#: Factor by which the smallest value of a penalty grows with its mean if its weight grows, and of a length
#: that grows.
_SCALED, _LONGER = 2.0, 1.1


@rule("Sustained change", "change_z")
def sustained_change(context: RuleContext) -> Iterator[Finding]:
    """The mean of a reward, the response length, KL or surprisal changes for the worse and stays there.

    It is tested by two windows of steps with errors clustered by group, against the best level held earlier.
    A reward must fall by half a standard deviation of a step's samples and 20% of the level before (a part of
    it: 0.75 and 50%). The length must change by a factor of 1.6 suddenly, 2 within half of the run so far,
    or 3 in all; KL rise by a factor of 4 suddenly or within half of the run to at least 0.2 nats per token;
    and surprisal rise by a factor of 2. Other data, and a penalty whose values all grow slowly, are an info.
    """
    yield from _reward_falls(context)
    yield from _length_changes(context)
    yield from _kl_rises(context)
    yield from _surprisal_rises(context)


def _reward_falls(context: RuleContext) -> Iterator[Finding]:
    for column in ("reward", *parts(context)):
        change = sustained_fall(context, column)
        if change is not None and is_start(context, column, change):
            yield _start_of(context, column, change)
            continue
        if change is None or (column != "reward" and rises_meanwhile(context, change)):
            continue
        if (mix := explaining_mix(context, column, change)) is not None:
            yield _other_data(context, column, change, mix)
            continue
        if (scaled := _scaled_penalty(context, column, change)) is not None:
            yield scaled
            continue
        label = "mean reward" if column == "reward" else f"mean of {column}"
        lost = (change.before - change.after) / max(spread(context, column), 1e-12)
        whole = column in {"reward", "valid_reward"}
        harmful = (whole and lost > _LOST) or change.after < _LEFT[whole] * change.before
        same = copies(context) if column == "reward" else []
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, the {label}{at_place(change)} is {number(change.after)}; it "
            f"was {number(change.before)} before.",
            harmful=harmful,
            column=column,
            evidence=[
                f"Difference: {number(change.before - change.after)}, {standard_errors(change.z)} of the "
                f"two windows{_in_deviations(lost)}.",
                *([f"The same holds for {', '.join(same)}: a multiple of the reward."] if same else []),
            ],
            advice="Read samples of these steps beside those before.",
            sort=column,
            tab="reference",
            subject=column,
        )


def _in_deviations(lost: float) -> str:
    """Return a loss in standard deviations; empty for a part that was constant, which has none."""
    return f"; {lost:.1f} standard deviations of a step's samples" if lost < _MAX_DEVIATIONS else ""


def _start_of(context: RuleContext, column: str, change: Change) -> Finding:
    """Return the note that a part of the reward which was constant starts to count."""
    lost = (change.before - change.after) / max(spread(context, "reward"), 1e-12)
    found = finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {column} starts to vary{at_place(change)}, with a mean of "
        f"{number(change.after)}; it was {number(change.before)} in all samples before.",
        harmful=False,
        column=column,
        evidence=[f"It takes {lost:.2f} standard deviations of the reward of a step's samples."],
        advice="A planned penalty looks like this. If none was planned, compare the versions of the reward.",
        sort=column,
        subject=column,
    )
    return replace(found, severity="info")


def _scaled_penalty(context: RuleContext, column: str, change: Change) -> Finding | None:
    """Return the note that a penalty grows slowly in all samples, as its weight does in a plan; else None.

    Its smallest value grows with its mean: if more samples had the penalty, it would stay. Responses that
    become longer would earn a larger penalty by themselves, and a plan takes little of the reward.
    """
    part, size = change.place == WHOLE_RUN and column.startswith("rewards/"), len(context.steps)
    if not part or change.sudden:
        return None
    low, high = (context.snapshot.steps.stat(column, each)[:size] for each in (MIN, MAX))
    lost = change.before - change.after
    if np.nanmax(high) > 0 or lost > _LOST * spread(context, "reward"):
        return None
    before, after = slice(*change.base), change.mask
    lowest = float(np.nanmean(low[before])), float(np.nanmean(low[after]))
    growth = change.after / change.before if change.before else np.inf
    by_extreme = lowest[1] / lowest[0] if lowest[0] else np.inf
    if by_extreme < _SCALED or not (np.isinf(growth) or growth < _SCALED * by_extreme):
        return None
    lengths = context.series("response_tokens")
    lengths = context.series("response_chars") if lengths is None else lengths
    if lengths is not None and np.nanmean(lengths[after]) > _LONGER * np.nanmean(lengths[before]):
        return None
    found = finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {column} takes more and more from all samples: its mean is "
        f"{number(change.after)} ({number(change.before)} before), its smallest value {number(lowest[1])} "
        f"({number(lowest[0])} before).",
        harmful=False,
        column=column,
        evidence=["The responses do not become longer meanwhile."] if lengths is not None else [],
        advice="A weight that grows as planned looks like this. If none was planned, compare the versions of "
        "the reward.",
        sort=column,
        subject=column,
    )
    return replace(found, severity="info")


def _other_data(context: RuleContext, column: str, change: Change, mix: Mix) -> Finding:
    """Return the note that a mean falls because other data comes, not because samples of a kind get worse."""
    name = "mean reward" if column == "reward" else f"mean of {column}"
    found = finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the mix of {mix.label} is another one, so that the {name} is "
        f"{number(change.after)} ({number(change.before)} before); with the mix of before it would be "
        f"{number(mix.same)}.",
        harmful=False,
        column=column,
        evidence=[mix.text],
        advice="A curriculum looks like this. Compare the reward by label before you compare it in all.",
        sort=column,
        subject=column,
    )
    return replace(found, severity="info")


def _length_changes(context: RuleContext) -> Iterator[Finding]:
    column = "response_tokens" if context.snapshot.has_number("response_tokens") else "response_chars"
    length = column_signal(column, "positive")
    unit = "tokens" if column == "response_tokens" else "characters"
    for sign, verb in ((1, "grows"), (-1, "falls")):
        change = sustained(context, length, np.log(_SUDDEN_LENGTH), sign=sign, base="adjacent")
        change = change or sustained(context, length, np.log(_FAST_LENGTH), sign=sign, base="half")
        change = change or sustained(context, length, np.log(_LENGTH), sign=sign)
        if change is None:
            continue
        mix = mix_between(context, column, change)
        found = finding_of(
            context,
            change,
            f"{since(context.steps, change)}, the mean response length{at_place(change)} {verb} from "
            f"{number(change.before)} to {number(change.after)} {unit}{reward_clause(context, change)}.",
            harmful=_reward_suffers(context, change),
            column=column,
            evidence=[
                f"A factor of {number(change.after / change.before)}; {_errors(change)}",
                *([f"The mix of {mix} is another one, and makes most of the difference."] if mix else []),
            ],
            advice="Read the longest and shortest responses: loops, padding, missing or early end tokens.",
            sort=f"-{column}" if sign > 0 else column,
            subject=f"{column} {verb}",
        )
        yield replace(found, severity="info") if mix else found


def _kl_rises(context: RuleContext) -> Iterator[Finding]:
    kl = column_signal("kl_k3_mean", "positive")
    change = sustained(context, kl, np.log(_KL), base="adjacent")
    change = change or sustained(context, kl, np.log(_KL), base="half")
    if change is None or change.after < _MIN_KL or not change.before > _STARTED:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, KL k3 to the reference{at_place(change)} is "
        f"{number(change.after)} nats per token; it was {number(change.before)} before"
        f"{reward_clause(context, change)}.",
        harmful=change.after > 2 * _MIN_KL or _reward_suffers(context, change),
        column="kl_k3_mean",
        evidence=[f"A factor of {number(change.after / change.before)}; {_errors(change)}"],
        advice="Check the learning rate, the KL coefficient and the samples with the largest KL.",
        sort="-kl_k3_mean",
        color="kl_k3",
        tab="tokens",
        subject="kl_k3_mean",
    )


def _surprisal_rises(context: RuleContext) -> Iterator[Finding]:
    change = sustained(context, column_signal("surprisal_mean"), _least_surprisal(context))
    if change is None or not change.after > _SURPRISAL * change.before > 0:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the surprisal per token{at_place(change)} is "
        f"{number(change.after)} nats; it was {number(change.before)} before"
        f"{reward_clause(context, change)}.",
        harmful=change.after > _EXPLOSION * change.before or _reward_suffers(context, change),
        column="surprisal_mean",
        evidence=[f"A factor of {number(change.after / change.before)}; {_errors(change)}"],
        advice="The policy becomes random: read samples for noise, and check the learning rate and the "
        "entropy bonus.",
        sort="-surprisal_mean",
        color="surprisal",
        tab="tokens",
        subject="surprisal_mean",
    )


def _least_surprisal(context: RuleContext) -> float:
    surprisal = context.series("surprisal_mean")
    usual = np.nanmedian(surprisal) if surprisal is not None and np.isfinite(surprisal).any() else 0.0
    return 0.3 * float(usual)


def _reward_suffers(context: RuleContext, change: Change) -> bool:
    """Return True if the reward fell during a change."""
    return "fell" in reward_clause(context, change)


def _errors(change: Change) -> str:
    return f"the difference is {standard_errors(change.z)} of the two windows."


#: Checked columns, besides the parts of the reward. KL has a rule of its own.
_WATCHED = ("reward", "ref_reward", "valid_reward", "response_tokens", "response_chars", "surprisal_mean")
#: Minimum number of earlier steps.
_MIN_EARLIER = 8
#: Smallest distance in standard deviations of the samples of a step, and relative to the median.
_EFFECT, _RELATIVE = 1.0, 0.25
#: Smallest factor of a positive number.
_FACTOR = 1.6
#: Standard deviation of normal noise, in medians of its distance from the middle.
_OF_NORMAL = 1.4826


@rule("Outlier step", "outlier_z")
def outlier(context: RuleContext) -> Iterator[Finding]:
    """One or two steps are more than this many errors from the median of the 15 steps before.

    The error is the largest of the step's standard error, clustered by group, of the noise between steps, and
    of the usual distance of those 15 steps from their median. The distance must also exceed a standard
    deviation of a step's samples and a quarter of the median; of the response length, a factor of 1.6.
    """
    own_parts = [name for name in reward_parts(context) if name not in copies(context)]
    watched: dict[str, Signal] = {}
    for column in (*_WATCHED, *own_parts):
        if column == "response_chars" and context.snapshot.has_number("response_tokens"):
            continue
        which = column_signal(column, "positive" if column.startswith("response_") else "level")
        if context.available(which):
            watched[column] = which
    if not watched:
        return
    tables = [PlaceTable.of(context, which) for which in watched.values()]

    def read(first: int) -> np.ndarray:
        start, whole = max(0, first - WINDOW), slice(1)
        parts = [table.read(start, len(context.steps), whole) for table in tables]
        values, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.stack([values, variance, running_median(values, _MIN_EARLIER)])[..., first - start :]

    key = outlier, tuple(which.name for which in watched.values())
    values, variance, median = context.place_series.grown(key, read)
    is_factor = np.array([which.kind == "positive" for which in watched.values()])[:, None]
    spread = np.array([spread_of(context, column) for column in watched])[:, None]
    far = np.where(is_factor, np.log(_FACTOR), np.fmax(_EFFECT * spread, _RELATIVE * np.abs(median)))
    distance = np.abs(values - median)
    with np.errstate(all="ignore"):
        # The noise between steps, which takes time, is needed if a step may be an outlier only.
        if not ((distance > far) & ~(distance <= context.thresholds.outlier_z * np.sqrt(variance))).any():
            return
        z = distance / step_errors(values, variance)
        masks = (distance > far) & (z > context.thresholds.outlier_z)
    masks &= distance > context.thresholds.outlier_z * _usual_distance(values, median, masks)
    for (column, which), mask, own, middle in zip(watched.items(), masks, z, median, strict=True):
        if mask.any():
            yield from _outliers(context, column, which, mask, own, middle)


def _usual_distance(values: np.ndarray, median: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Return the usual distance of the 15 steps before each marked step from their median, shape (K, S).

    It is that of normal noise, from the median of the distances, which outliers among them hardly move.
    """
    found = np.zeros(values.shape)
    for row, at in zip(*np.nonzero(masks), strict=True):
        before = values[row, max(0, at - WINDOW) : at]
        found[row, at] = _OF_NORMAL * np.nanmedian(np.abs(before - median[row, at]))
    return found


def _outliers(
    context: RuleContext, column: str, which: Signal, mask: np.ndarray, z: np.ndarray, median: np.ndarray
) -> Iterator[Finding]:
    """Yield the finding of the marked steps of a column, unless they are three in a row or more."""
    mask = mask & ~long_stretches(mask, 3)
    if not mask.any():
        return
    shown = np.exp(median) if which.kind == "positive" else median
    table = PlaceTable.of(context, which)
    worst = int(np.argmax(np.where(mask, z, -1)))
    mean = table.mean[0]
    above = mean[worst] > shown[worst]
    change = Change(
        which,
        WHOLE_RUN,
        mask,
        bool(mask[-1]),
        float(shown[worst]),
        float(mean[worst]),
        mean,
        sign=1 if above else -1,
    )
    yield finding_of(
        context,
        change,
        f"In step {context.steps[worst]:,}, the mean of {context.label(column)} is {number(mean[worst])}, "
        f"far {'above' if above else 'below'} the median of the steps before ({number(shown[worst])}).",
        harmful=False,
        column=column,
        evidence=[
            f"The distance is {standard_errors(z[worst])}.",
            *([f"Also in {span(context.steps, mask)}."] if mask.sum() > 1 else []),
        ],
        advice="Read the samples of this step: another data source, a time-out, or a bug in the reward.",
        sort=f"-{column}" if above else column,
        subject=column,
    )
