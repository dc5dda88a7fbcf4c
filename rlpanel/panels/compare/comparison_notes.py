"""Sentences that say which number and which prompts a comparison of two runs is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlpanel.board_url import BEST
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.store.snapshot.alignment import ComparedReward
from rlpanel.store.snapshot.prompt_pairs import PromptPairs

#: Maximum number of reward functions that a sentence names.
_MAX_NAMED = 6

_SHARED = marked(
    "The rewards of the two runs are different sums. So the functions that both runs log are summed instead, "
    "also in the chart, the list and the export. As in TRL, a function without a score is left out of its "
    "sample's sum."
)
_DOUBTFUL = marked(
    "A difference may come from the reward functions alone and say nothing about the policies."
)
_HALVES = marked(
    "The prompts are split into two halves by a hash of their text. The step with the highest mean reward "
    "over one half is chosen, and the runs are compared on the other half. On the prompts by which it was "
    "chosen, the best of many steps would win by luck alone."
)


class ComparisonNote(NamedTuple):
    """A sentence in plain text, its tooltip, and whether it warns."""

    text: str
    tip: str
    warns: bool = False


def comparison_notes(
    reward: ComparedReward, pairs: PromptPairs, at: tuple[str, str], labels: tuple[str, str]
) -> list[ComparisonNote]:
    """Return the sentences about a comparison; none if both runs' own rewards of all prompts are compared.

    Parameters
    ----------
    reward : ComparedReward
    pairs : PromptPairs
    at : tuple of str
        Choice of the samples of either run (see `rlpanel.board_url.NEWEST`).
    labels : tuple of str
        Names of the two runs.
    """
    notes = []
    if reward.functions:
        notes.append(ComparisonNote(_shared_text(reward, labels), tr(_SHARED)))
    elif reward.doubtful:
        notes.append(ComparisonNote(_doubtful_text(reward, labels), tr(_DOUBTFUL), warns=True))
    if BEST in at and len(pairs):
        notes.append(ComparisonNote(_best_text(pairs, at, labels), tr(_HALVES), not pairs.held_out.any()))
    return notes


def _shared_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    count = len(reward.functions)
    text = trn(
        "Compared on {count:,} shared reward function: {names}.",
        "Compared on {count:,} shared reward functions: {names}.",
        count,
        names=_sum_text(reward),
    )
    left_out = [
        tr("{names} (only in {label})", names=_names(names), label=label)
        for names, label in zip((reward.only_here, reward.only_there), labels, strict=True)
        if names
    ]
    return tr("{text} Left out: {left_out}.", text=text, left_out=", ".join(left_out)) if left_out else text


def _sum_text(reward: ComparedReward) -> str:
    """Return the sum as text, with its weights or the reason why it has none."""
    if reward.weighting == "same":
        pairs = zip(reward.weights, reward.functions, strict=True)
        return tr(
            "{names}, with the runs' weights",
            names=_names([f"{weight:g} × {name}" for weight, name in pairs], " + "),
        )
    reason = {
        "different": tr("unweighted, since the runs give them different weights"),
        "unknown": tr("unweighted, since run.json does not give their weights in both runs"),
    }[reward.weighting]
    return f"{_names(reward.functions, ' + ')}, {reason}"


def _doubtful_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    start = tr("The rewards of the two runs may be different numbers:")
    here, there = labels
    if reward.only_here and reward.only_there:
        return tr(
            "{start} they have no reward function in common. "
            "{here} logs {here_names}, {there} logs {there_names}.",
            start=start,
            here=here,
            here_names=_names(reward.only_here),
            there=there,
            there_names=_names(reward.only_there),
        )
    names, with_functions, without = (
        (reward.only_here, here, there) if reward.only_here else (reward.only_there, there, here)
    )
    return tr(
        "{start} {with_functions} logs its reward functions ({names}), {without} only their total.",
        start=start,
        with_functions=with_functions,
        names=_names(names),
        without=without,
    )


def _best_text(pairs: PromptPairs, at: tuple[str, str], labels: tuple[str, str]) -> str:
    """Return which steps were chosen on how many prompts, and how many other prompts are compared."""
    counts, sides = (pairs.chose_here, pairs.chose_there), (pairs.here, pairs.there)
    steps = [f"{label} ({side.step[0]:,})" for label, side in zip(labels, sides, strict=True)]
    if at == (BEST, BEST) and counts[0] == counts[1]:
        chosen = tr(
            "Best steps of {steps} chosen on {prompts}",
            steps=tr(" and ").join(steps),
            prompts=_prompts(counts[0]),
        )
    else:
        chosen = tr(" and ").join(
            tr("best step of {step} chosen on {prompts}", step=step, prompts=_prompts(count))
            for step, count, choice in zip(steps, counts, at, strict=True)
            if choice == BEST
        )
    chosen = chosen[0].upper() + chosen[1:]
    others = int(pairs.held_out.sum())
    if not others:
        return tr("{chosen}; no other prompt is in both runs, so there is no win rate.", chosen=chosen)
    return tr("{chosen}; compared on the other {others:,}.", chosen=chosen, others=others)


def _prompts(count: int) -> str:
    return trn("{count:,} prompt", "{count:,} prompts", count)


def _names(names: Sequence[str], separator: str = ", ") -> str:
    listed = separator.join(names[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return (
        tr("{listed}{separator}{more:,} more", listed=listed, separator=separator, more=more)
        if more > 0
        else listed
    )
