"""Rules on messages of some rollouts of each step: results of tools, calls, the answer, and the loss mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.rules.texts import length_change, share_rise

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
    findings = (
        *(
            share_rise(
                context,
                kind.name,
                kind.text,
                kind.advice,
                harmful=kind.harmful,
                tab="conversation",
                subject=kind.subject,
            )
            for kind in _SHARES
        ),
        length_change(
            context, "result_chars", "tool results", _RESULTS, first=-1, tab="conversation", subject="length"
        ),
    )
    yield from islice(chain.from_iterable(findings), 1)


@rule("Rollouts without an answer", "change_z")
def no_answer(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts whose last message is not a text of the policy rises by 15 points.

    It is tested by two windows of steps, on up to 16 rollouts of each step.
    """
    yield from share_rise(
        context,
        "unanswered",
        "{after} of the rollouts end without an answer: their last message is empty, a call or a result "
        "({before} before)",
        "Read the last turns: a limit of tokens or turns over the whole rollout cuts the answer.",
        harmful=True,
        tab="conversation",
    )


@rule("Same call again", "change_z")
def equal_calls(context: RuleContext) -> Iterator[Finding]:
    """The share of rollouts that make one call three times or more rises by 15 points.

    It is tested by two windows of steps, on up to 16 samples of each step.
    """
    yield from share_rise(
        context,
        "equal_calls",
        "{after} of the rollouts make the same call three times or more ({before} before)",
        "Read such a rollout: the result may not reach the policy, or a call may be rewarded.",
        tab="conversation",
    )


@rule("Loss mask against the roles", "change_z")
def mask_on_results(context: RuleContext) -> Iterator[Finding]:
    """The share of tool results whose first token is in the loss rises by 20 points.

    Or that of the policy's turns whose first token is not.

    A rise is tested by two windows of steps, on up to 16 rollouts of each step with tokens and a loss mask.
    """
    findings = (
        share_rise(
            context,
            name,
            f"{text} ({{before}} before)",
            "The mask may be shifted by one token: compare it with the roles of the messages.",
            harmful=True,
            tab="conversation",
            subject=name,
        )
        for name, text in (
            ("trained_results", "the loss mask covers the first token of {after} of the tool results"),
            ("untrained_turns", "the loss mask leaves out the first token of {after} of the policy's turns"),
        )
    )
    yield from islice(chain.from_iterable(findings), 1)
