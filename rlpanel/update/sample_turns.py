"""Shares of a sample's turns in the weight of its gradient, from the samples of its group alone.

The factors by which a loss weighs whole samples cancel in these shares, so that the group is enough where
advantages are logged or follow from the group. The whole step would be read for nothing.
"""

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
from rlpanel.update.token_gradient import PreparedLoss, loss_totals
from rlpanel.update.update_tree import TurnWeights

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
