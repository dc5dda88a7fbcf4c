"""Tokens that a correction masks or cuts, by token, text, reward, turn, position, class and step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlpanel.drift.corrections import Corrected
from rlpanel.drift.gap_levels import dimensions
from rlpanel.drift.gap_tokens import GapTokens

#: Dimensions of `taken_away`, in their order.
TAKEN_FROM = ("token", "text", "reward", "turn", "position in the response", "token class", "step")
#: Most values of one dimension, tokens of a text, and different rewards that are told apart.
_MAX_VALUES, _MAX_TOKENS, _REWARDS = 12, 16, 6


@dataclass(frozen=True)
class Taken:
    """The tokens of one value of a dimension, and what a correction does to them.

    Attributes
    ----------
    dimension, value : str
        A value of ``TAKEN_FROM``, and such as a token, a text of several tokens in a row, or a reward.
    tokens, changed, samples : int
        Number of trained tokens, of those that are changed, and of samples with a changed one.
    part : float
        Share of the tokens that is changed.
    share : float
        Share of these in all changed tokens.
    weight : float
        Mean weight of the tokens.
    """

    dimension: str
    value: str
    tokens: int
    changed: int
    samples: int
    part: float
    share: float
    weight: float


def taken_away(tokens: GapTokens, result: Corrected) -> list[Taken]:
    """Return the values of each dimension from which most tokens are taken, or whose weight is cut.

    Parameters
    ----------
    tokens : GapTokens
        Trained tokens.
    result : Corrected
        What the correction does to them.
    """
    if not result.changed.any():
        return []
    codes = dimensions(tokens)
    if tokens.tokens:
        codes["token"] = tokens.token, tokens.tokens
    rewards = _reward_codes(tokens)
    if rewards is not None:
        codes["reward"] = rewards
    found: list[Taken] = []
    for dimension in TAKEN_FROM:
        if dimension == "text":
            found += _stretches(tokens, result)
        elif dimension in codes:
            found += _levels(dimension, *codes[dimension], tokens, result)
    return found


def _levels(
    dimension: str, codes: np.ndarray, names: list[str], tokens: GapTokens, result: Corrected
) -> Iterator[Taken]:
    """Yield the values with the most changed tokens; ranges keep their order."""
    known = codes >= 0
    size = np.bincount(codes[known], minlength=len(names))
    changed = np.bincount(codes[known & result.changed], minlength=len(names))
    weight = np.bincount(codes[known], result.weight[known], len(names))
    pairs = np.unique(np.stack([codes, tokens.sample])[:, known & result.changed], axis=1)
    samples = np.bincount(pairs[0], minlength=len(names))
    order = np.argsort(-changed, kind="stable")[:_MAX_VALUES]
    if dimension != "token":
        order = np.sort(order)
    for at in order.tolist():
        if size[at] and (changed[at] or dimension != "token"):
            yield Taken(
                dimension=dimension,
                value=names[at],
                tokens=int(size[at]),
                changed=int(changed[at]),
                samples=int(samples[at]),
                part=float(changed[at] / size[at]),
                share=float(changed[at] / result.changed.sum()),
                weight=float(weight[at] / size[at]),
            )


def _reward_codes(tokens: GapTokens) -> tuple[np.ndarray, list[str]] | None:
    """Return codes and names of rewards: each one if they are few, else quarters of the samples."""
    rewards = tokens.rewards[tokens.sample]
    known = np.isfinite(rewards)
    values = np.unique(tokens.rewards[np.isfinite(tokens.rewards)])
    if len(values) < 2:
        return None
    if len(values) <= _REWARDS:
        codes, names = np.searchsorted(values, rewards), [f"{value:g}" for value in values.tolist()]
    else:
        ends = np.unique(np.nanquantile(tokens.rewards, [0.25, 0.5, 0.75]))
        codes = np.searchsorted(ends, rewards, "right")
        edges = [float(values[0]), *ends.tolist(), float(values[-1])]
        names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return np.where(known, codes, -1), names


def _stretches(tokens: GapTokens, result: Corrected) -> Iterator[Taken]:
    """Yield the texts of changed tokens that stand in a row, those with the most tokens first."""
    at = np.flatnonzero(result.changed & (tokens.token >= 0))
    if not len(at):
        return
    same = tokens.sample[at[1:]] == tokens.sample[at[:-1]]
    ends = np.flatnonzero(~(same & (np.diff(tokens.position[at]) == 1))) + 1
    count, inside = Counter[str](), dict[str, list[np.ndarray]]()
    for part in np.split(at, ends):
        if len(part) < 2:
            continue
        text = "".join(tokens.tokens[code] for code in tokens.token[part[:_MAX_TOKENS]].tolist())
        text += "…" if len(part) > _MAX_TOKENS else ""
        count[text] += len(part)
        inside.setdefault(text, []).append(part)
    for text, changed in count.most_common(_MAX_VALUES):
        whole = np.concatenate(inside[text])
        yield Taken(
            dimension="text",
            value=text,
            tokens=changed,
            changed=changed,
            samples=len(np.unique(tokens.sample[whole])),
            part=1.0,
            share=float(changed / result.changed.sum()),
            weight=float(result.weight[whole].mean()),
        )
