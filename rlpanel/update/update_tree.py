"""Weight of an update as a tree of groups, samples and turns, and the turns of one sample alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.said import Said
from rlpanel.update.compare_losses import needs_of
from rlpanel.update.read_batch import read_update_batch, rows_by_group
from rlpanel.update.run_algorithm import own_loss
from rlpanel.update.token_gradient import LossTotals, PreparedLoss, loss_totals
from rlpanel.update.update_batch import TokenBlock, UpdateBatch

# -- update tree ---------------------------------------------------------------------------------------
# Weight of an update as a tree: groups, their samples, and the turns of each sample.


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


# -- sample turns --------------------------------------------------------------------------------------
# Shares of a sample's turns in the weight of its gradient, from the samples of its group alone.
#
# The factors by which a loss weighs whole samples cancel in these shares, so that the group is enough where
# advantages are logged or follow from the group. The whole step would be read for nothing.


#: Most samples of a group, and tokens, that are read for one sample.
MAX_SAMPLES, MAX_TOKENS = 128, 2_000_000
#: Advantages for which the group is not enough, unless they are logged.
_OF_STEP = frozenset({"step whitened", "step std", "group mean whitened"})

_GONE = "the sample is not in the log any more"
_UNTRAINED = "the sample did not train the policy"
_LARGE = "its group has more than {most} samples"
_NO_TOKENS = "the sample has no tokens in the log"
_NO_ALGORITHM = "the algorithm is not known; name it as algo in run.json"
_NEEDS = "{name} needs {needs}"
_OF_WHOLE_STEP = "the advantages of {name} need all samples of the step"
_ZERO = "its gradient is zero: advantage 0 or no token in the loss"
#: Templates of the reasons, for translators.
REASONS = (_GONE, _UNTRAINED, _LARGE, _NO_TOKENS, _NO_ALGORITHM, _NEEDS, _OF_WHOLE_STEP, _ZERO)


@dataclass(frozen=True)
class SampleTurns:
    """Shares of a sample's turns.

    Attributes
    ----------
    uid : str
    shares : list of (float, float)
        Share of each turn in the absolute weight of the sample, and the signed share; in order. Turns are
        uninterrupted stretches of tokens in the loss. Empty if they are not known.
    why : str
        Why they are not known; empty if they are.
    algorithm : str
        Name of the loss.
    """

    uid: str
    shares: list[tuple[float, float]] = field(default_factory=list)
    why: str = ""
    algorithm: str = ""


def sample_turns(index: RunIndex, view: RunView, uid: str) -> Iterator[SampleTurns]:
    """Yield the shares of a sample's turns, once.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    uid : str
    """
    snapshot = view.snapshot
    try:
        row = snapshot.row(uid)
    except SampleNotFound:
        yield SampleTurns(uid, why=Said(_GONE))
        return
    rows = snapshot.rows_of(int(snapshot.metadata("step")[row]))
    if row not in rows:
        yield SampleTurns(uid, why=Said(_UNTRAINED))
        return
    rows, group = rows_by_group(view, rows)
    rows = np.sort(rows[group == group[rows == row][0]])
    if len(rows) > MAX_SAMPLES:
        yield SampleTurns(uid, why=Said(_LARGE, most=MAX_SAMPLES))
        return
    for batch in read_update_batch(index, view, rows, MAX_TOKENS):
        if isinstance(batch, int):
            continue
        at = np.flatnonzero(batch.rows == row)
        if not len(at):
            yield SampleTurns(uid, why=Said(_NO_TOKENS))
            return
        own = own_loss(view, batch)
        if own.algorithm is None:
            yield SampleTurns(uid, why=Said(_NO_ALGORITHM))
            return
        name = own.algorithm.name
        if needs := needs_of(batch, own.algorithm):
            yield SampleTurns(uid, why=Said(_NEEDS, name=name, needs=needs), algorithm=name)
            return
        if own.algorithm.advantage in _OF_STEP:
            yield SampleTurns(uid, why=Said(_OF_WHOLE_STEP, name=name), algorithm=name)
            return
        turns = TurnWeights()
        (totals,) = loss_totals(batch, [PreparedLoss(batch, own.algorithm)], turns.add)
        weight = float(totals.weight[at[0]])
        if not weight:
            yield SampleTurns(uid, why=Said(_ZERO), algorithm=name)
            return
        yield SampleTurns(uid, turns.shares(at, weight)[int(at[0])], algorithm=name)
