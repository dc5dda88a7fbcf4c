"""Names the cause of the gap between trainer and engine by a tree of tests, if the data show one.

The cause is named if it explains most of the gap, and no other does. The sources of the kinds are public
reports on training with separate engines; `tests/train/gap_runs.py` makes each kind with a real model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.drift.gap_cause_kinds import CAUSES, Cause, Verdict
from rlpanel.drift.gap_levels import capped
from rlpanel.drift.gap_tests import MENTIONED, fitting_causes, flat_rest
from rlpanel.drift.gap_tokens import GapTokens
from rlpanel.number_text import number

#: Mean absolute gaps in nats: below the first there is none, below the second rounding is the usual cause.
NO_GAP, USUAL = 1e-4, 0.05
#: Most of the first cause's share that a second one has, where the first is named.
_SECOND = 0.5
#: Fewest trained tokens of which a cause is named, and different logprobs that a side that scored them has.
_MIN_TOKENS, _MIN_VALUES = 256, 8
#: Most names of numbers that are not compared.
_MAX_NAMES = 4


def verdict(tokens: GapTokens) -> Verdict:
    """Name the cause of the gap of a run's tokens.

    Returns
    -------
    Verdict
        Without tokens, it says what to log.
    """
    if not len(tokens.trainer):
        missing = "logprobs and rollout_logprobs of the same tokens"
        return Verdict("", f"Not checkable: log {missing}.", f"Log {missing}.")
    trained = tokens.only(tokens.trained)
    if not len(trained.trainer):
        return Verdict("", "Not checkable: the loss mask is 0 for all tokens.", "Log a loss mask with ones.")
    size = np.abs(capped(trained))
    facts = Verdict(
        cause="",
        sentence="",
        advice="",
        unchecked=tuple(_unchecked(tokens)),
        size=float(size.mean()),
        median=float(np.median(size)),
        signed=float(capped(trained).mean()),
    )
    if facts.size < NO_GAP:
        return replace(
            facts,
            sentence=f"Trainer and engine agree: the mean gap is {_nats(facts.size)} per token.",
            advice="Exactly equal logprobs may be copied: see the lint of the run."
            if facts.size == 0
            else "There is nothing to do.",
        )
    if open_because := _too_little(trained):
        gap = f"The mean gap is {_nats(facts.size)} per token."
        return replace(
            facts, sentence=f"{gap} Its cause is not checkable: {open_because[0]}.", advice=open_because[1]
        )
    return _decided(facts, sorted(fitting_causes(trained), key=lambda cause: -cause.share), trained)


def _decided(facts: Verdict, causes: list[Cause], tokens: GapTokens) -> Verdict:
    """Return the facts with the cause that explains most of the gap, if one does."""
    rest = 1 - max((cause.share for cause in causes), default=0.0)
    if rest >= MENTIONED and not any(cause.key in ("shift", "mask") for cause in causes):
        causes = sorted([*causes, *flat_rest(tokens, rest, causes)], key=lambda cause: -cause.share)
    facts = replace(facts, causes=tuple(causes))
    gap = f"The mean gap is {_nats(facts.size)} per token."
    if not causes:
        return replace(
            facts,
            sentence=f"{gap} The data do not show its cause.",
            advice=_experiment(),
        )
    first = next((cause for cause in causes if cause.clear and cause.key != "precision"), causes[0])
    others = [cause.share for cause in causes if cause is not first and cause.key != "precision"]
    clear = first.clear and max(others, default=0.0) <= _SECOND * first.share
    if clear and first.key == "precision" and not np.isfinite(tokens.age).any() and facts.size > USUAL:
        return replace(
            facts,
            sentence=f"{gap} Precision or stale weights: the data do not show which.",
            advice="Log policy_version and trainer_version: a gap of stale weights grows with their age.",
        )
    if clear:
        return replace(
            facts,
            cause=first.key,
            sentence=f"{gap} Cause: {first.title}, {first.share:.0%} of it: {first.sentence}.",
            advice=CAUSES[first.key].advice,
        )
    names = " and ".join(f"{cause.title} ({cause.share:.0%})" for cause in causes[:2])
    return replace(
        facts,
        sentence=f"{gap} The data do not show one cause: {names} explain parts of it.",
        advice=f"Remove one of them and run again. {CAUSES[first.key].advice}",
    )


def _too_little(tokens: GapTokens) -> tuple[str, str] | None:
    """Return why no cause can be named of tokens, and what to do; None if one can."""
    count = len(tokens.trainer)
    if count < _MIN_TOKENS:
        return (
            f"{count:,} trained tokens with both logprobs were read, and {_MIN_TOKENS} are needed",
            "Read the run again when it has more samples.",
        )
    for side, name, values in (
        ("trainer", "logprobs", tokens.trainer),
        ("engine", "rollout_logprobs", tokens.engine),
    ):
        if (distinct := len(np.unique(values))) < _MIN_VALUES:
            return (
                f"the {side}'s logprobs have {distinct} different values in {count:,} tokens",
                f"Log {name} as the {side} computed them for each token.",
            )
    return None


def _unchecked(tokens: GapTokens) -> Iterator[str]:
    if not np.isfinite(tokens.age).any():
        yield "stale weights: log policy_version"
    if not np.isfinite(tokens.entropy).any():
        yield "the engine's temperature: log entropy"
    if not tokens.has_mask:
        yield "tokens outside of the loss: log loss_mask"
    if (tokens.ranks < 0).all() and not tokens.labels:
        yield "one rank or engine: log rank, or a label with the engine's name"
    if names := tokens.other_numbers:
        shown = ", ".join([*names[:_MAX_NAMES], *(["…"] if len(names) > _MAX_NAMES else [])])
        yield f"places by {shown}: log a number that is an id as text"
    if len(np.unique(tokens.steps)) < 4:
        yield "since which step: at least 4 steps are needed"


def _experiment() -> str:
    return (
        "Score one batch with the engine's weights in the trainer: if the gap stays, it comes from precision "
        "or from the prompt; if it goes, from the weights."
    )


def _nats(value: float) -> str:
    return f"{number(value)} nats"
