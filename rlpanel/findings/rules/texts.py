"""Rules on texts of some samples of each step: loops, prompts, truths, and results of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import number, percent, standard_errors
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_statistic import Rise, scored
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule

#: Fewest read steps of a test.
_FEWEST_STEPS = 6


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
    return [step for step in context.steps.tolist() if context.texts and step in context.texts.steps]


def text_change(context: RuleContext, name: str, least: float, *, sign: int = 1) -> TextChange | None:
    """Return the sustained change of a number of the texts; None without one.

    Parameters
    ----------
    context : RuleContext
    name : str
        See `rlpanel.analysis.step_texts.numbers_of`.
    least : float
        Smallest difference of interest.
    sign : int
        1 for a rise, -1 for a fall.
    """
    steps, texts = read_steps(context), context.texts
    if texts is None or len(steps) < _FEWEST_STEPS:
        return None
    unknown = (np.nan, np.nan)
    mean, variance = np.array([texts.steps[step].moments.get(name, unknown) for step in steps]).T
    if np.isfinite(mean).sum() < _FEWEST_STEPS:
        return None
    found = scored(sign * mean[None], np.sqrt(variance)[None], least, context.thresholds.change_z)
    if not found.windows:
        return None
    rise = found.rise(0)
    if rise.after - rise.before < least:
        return None
    mask = mask_of(context, steps[rise.onset], steps[rise.last], ongoing=rise.ongoing)
    return TextChange(rise, mask, sign * rise.before, sign * rise.after)


def mask_of(context: RuleContext, first: int, last: int, *, ongoing: bool) -> np.ndarray:
    """Return the mask of the complete steps from the first to the last affected one, or to the newest."""
    return (context.steps >= first) & (ongoing | (context.steps <= last))


def text_finding(
    context: RuleContext,
    change: TextChange,
    sentence: str,
    advice: str,
    *,
    harmful: bool = False,
    sort: str = "",
    column: str = "",
    tab: str = "",
    subject: str = "",
    is_worst: Callable[[np.ndarray], int] = lambda values: int(np.nanargmax(values)),
    name: str = "",
) -> Finding:
    """Return the finding of a change of the texts, with a sample that shows it."""
    steps = context.steps[change.mask]
    when = f"From step {steps[0]:,} on" if change.mask[-1] else f"In steps {steps[0]:,}–{steps[-1]:,}"
    uid = ""
    read = context.texts.steps.get(int(steps[0])) if context.texts is not None else None
    if read is not None and np.isfinite(read.numbers.get(name, np.array([np.nan]))).any():
        uid = context.snapshot.uid(int(read.rows[is_worst(read.numbers[name])]))
    seen = len(read.rows) if read is not None else 0
    return Finding(
        severity=severity_of(context, change.mask, harmful=harmful),
        sentence=f"{when}, {sentence}.",
        evidence=(
            f"The difference is {standard_errors(change.rise.z)} of two windows of steps, over up to {seen} "
            "samples of each step that were read.",
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


@rule("Loops in responses", "change_z")
def loops(context: RuleContext) -> Iterator[Finding]:
    """The share of repeated sequences of four words inside the responses rises by 8 points.

    It is tested by two windows of steps, on up to 16 responses of each step.
    """
    change = text_change(context, "loops", 0.08)
    if change is not None:
        yield text_finding(
            context,
            change,
            f"responses repeat themselves: {percent(change.after)} of their sequences of four words "
            f"occurred before in the same response ({percent(max(change.before, 0))} before)",
            "Read the longest responses; check the sampling temperature, a repetition in the prompt, and "
            "whether the reward favours length.",
            sort="-response_chars",
            column="response_chars",
            name="loops",
        )


@rule("Several boxed answers", "change_z")
def several_answers(context: RuleContext) -> Iterator[Finding]:
    """The number of boxed answers per response rises by 0.4.

    It is tested by two windows of steps, on up to 16 responses of each step.
    """
    change = text_change(context, "boxes", 0.4)
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
    change = text_change(context, "truth_in_prompt", 0.2)
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
    change = text_change(context, "truth_missing", 0.1)
    if change is not None:
        yield text_finding(
            context,
            change,
            f"{percent(change.after)} of the samples have no ground truth ({percent(max(change.before, 0))} "
            "before)",
            "A comparison of two missing values may pay. Compare the rewards of these samples with the "
            "others.",
            harmful=True,
            tab="reference",
            name="truth_missing",
        )


@rule("Ground truth of a prompt changes", "change_z")
def truth_changed(context: RuleContext) -> Iterator[Finding]:
    """The share of samples whose prompt had another ground truth before rises by 20 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    change = text_change(context, "truth_changed", 0.2)
    if change is not None:
        yield text_finding(
            context,
            change,
            f"{percent(change.after)} of the prompts that were seen before have another ground truth than "
            "then",
            "A column was sorted or shuffled on its own: compare the ground truth with the prompt.",
            harmful=True,
            tab="reference",
            name="truth_changed",
        )


_RESULTS = "Run the tool by hand with the same arguments; look at its cache, its limits and its key."


@rule("Results of tools change", "change_z")
def tool_results(context: RuleContext) -> Iterator[Finding]:
    """Results of tools become empty, equal for other calls, shorter, longer, or hold the ground truth.

    The share of empty results rises by 20 points, of results that another call has, too, by 30, and of
    samples with the truth in a result by 30; or the mean length changes by a factor of 1.7. Each is tested
    by two windows of steps, on up to 16 samples of each step.
    """
    change = text_change(context, "empty_results", 0.2)
    if change is not None:
        text = (
            f"{percent(change.after)} of the tool results are empty ({percent(max(change.before, 0))} before)"
        )
        yield text_finding(
            context,
            change,
            text,
            _RESULTS,
            harmful=True,
            tab="conversation",
            name="empty_results",
            subject="empty",
        )
        return
    change = text_change(context, "repeated_results", 0.3)
    if change is not None:
        text = (
            f"{percent(change.after)} of the tool results are those of another call with other arguments "
            f"({percent(max(change.before, 0))} before)"
        )
        yield text_finding(
            context,
            change,
            text,
            _RESULTS,
            harmful=True,
            tab="conversation",
            name="repeated_results",
            subject="same",
        )
        return
    change = text_change(context, "truth_in_results", 0.3)
    if change is not None:
        text = (
            f"the ground truth is in a tool result of {percent(change.after)} of the rollouts "
            f"({percent(max(change.before, 0))} before)"
        )
        yield text_finding(
            context,
            change,
            text,
            "The environment may leak the answer: read the results for test files, logs and later versions.",
            tab="conversation",
            name="truth_in_results",
            subject="truth",
        )
        return
    for sign, verb in ((-1, "shorter"), (1, "longer")):
        change = text_change(context, "result_chars", float(np.log(1.7)), sign=sign)
        if change is not None:
            text = (
                f"tool results are {verb}: {number(float(np.exp(change.after)))} characters on average "
                f"({number(float(np.exp(change.before)))} before)"
            )
            yield text_finding(
                context, change, text, _RESULTS, tab="conversation", name="result_chars", subject="length"
            )
            return


@rule("Same call again", "change_z")
def equal_calls(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts that make one call three times or more rises by 15 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    change = text_change(context, "equal_calls", 0.15)
    if change is not None:
        yield text_finding(
            context,
            change,
            f"{percent(change.after)} of the rollouts make the same call three times or more "
            f"({percent(max(change.before, 0))} before)",
            "Read such a rollout: the result may not reach the policy, or a call may be rewarded.",
            tab="conversation",
            name="equal_calls",
        )


@rule("Tool results in the loss", "change_z")
def mask_on_results(context: RuleContext) -> Iterator[Finding]:
    """The share of tool results whose first token takes part in the loss rises by 20 points.

    A rise is tested by two windows of steps, on up to 16 rollouts of each step with tokens and a loss mask.
    """
    change = text_change(context, "trained_results", 0.2)
    if change is not None:
        yield text_finding(
            context,
            change,
            f"the loss mask covers the first token of {percent(change.after)} of the tool results "
            f"({percent(max(change.before, 0))} before)",
            "The mask may be shifted by one token: compare it with the roles of the messages.",
            harmful=True,
            tab="conversation",
            name="trained_results",
        )
