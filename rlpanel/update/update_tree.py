"""Weight of an update as a tree: groups, their samples, and the turns of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.update.token_gradient import PreparedLoss, loss_totals
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


def update_tree(batch: UpdateBatch, loss: PreparedLoss, most: int = 600) -> list[GroupWeight]:
    """Return the groups of an update with their samples and turns, the heaviest first.

    Parameters
    ----------
    batch : UpdateBatch
    loss : PreparedLoss
    most : int
        Most samples that are listed, the heaviest ones.
    """
    owners: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    nets: list[np.ndarray] = []

    def each_block(block: TokenBlock, push: np.ndarray) -> None:
        """Sum the pushes of the stretches that begin with a token in the loss."""
        starts = block.starts[block.counts > 0]
        if not len(starts):
            return
        begins = np.flatnonzero(block.turn_begins)
        if len(begins):
            pushed = np.where(block.mask, push, 0.0)
            owner = np.flatnonzero(block.counts > 0)[np.searchsorted(starts, begins, side="right") - 1]
            owners.append(owner + block.samples.start)
            weights.append(np.add.reduceat(np.abs(pushed), begins))
            nets.append(np.add.reduceat(pushed, begins))

    (totals,) = loss_totals(batch, [loss], each_block)
    total = float(totals.weight.sum())
    if not total:
        return []
    order = np.argsort(-totals.weight, kind="stable")
    listed = order[: min(most, int((totals.weight > 0).sum()))]
    turns = _turns(listed, owners, weights, nets, total)
    of_group = np.bincount(batch.group, totals.weight, batch.groups)
    sizes = np.bincount(batch.group, minlength=batch.groups)
    found: dict[int, list[SampleWeight]] = {}
    for at in listed.tolist():
        share, push = float(totals.weight[at]) / total, float(totals.net[at]) / total
        found.setdefault(int(batch.group[at]), []).append(SampleWeight(at, share, push, turns[at]))
    groups = []
    for at in np.argsort(-of_group, kind="stable").tolist():
        samples, share = found.get(at, []), float(of_group[at]) / total
        rest = max(share - sum(sample.share for sample in samples), 0.0)
        if share:
            groups.append(GroupWeight(at, share, samples, int(sizes[at]) - len(samples), rest))
    return groups


def _turns(
    listed: np.ndarray,
    owners: list[np.ndarray],
    weights: list[np.ndarray],
    nets: list[np.ndarray],
    total: float,
) -> dict[int, list[tuple[float, float]]]:
    found: dict[int, list[tuple[float, float]]] = {at: [] for at in listed.tolist()}
    if owners:
        owner, weight, net = (np.concatenate(each) for each in (owners, weights, nets))
        for at in np.flatnonzero(np.isin(owner, listed)).tolist():
            found[int(owner[at])].append((float(weight[at]) / total, float(net[at]) / total))
    return found
