"""Weight of an update as a tree: groups, their samples, and the turns of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.update.token_gradient import LossTotals
from rlpanel.update.update_batch import TokenBlock, UpdateBatch


@dataclass(frozen=True)
class SampleWeight:
    """Weight of a sample.

    Attributes
    ----------
    at : int
        Index of the sample in the batch.
    share, push : float
        Share of its tokens in the sum of all absolute pushes, and the signed share.
    turns : list of (float, float)
        The same of its turns in their order; a turn is an uninterrupted stretch of tokens in the loss.
    """

    at: int
    share: float
    push: float
    turns: list[tuple[float, float]]


@dataclass(frozen=True)
class GroupWeight:
    """Weight of a group.

    Attributes
    ----------
    at : int
        Index of the group in the batch.
    share : float
    samples : list of SampleWeight
        The heaviest first.
    others : int
        Further samples, which are not listed: those without weight, and the lightest ones of a large batch.
    others_share : float
        Share of these.
    """

    at: int
    share: float
    samples: list[SampleWeight]
    others: int
    others_share: float


class TurnWeights:
    """Sums of the pushes of each turn, collected block by block while a loss is computed."""

    def __init__(self) -> None:
        self._owners: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._nets: list[np.ndarray] = []

    def add(self, block: TokenBlock, push: np.ndarray) -> None:
        """Add the turns of a block, whose tokens are pushed like this."""
        begins = np.flatnonzero(block.turn_begins)
        if len(begins):
            has_tokens = np.flatnonzero(block.counts > 0)
            pushed = np.where(block.mask, push, 0.0)
            at = np.searchsorted(block.starts[has_tokens], begins, side="right") - 1
            self._owners.append(has_tokens[at] + block.samples.start)
            self._weights.append(np.add.reduceat(np.abs(pushed), begins))
            self._nets.append(np.add.reduceat(pushed, begins))

    def shares(self, samples: np.ndarray, total: float) -> dict[int, list[tuple[float, float]]]:
        """Return share and push of the turns of some samples, in order."""
        found: dict[int, list[tuple[float, float]]] = {at: [] for at in samples.tolist()}
        if self._owners:
            owner, weight, net = map(np.concatenate, (self._owners, self._weights, self._nets))
            for at in np.flatnonzero(np.isin(owner, samples)).tolist():
                found[int(owner[at])].append((float(weight[at]) / total, float(net[at]) / total))
        return found


def update_tree(
    batch: UpdateBatch, totals: LossTotals, turns: TurnWeights, most: int = 600
) -> list[GroupWeight]:
    """Return the groups of an update with their samples and turns, the heaviest first.

    Parameters
    ----------
    batch : UpdateBatch
    totals : LossTotals
    turns : TurnWeights
        Of the same loss.
    most : int
        Most samples that are listed, the heaviest ones.
    """
    total = float(totals.weight.sum())
    if not total:
        return []
    order = np.argsort(-totals.weight, kind="stable")
    listed = order[: min(most, int((totals.weight > 0).sum()))]
    shares = turns.shares(listed, total)
    of_group = np.bincount(batch.group, totals.weight, batch.groups)
    sizes = np.bincount(batch.group, minlength=batch.groups)
    found: dict[int, list[SampleWeight]] = {}
    for at in listed.tolist():
        share, push = float(totals.weight[at]) / total, float(totals.net[at]) / total
        found.setdefault(int(batch.group[at]), []).append(SampleWeight(at, share, push, shares[at]))
    groups = []
    for at in np.argsort(-of_group, kind="stable").tolist():
        samples, share = found.get(at, []), float(of_group[at]) / total
        rest = max(share - sum(sample.share for sample in samples), 0.0)
        if share:
            groups.append(GroupWeight(at, share, samples, int(sizes[at]) - len(samples), rest))
    return groups
