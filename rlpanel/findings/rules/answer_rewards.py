"""Rules on answers, as rlpanel reads them, against the ground truth and the reward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.step_texts import moments_of
from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.rules.held_out import reward_parts
from rlpanel.findings.rules.texts import (
    MIN_STEPS,
    TextChange,
    changes_of,
    read_steps,
    text_change,
    text_finding,
)

#: Smallest correlation of a reward with the match of answer and truth, and fewest samples for it.
_FOLLOWS, _MIN_SAMPLES = 0.5, 40
#: Difference of log lengths that is worth a sentence, and fewest samples on either side.
_LENGTH, _MIN_OF_LENGTHS = 0.1, 8
#: Most values of a reward that are grades; of more, levels may drift, and are averaged over some read steps.
_GRADES, _SMOOTH = 8, 5
#: Rise of the share of right answers without reward, and of wrong ones with it.
_UNPAID, _PAID = 0.15, 0.15


@dataclass(frozen=True)
class _Scored:
    """Samples whose answer was compared with the truth, and the reward that follows this comparison.

    Attributes
    ----------
    column : str
        The reward, or its part, that follows the match best in the first half of the read steps.
    steps : list of int
        Read steps.
    rows : ndarray of int, shape (N,)
    step, group : ndarray of int, shape (N,)
        Position in ``steps`` of each sample, and the index of its prompt within the step.
    right, rewarded : ndarray of bool, shape (N,)
    """

    column: str
    steps: list[int]
    rows: np.ndarray
    step: np.ndarray
    group: np.ndarray
    right: np.ndarray
    rewarded: np.ndarray

    def change(self, context: RuleContext, least: float, *, right: bool) -> TextChange | None:
        """Return the rise of the share of right answers without reward, or of wrong ones with it."""
        part = self.right == right
        wrongly = np.where(part, (self.rewarded != right).astype(float), np.nan)
        moments = moments_of(wrongly, self.group, self.step, len(self.steps))
        return changes_of(context, self.steps, moments[None], np.array([least]), np.array([1]))[0]

    def lengths(self, context: RuleContext, change: TextChange) -> tuple[str, ...]:
        """Return a sentence if the right answers without reward are clearly longer or shorter than others."""
        if not context.snapshot.is_stored("response_chars"):
            return ()
        inside = self.right & np.isin(np.array(self.steps)[self.step], context.steps[change.mask])
        chars = np.log(np.maximum(context.snapshot.counted("response_chars", self.rows), 1.0))
        unpaid, paid = (chars[inside & part & np.isfinite(chars)] for part in (~self.rewarded, self.rewarded))
        if min(len(unpaid), len(paid)) < _MIN_OF_LENGTHS:
            return ()
        gap = float(unpaid.mean() - paid.mean())
        error = float(np.sqrt(unpaid.var(ddof=1) / len(unpaid) + paid.var(ddof=1) / len(paid)))
        if abs(gap) < max(_LENGTH, context.thresholds.change_z * error):
            return ()
        means = [number(float(np.exp(part.mean()))) for part in (unpaid, paid)]
        return (
            f"They are {'longer' if gap > 0 else 'shorter'} than right answers with the reward: {means[0]} "
            f"characters on average, not {means[1]}.",
        )


def _scored(context: RuleContext) -> _Scored | None:
    """Return the compared samples; None if there are too few, or if no reward follows the comparison."""
    if _scored not in context.results:
        context.results[_scored] = _compared(context)
    found: _Scored | None = context.results[_scored]
    return found


def _compared(context: RuleContext) -> _Scored | None:
    steps, texts = read_steps(context), context.texts
    if texts is None or texts.answers is None or len(steps) < MIN_STEPS:
        return None
    parts = [texts.steps[step] for step in steps]
    unknown = [np.full(len(part.rows), np.nan) for part in parts]
    match = np.concatenate(
        [part.numbers.get("match", none) for part, none in zip(parts, unknown, strict=True)]
    )
    known = np.isfinite(match)
    step = np.repeat(np.arange(len(steps)), [len(part.rows) for part in parts])[known]
    rows, group = (
        np.concatenate(each)[known]
        for each in zip(*((part.rows, part.groups) for part in parts), strict=True)
    )
    right = match[known] > 0
    first = step < len(steps) / 2
    best: tuple[float, str, np.ndarray] | None = None
    for column in ["reward", *reward_parts(context)]:
        if not context.snapshot.is_stored(column):
            continue
        values = context.snapshot.counted(column, rows)
        use = first & np.isfinite(values)
        if use.sum() < _MIN_SAMPLES or not 0 < right[use].mean() < 1 or not np.ptp(values[use]):
            continue
        follows = float(np.corrcoef(values[use], right[use])[0, 1])
        if follows >= _FOLLOWS and (best is None or follows > best[0]):
            best = follows, column, values
    if best is None:
        return None
    _, column, values = best
    use = np.isfinite(values)
    levels = [float(values[use & first & (right == side)].mean()) for side in (True, False)]
    rewarded = values[use]
    if len(np.unique(values[use & first])) > _GRADES:
        # All rewards of a learnt one may rise: each side is compared where the other one has its first level.
        drift = [
            _drift(values, use & (right == side), step, len(steps), level)
            for side, level in zip((True, False), levels, strict=True)
        ]
        rewarded = rewarded - np.where(right[use], drift[1][step[use]], drift[0][step[use]])
    return _Scored(column, steps, rows[use], step[use], group[use], right[use], rewarded > sum(levels) / 2)


def _drift(values: np.ndarray, use: np.ndarray, step: np.ndarray, steps: int, level: float) -> np.ndarray:
    """Return by how much some samples differ from a level at each step, over the last few steps, (S,)."""
    sums = np.zeros((2, steps + _SMOOTH))
    np.cumsum(np.bincount(step[use], minlength=steps), out=sums[0, _SMOOTH:])
    np.cumsum(np.bincount(step[use], values[use], minlength=steps), out=sums[1, _SMOOTH:])
    count, total = sums[:, _SMOOTH:] - sums[:, :-_SMOOTH]
    return np.where(count > 0, total / np.maximum(count, 1) - level, 0.0)


@rule("Right answers without reward", "change_z")
def right_unrewarded(context: RuleContext) -> Iterator[Finding]:
    """The share of answers that equal the ground truth, but get no reward, rises by 15 points.

    Answers are read by rlpanel, not by the trainer. The reward is the one that follows the comparison best in
    the first half of the run, with a correlation of 0.5 or more; if it has more than 8 values, what all wrong
    answers gain or lose is taken off. It is tested by two windows of steps, on up to 16 samples of each step.
    """
    scored = _scored(context)
    change = scored.change(context, _UNPAID, right=True) if scored is not None else None
    if scored is None or change is None:
        return
    yield text_finding(
        context,
        change,
        f"{percent(change.after)} of the answers that equal their ground truth get no {scored.column} "
        f"({percent(max(change.before, 0.0))} before)",
        "Run the verifier by hand on such a sample: a time-out, a failed worker, another form of the answer, "
        "or rewards that belong to other samples.",
        name="match",
        sort="reward",
        column=scored.column if scored.column == "reward" else "",
        tab="reference",
        evidence=scored.lengths(context, change),
    )


@rule("Wrong answers rewarded", "change_z")
def wrong_rewarded(context: RuleContext) -> Iterator[Finding]:
    """The share of answers that differ from the ground truth, but get the reward, rises by 15 points.

    Answers and the reward are those of "Right answers without reward". It is tested by two windows of steps,
    on up to 16 samples of each step.
    """
    scored = _scored(context)
    change = scored.change(context, _PAID, right=False) if scored is not None else None
    if scored is None or change is None:
        return
    yield text_finding(
        context,
        change,
        f"{percent(change.after)} of the answers that differ from their ground truth get the {scored.column} "
        f"of right ones ({percent(max(change.before, 0.0))} before)",
        "Read such samples: a judge or parser that accepts more, a way around the check, or rewards that "
        "belong to other samples.",
        name="match",
        sort="-reward",
        column=scored.column if scored.column == "reward" else "",
        tab="reference",
    )


@rule("Answers cannot be read", "change_z")
def answers_unclear(context: RuleContext) -> Iterator[Finding]:
    """The share of responses without an answer that can be compared with the ground truth rises by 20 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    change = text_change(context, "unclear")
    if change is None or context.texts is None or context.texts.answers is None:
        return
    yield text_finding(
        context,
        change,
        f"{percent(change.after)} of the responses have no answer that can be compared with their ground "
        f"truth ({percent(max(change.before, 0.0))} before)",
        "Read how they end, and the form of the ground truths: a verifier may not read them either.",
        name="unclear",
        tab="reference",
        evidence=(f"Answers are read by the rule {context.texts.answers.key} in each step.",),
    )
