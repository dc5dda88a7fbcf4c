"""Rules on texts of some samples of each step: loops, boxes, prompts and ground truths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.findings.engine.change import number, percent, standard_errors
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_statistic import Rise, scored
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule

#: Fewest read steps of a test.
MIN_STEPS = 6
#: Logarithm of a factor of a length that is a change.
_LONGER = float(np.log(1.7))
#: Numbers of the texts that the rules test, 1 for a rise or -1 for a fall, and the least change of interest.
#: All are tested at once.
TESTS: dict[tuple[str, int], float] = {
    ("loops", 1): 0.08,
    ("boxes", 1): 0.4,
    ("unclear", 1): 0.2,
    ("truth_in_prompt", 1): 0.2,
    ("truth_missing", 1): 0.1,
    ("truth_changed", 1): 0.2,
    ("truth_chars", 1): _LONGER,
    ("truth_chars", -1): _LONGER,
    ("empty_results", 1): 0.2,
    ("repeated_results", 1): 0.3,
    ("truth_in_results", 1): 0.3,
    ("result_chars", 1): _LONGER,
    ("result_chars", -1): _LONGER,
    ("unanswered", 1): 0.15,
    ("equal_calls", 1): 0.15,
    ("trained_results", 1): 0.2,
    ("untrained_turns", 1): 0.2,
}


#: Smallest difference between the clearest window and the level right before the onset, in the smallest
#: difference of interest, once that window is that much higher than earlier ones.
_LASTING = 0.5


@dataclass(frozen=True)
class TextChange:
    """A sustained change of a number of the texts.

    Attributes
    ----------
    rise : Rise
        Over the steps that were read.
    mask : ndarray of bool, shape (S,)
        The affected complete steps; those between two read ones count.
    before, after : float
    """

    rise: Rise
    mask: np.ndarray
    before: float
    after: float


def read_steps(context: RuleContext) -> list[int]:
    """Return the complete steps whose texts were read, ascending."""
    if read_steps not in context.results:
        read = np.array(sorted(context.texts.steps), int) if context.texts else np.empty(0, int)
        context.results[read_steps] = read[np.isin(read, context.steps)].tolist()
    found: list[int] = context.results[read_steps]
    return found


def text_change(context: RuleContext, name: str, sign: int = 1) -> TextChange | None:
    """Return the sustained change of a number of the texts that `TESTS` has; None without one."""
    if text_change not in context.results:
        context.results[text_change] = _text_changes(context)
    changes: dict[tuple[str, int], TextChange] = context.results[text_change]
    return changes.get((name, sign))


def _text_changes(context: RuleContext) -> dict[tuple[str, int], TextChange]:
    steps, texts = read_steps(context), context.texts
    if texts is None or len(steps) < MIN_STEPS:
        return {}
    newest, is_read = texts.steps[steps[-1]].numbers, np.isin(context.steps, steps)
    moments = {name: values[is_read] for name, values in context.texts_moments.items() if name in newest}
    tests = [test for test in TESTS if test[0] in moments]
    if not tests:
        return {}
    found = changes_of(
        context,
        steps,
        np.stack([moments[name] for name, _ in tests]),
        np.array([TESTS[test] for test in tests]),
        np.array([sign for _, sign in tests]),
    )
    return {test: change for test, change in zip(tests, found, strict=True) if change is not None}


def changes_of(
    context: RuleContext, steps: list[int], moments: np.ndarray, least: np.ndarray, sign: np.ndarray
) -> list[TextChange | None]:
    """Return the sustained change of each of some means over read steps; None without one.

    Parameters
    ----------
    context : RuleContext
    steps : list of int
        Read steps, S of them.
    moments : ndarray of float, shape (K, S, 2)
        Mean and variance of the mean; NaN where a step has none.
    least : ndarray of float, shape (K,)
        Smallest difference of interest.
    sign : ndarray of int, shape (K,)
        1 for a rise, -1 for a fall.
    """
    scale = sign / least
    mean, variance = moments[..., 0] * scale[:, None], moments[..., 1] * scale[:, None] ** 2
    mean[np.isfinite(mean).sum(axis=1) < MIN_STEPS] = np.nan
    found = scored(mean, np.sqrt(variance), 1.0, context.thresholds.change_z)
    changes: list[TextChange | None] = [None] * len(mean)
    for row in found.windows:
        rise = found.rise(row)
        # The newest level is a noisy one: it does not take back what the clearest window shows.
        level = rise.after if rise.after - rise.before >= 1 else rise.high
        if level - rise.before >= _LASTING:
            mask = mask_of(context, steps[rise.onset], steps[rise.last], ongoing=rise.ongoing)
            before, after = (float(value / scale[row]) for value in (rise.before, level))
            changes[row] = TextChange(rise, mask, before, after)
    return changes


def mask_of(context: RuleContext, first: int, last: int, *, ongoing: bool) -> np.ndarray:
    """Return the mask of the complete steps from the first to the last affected one, or to the newest."""
    return (context.steps >= first) & (ongoing | (context.steps <= last))


def text_finding(
    context: RuleContext,
    change: TextChange,
    sentence: str,
    advice: str,
    *,
    name: str,
    harmful: bool = False,
    sort: str = "",
    column: str = "",
    tab: str = "",
    subject: str = "",
    evidence: tuple[str, ...] = (),
) -> Finding:
    """Return the finding of a change of the texts.

    ``name`` is the number by which the sample that shows it is chosen.
    """
    steps = context.steps[change.mask]
    when = f"From step {steps[0]:,} on" if change.mask[-1] else f"In steps {steps[0]:,}–{steps[-1]:,}"
    uid = ""
    read = context.texts.steps.get(int(steps[0])) if context.texts is not None else None
    if read is not None and np.isfinite(read.numbers.get(name, np.array([np.nan]))).any():
        uid = context.snapshot.uid(int(read.rows[int(np.nanargmax(read.numbers[name]))]))
    seen = len(read.rows) if read is not None else 0
    return Finding(
        severity=severity_of(context, change.mask, harmful=harmful),
        sentence=f"{when}, {sentence}.",
        evidence=(
            f"The difference is {standard_errors(change.rise.z)} of two windows of steps, over up to {seen} "
            "samples of each step that were read.",
            *evidence,
        ),
        advice=advice,
        steps=tuple(steps.tolist()),
        ongoing=bool(change.mask[-1]),
        column=column,
        sort=sort,
        tab=tab,
        uid=uid,
        subject=subject,
    )


def share_rise(
    context: RuleContext, name: str, text: str, advice: str, *, tab: str = "", **more: Any
) -> Iterator[Finding]:
    """Yield the finding of a share of the texts that rises.

    Parameters
    ----------
    context : RuleContext
    name : str
        A share in `TESTS`.
    text : str
        With the shares ``{after}`` and ``{before}``.
    advice, tab
        See `Finding`.
    **more
        Further options of `text_finding`.
    """
    change = text_change(context, name)
    if change is not None:
        sentence = text.format(after=percent(change.after), before=percent(max(change.before, 0)))
        yield text_finding(context, change, sentence, advice, name=name, tab=tab, **more)


def length_change(
    context: RuleContext, name: str, noun: str, advice: str, *, first: int = 1, **more: Any
) -> Iterator[Finding]:
    """Yield the finding of a mean length of texts that changes; the number is its logarithm.

    A rise is looked for first, or with ``first`` -1 a fall.
    """
    for sign in (first, -first):
        verb, change = "longer" if sign > 0 else "shorter", text_change(context, name, sign)
        if change is not None:
            before, after = (number(float(np.exp(value))) for value in (change.before, change.after))
            sentence = f"{noun} are {verb}: {after} characters on average ({before} before)"
            yield text_finding(context, change, sentence, advice, name=name, **more)
            return


@rule("Loops in responses", "change_z")
def loops(context: RuleContext) -> Iterator[Finding]:
    """The share of repeated sequences of four words inside the responses rises by 8 points.

    It is tested by two windows of steps, on up to 16 responses of each step.
    """
    yield from share_rise(
        context,
        "loops",
        "responses repeat themselves: {after} of their sequences of four words occurred before in the same "
        "response ({before} before)",
        "Read the longest responses; check the sampling temperature, a repetition in the prompt, and whether "
        "the reward favours length.",
        sort="-response_chars",
        column="response_chars",
    )


@rule("Several boxed answers", "change_z")
def several_answers(context: RuleContext) -> Iterator[Finding]:
    """The number of boxed answers per response rises by 0.4.

    It is tested by two windows of steps, on up to 16 responses of each step.
    """
    change = text_change(context, "boxes")
    if change is not None and change.after > 1.2:
        yield text_finding(
            context,
            change,
            f"a response has {number(change.after)} boxed answers on average ({number(change.before)} "
            "before)",
            "Check how the reward reads several answers: any of them may count as the right one.",
            name="boxes",
        )


@rule("Ground truth in the prompt", "change_z")
def truth_in_prompt(context: RuleContext) -> Iterator[Finding]:
    """The share of prompts that hold their ground truth as a word rises by 20 points.

    It is tested by two windows of steps, on up to 16 samples of each step. Multiple choice holds it always.
    """
    change = text_change(context, "truth_in_prompt")
    if change is not None:
        yield text_finding(
            context,
            change,
            f"{percent(change.after)} of the prompts hold the answer: their ground truth is a word of the "
            f"prompt ({percent(max(change.before, 0))} before)",
            "Read a prompt: hints, metadata or the solution may have been added by the template.",
            harmful=change.after > 0.5,
            tab="reference",
            name="truth_in_prompt",
        )


@rule("Ground truth missing", "change_z")
def truth_missing(context: RuleContext) -> Iterator[Finding]:
    """The share of samples with an empty ground truth rises by 10 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    yield from share_rise(
        context,
        "truth_missing",
        "{after} of the samples have no ground truth ({before} before)",
        "A comparison of two missing values may pay. Compare the rewards of these samples with the others.",
        harmful=True,
        tab="reference",
    )


@rule("Ground truth of a prompt changes", "change_z")
def truth_changed(context: RuleContext) -> Iterator[Finding]:
    """The share of samples whose prompt had another ground truth before rises by 20 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    yield from share_rise(
        context,
        "truth_changed",
        "{after} of the prompts that were seen before have another ground truth than then",
        "A column was sorted or shuffled on its own: compare the ground truth with the prompt.",
        harmful=True,
        tab="reference",
    )


@rule("Ground truths of another form", "change_z")
def truth_form(context: RuleContext) -> Iterator[Finding]:
    """The ground truths become longer or shorter by a factor of 1.7.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    yield from length_change(
        context,
        "truth_chars",
        "ground truths",
        "Read some: a sentence or a list in place of a value may equal no answer. A change of the data does "
        "this on purpose.",
        tab="reference",
    )
