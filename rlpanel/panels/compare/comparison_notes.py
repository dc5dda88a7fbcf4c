"""Sentences that say which number and which prompts a comparison of two runs is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlpanel.store.snapshot.compared_reward import ComparedReward
from rlpanel.store.snapshot.prompt_pairs import BEST, PromptPairs

#: Maximum number of reward functions that a sentence names.
_MOST_NAMED = 6

_SHARED = (
    "The rewards of the two runs are different sums. So the functions that both runs log are summed instead, "
    "also in the chart, the list and the export. As in TRL, a function without a score is left out of its "
    "sample's sum."
)
_DOUBTFUL = "A difference may come from the reward functions alone and say nothing about the policies."
_HALVES = (
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
        Choice of the samples of either run (see `rlpanel.store.snapshot.prompt_pairs.NEWEST`).
    labels : tuple of str
        Names of the two runs.
    """
    notes = []
    if reward.functions:
        notes.append(ComparisonNote(_shared_text(reward, labels), _SHARED))
    elif reward.doubtful:
        notes.append(ComparisonNote(_doubtful_text(reward, labels), _DOUBTFUL, warns=True))
    if BEST in at and len(pairs):
        notes.append(ComparisonNote(_best_text(pairs, at, labels), _HALVES, not pairs.held_out.any()))
    return notes


def _shared_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    count = len(reward.functions)
    noun = "function" if count == 1 else "functions"
    text = f"Compared on {count:,} shared reward {noun}: {_sum_text(reward)}."
    left_out = [
        f"{_names(names)} (only in {label})"
        for names, label in zip((reward.only_here, reward.only_there), labels, strict=True)
        if names
    ]
    return f"{text} Left out: {', '.join(left_out)}." if left_out else text


def _sum_text(reward: ComparedReward) -> str:
    """Return the sum as text, with its weights or the reason why it has none."""
    if reward.weighting == "same":
        pairs = zip(reward.weights, reward.functions, strict=True)
        return f"{_names([f'{weight:g} × {name}' for weight, name in pairs], ' + ')}, with the runs' weights"
    reason = {
        "different": "unweighted, since the runs give them different weights",
        "unknown": "unweighted, since run.json does not give their weights in both runs",
    }[reward.weighting]
    return f"{_names(reward.functions, ' + ')}, {reason}"


def _doubtful_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    start = "The rewards of the two runs may be different numbers:"
    here, there = labels
    if reward.only_here and reward.only_there:
        return (
            f"{start} they have no reward function in common. {here} logs {_names(reward.only_here)}, "
            f"{there} logs {_names(reward.only_there)}."
        )
    names, with_functions, without = (
        (reward.only_here, here, there) if reward.only_here else (reward.only_there, there, here)
    )
    return (
        f"{start} {with_functions} logs its reward functions ({_names(names)}), {without} only their total."
    )


def _best_text(pairs: PromptPairs, at: tuple[str, str], labels: tuple[str, str]) -> str:
    """Return which steps were chosen on how many prompts, and how many other prompts are compared."""
    counts, sides = (pairs.chose_here, pairs.chose_there), (pairs.here, pairs.there)
    steps = [f"{label} ({side.step[0]:,})" for label, side in zip(labels, sides, strict=True)]
    if at == (BEST, BEST) and counts[0] == counts[1]:
        chosen = f"Best steps of {' and '.join(steps)} chosen on {_prompts(counts[0])}"
    else:
        chosen = " and ".join(
            f"best step of {step} chosen on {_prompts(count)}"
            for step, count, choice in zip(steps, counts, at, strict=True)
            if choice == BEST
        )
    chosen = chosen[0].upper() + chosen[1:]
    others = int(pairs.held_out.sum())
    if not others:
        return f"{chosen}; no other prompt is in both runs, so there is no win rate."
    return f"{chosen}; compared on the other {others:,}."


def _prompts(count: int) -> str:
    return f"{count:,} prompt" if count == 1 else f"{count:,} prompts"


def _names(names: Sequence[str], separator: str = ", ") -> str:
    listed = separator.join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{listed}{separator}{more:,} more" if more > 0 else listed
