"""Rules on the trainer's own scalars: loss, gradient norm and learning rate."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import number, span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_statistic import scored
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.store.columns.scalar_log import GRADIENT_NORM, LEARNING_RATE

_NUMBERS = re.compile(r"loss|grad|kl\b|entropy|ratio", re.IGNORECASE)
#: Points in a row that are not finite, or 0: mixed precision skips single updates.
_IN_A_ROW = 3
#: Factor of the gradient norm, and of a settled learning rate, that is a change.
_GROWTH = 3.0
#: Factor by which a learning rate rises from one point to the next when its schedule begins again, and the
#: share of its largest value that it had fallen to.
_RESTART, _DECAYED = 2.0, 0.8
#: First points, in which the optimiser and the policy settle.
_GRACE = 12
#: Smallest learning rate whose digits are looked at.
_MIN_RATE = 1e-300


def _values(context: RuleContext, name: str) -> np.ndarray:
    """Return a scalar at the complete steps, shape (S,), and whether it was logged there."""
    series, steps = context.snapshot.scalars.series(name), context.steps
    at = np.searchsorted(series.steps, steps).clip(max=max(len(series.steps) - 1, 0))
    if not len(series.steps):
        return np.full((2, len(steps)), np.nan)
    logged = series.steps[at] == steps
    return np.stack([np.where(logged, series.values[at], np.nan), logged.astype(float)])


def _last_stretch(special: np.ndarray, logged: np.ndarray) -> np.ndarray:
    """Return the mask of the last stretch of special points, if it is long enough."""
    points = np.flatnonzero(logged)
    mask = np.zeros(len(special), bool)
    flags = special[points]
    if not flags.any():
        return mask
    last = int(np.flatnonzero(flags)[-1])
    start = last
    while start and flags[start - 1]:
        start -= 1
    if last - start + 1 >= _IN_A_ROW:
        mask[points[start] : points[last] + 1] = True
    return mask


def _finding(
    context: RuleContext,
    mask: np.ndarray,
    text: str,
    advice: str,
    subject: str,
    *,
    harmful: bool = False,
    evidence: tuple[str, ...] = (),
) -> Finding:
    """Return the finding whose sentence is the affected steps and then a text."""
    ongoing = bool(mask[-1])
    when = f"From step {context.steps[mask][0]:,} on" if ongoing else span(context.steps, mask).capitalize()
    return Finding(
        severity=severity_of(context, mask, harmful=harmful),
        sentence=f"{when}, {text}",
        evidence=evidence,
        advice=advice,
        steps=tuple(context.steps[mask].tolist()),
        ongoing=ongoing,
        subject=subject,
    )


@rule("NaN in the trainer's scalars")
def scalars_not_finite(context: RuleContext) -> Iterator[Finding]:
    """Loss, gradient norm or a like scalar becomes NaN or infinite at three logged points in a row.

    Mixed precision skips single updates, which do not count.
    """
    found: dict[tuple[int, ...], list[str]] = {}
    for name in filter(_NUMBERS.search, context.snapshot.scalars.names):
        values, logged = _values(context, name)
        mask = _last_stretch((logged > 0) & ~np.isfinite(values), logged > 0)
        if mask.any() and np.isfinite(values[: int(mask.argmax())]).any():
            found.setdefault(tuple(np.flatnonzero(mask).tolist()), []).append(name)
    for at, names in found.items():
        mask = np.zeros(len(context.steps), bool)
        mask[list(at)] = True
        yield _finding(
            context,
            mask,
            f"{' and '.join(names[:3])} of the trainer {'is' if len(names) == 1 else 'are'} NaN or infinite.",
            "The updates have no effect or have broken the weights: look at the first such step, the loss "
            "scale and the precision.",
            names[0],
            harmful=True,
        )


@rule("Learning rate is 0")
def learning_rate_zero(context: RuleContext) -> Iterator[Finding]:
    """The learning rate is 0 at three logged points in a row, after it was above 0."""
    yield from _zeros(
        context,
        LEARNING_RATE,
        "the learning rate ({name})",
        "Compare the scheduler's number of steps with the trainer's: the two may count other units.",
    )


@rule("Gradient norm is 0")
def gradient_zero(context: RuleContext) -> Iterator[Finding]:
    """The gradient norm is 0 at three logged points in a row, after it was above 0."""
    yield from _zeros(
        context,
        GRADIENT_NORM,
        "{name}",
        "All advantages may be 0, all samples masked, or the graph cut: look at advantages and masks.",
    )


def _zeros(context: RuleContext, names: re.Pattern[str], title: str, advice: str) -> Iterator[Finding]:
    """Yield the finding of the first scalar with such a name that becomes 0 for some logged points."""
    for name in filter(names.search, context.snapshot.scalars.names):
        values, logged = _values(context, name)
        mask = _last_stretch(values == 0, logged > 0)
        if mask.any() and (values[: int(mask.argmax())] > 0).any():
            text = f"{title.format(name=name)} is 0, so the policy does not change."
            yield _finding(context, mask, text, advice, name)
            return


@rule("Learning rate jumps")
def learning_rate_jumps(context: RuleContext) -> Iterator[Finding]:
    """The learning rate triples from one logged point to the next, or doubles after it had begun to fall.

    A rate that was rising before is in its warm-up. A schedule with several such jumps is a choice, and is
    left out.
    """
    for name in filter(LEARNING_RATE.search, context.snapshot.scalars.names):
        values, logged = _values(context, name)
        points = np.flatnonzero((logged > 0) & np.isfinite(values))
        rate = values[points]
        jumps = _jumps(rate)
        if len(jumps) != 1:
            continue
        mask = np.arange(len(values)) >= points[jumps[0]]
        before, after, largest = (float(each) for each in (*rate[jumps[0] - 1 :][:2], rate[: jumps[0]].max()))
        yield _finding(
            context,
            mask,
            f"the learning rate ({name}) is {number(after)}; it was {number(before)} before.",
            "Check that a resume loads the scheduler's state and the settings of before; a warm restart or a "
            "planned rise does this on purpose.",
            name,
            evidence=(
                f"The largest before was {number(largest)}."
                if largest > before
                else "A small rate may have been rounded to 0 in the log."
                if not before
                else f"It is {number(after / before)} times as high.",
            ),
        )
        return


def _jumps(rate: np.ndarray) -> np.ndarray:
    """Return the points of a learning rate that are far above the point before, outside of a warm-up."""
    if len(rate) <= _IN_A_ROW:
        return np.empty(0, int)
    before, after = rate[:-1], rate[1:]
    again = (after >= _RESTART * before) & (before < _DECAYED * np.maximum.accumulate(before))
    settled = np.zeros(len(before), bool)
    settled[2:] = (before[2:] <= before[1:-1]) & (before[1:-1] <= before[:-2])
    higher = settled & (before > 0) & (after >= _GROWTH * before)
    # A log that rounds shows a slow warm-up as 0, then as 1 in its last digit, not as more.
    digit = after / 10.0 ** np.floor(np.log10(np.maximum(after, _MIN_RATE)))
    awake = (np.cumsum(before != 0) == 0) & (np.arange(len(before)) >= _GRACE) & (digit >= _RESTART)
    return np.flatnonzero((after > 0) & (again | higher | awake)) + 1


@rule("Gradient norm grows", "change_z")
def gradient_grows(context: RuleContext) -> Iterator[Finding]:
    """The trainer's gradient norm grows by a factor of 3 within a few steps, for three steps or more.

    It is tested by two windows of steps against the noise between steps, after the first 12 points.
    """
    for name in filter(GRADIENT_NORM.search, context.snapshot.scalars.names):
        values, _ = _values(context, name)
        with np.errstate(all="ignore"):
            level = np.where(values > 0, np.log(values), np.nan)[None]
        if np.isfinite(level).sum() < 10:
            continue
        error = np.full(level.shape, np.nan)
        found = scored(level, error, float(np.log(_GROWTH)), context.thresholds.change_z, "adjacent")
        if 0 not in found.windows:
            continue
        rise = found.rise(0)
        mask = np.zeros(level.shape[1], bool)
        mask[rise.onset : rise.last + 1] = True
        if rise.onset < _GRACE or mask.sum() < _IN_A_ROW:
            continue
        worst = float(np.nanmax(values[mask]))
        before = float(np.exp(rise.before))
        yield _finding(
            context,
            mask,
            f"{name} is up to {number(worst)}; it was {number(before)} before.",
            "Look at the samples and advantages of the first such step; check that a resume loads the "
            "optimiser's state; clip the norm or lower the learning rate.",
            name,
        )
        return
