"""Rules on messages of some rollouts of each step: results of tools, calls, the answer, and the loss mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.rules.texts import text_change, text_finding

_RESULTS = "Run the tool by hand with the same arguments; look at its cache, its limits and its key."


@dataclass(frozen=True)
class _Results:
    """A change of the results of tools.

    Attributes
    ----------
    name : str
        The number of the texts.
    text : str
        With the shares ``{after}`` and ``{before}``.
    subject, advice : str
        See `Finding`.
    harmful : bool
        True if it is an alarm while it goes on.
    """

    name: str
    text: str
    subject: str
    advice: str = _RESULTS
    harmful: bool = True


_SHARES = (
    _Results("empty_results", "{after} of the tool results are empty ({before} before)", "empty"),
    _Results(
        "repeated_results",
        "{after} of the tool results are those of another call with other arguments ({before} before)",
        "same",
    ),
    _Results(
        "truth_in_results",
        "the ground truth is in a tool result of {after} of the rollouts ({before} before)",
        "truth",
        "The environment may leak the answer: read the results for test files, logs and later versions.",
        harmful=False,
    ),
)


@rule("Results of tools change", "change_z")
def tool_results(context: RuleContext) -> Iterator[Finding]:
    """Results of tools become empty, equal for other calls, shorter, longer, or hold the ground truth.

    The share of empty results rises by 20 points, of results that another call has, too, by 30, and of
    samples with the truth in a result by 30; or the mean length changes by a factor of 1.7. Each is tested
    by two windows of steps, on up to 16 samples of each step.
    """
    for kind in _SHARES:
        change = text_change(context, kind.name)
        if change is not None:
            yield text_finding(
                context,
                change,
                kind.text.format(after=percent(change.after), before=percent(max(change.before, 0))),
                kind.advice,
                harmful=kind.harmful,
                tab="conversation",
                name=kind.name,
                subject=kind.subject,
            )
            return
    for sign, verb in ((-1, "shorter"), (1, "longer")):
        change = text_change(context, "result_chars", sign)
        if change is not None:
            text = (
                f"tool results are {verb}: {number(float(np.exp(change.after)))} characters on average "
                f"({number(float(np.exp(change.before)))} before)"
            )
            yield text_finding(
                context, change, text, _RESULTS, tab="conversation", name="result_chars", subject="length"
            )
            return


@rule("Rollouts without an answer", "change_z")
def no_answer(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts whose last message is not a text of the policy rises by 15 points.

    It is tested by two windows of steps, on up to 16 rollouts of each step.
    """
    change = text_change(context, "unanswered")
    if change is not None:
        yield text_finding(
            context,
            change,
            f"{percent(change.after)} of the rollouts end without an answer: their last message is empty, a "
            f"call or a result ({percent(max(change.before, 0))} before)",
            "Read the last turns: a limit of tokens or turns over the whole rollout cuts the answer.",
            harmful=True,
            tab="conversation",
            name="unanswered",
        )


@rule("Same call again", "change_z")
def equal_calls(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts that make one call three times or more rises by 15 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    change = text_change(context, "equal_calls")
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


@rule("Loss mask against the roles", "change_z")
def mask_on_results(context: RuleContext) -> Iterator[Finding]:
    """The share of tool results whose first token is in the loss rises by 20 points, or of turns without it.

    A rise is tested by two windows of steps, on up to 16 rollouts of each step with tokens and a loss mask.
    """
    for name, text in (
        ("trained_results", "the loss mask covers the first token of {after} of the tool results"),
        ("untrained_turns", "the loss mask leaves out the first token of {after} of the policy's turns"),
    ):
        change = text_change(context, name)
        if change is not None:
            yield text_finding(
                context,
                change,
                f"{text.format(after=percent(change.after))} ({percent(max(change.before, 0))} before)",
                "The mask may be shifted by one token: compare it with the roles of the messages.",
                harmful=True,
                tab="conversation",
                name=name,
                subject=name,
            )
            return
