"""Anatomy of an update: its tokens' weight by turn, token, phrase, position, sample, group, label, length.

A *share* is the sum of the absolute pushes of some tokens, divided by that of all tokens; a *push* is the sum
of the signed ones, divided by the same.

Weight is *cancelled* where tokens of the same text in samples of the same group are pushed up by some and
down by others: of each pair of group and text, twice the smaller of both sums. The gradients of a text in
other contexts differ, so this is an estimate of what they cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from rlpanel.texts.display_text import is_special
from rlpanel.update.loss_algorithms import UpdateAlgorithm
from rlpanel.update.phrase_weights import phrase_weights
from rlpanel.update.token_gradient import LossTotals, PreparedLoss, loss_totals
from rlpanel.update.update_batch import TokenBlock, UpdateBatch, group_moments

#: First positions of the ranges of positions and lengths.
_EDGES = np.array([0, 16, 64, 256, 1024, 4096, 16384, 65536, 262144])
#: Turns that have a row of their own; later ones share the last row.
_MAX_TURNS = 64
#: Most phrases if there is no other limit.
_MAX_PHRASES = 50
#: Marks of spaces in tokens of usual tokenizers.
_SPACES = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t", "č": "\r"})


@dataclass(frozen=True)
class WeightRow:
    """Weight of some tokens in an update.

    Attributes
    ----------
    dimension, value : str
        Such as ``turn`` and ``2``.
    share : float
        Share of these tokens in the weight of all.
    push : float
        Signed: above 0, these tokens are made likelier on the whole. Its absolute value is at most the share.
    tokens, samples : int or None
        Tokens in the loss, and samples with such a token.
    change : float
        Mean of log π_new − log π_old over these tokens in nats; NaN if it is not logged.
    at : int
        Index of the sample, group or token; -1 for others.
    """

    dimension: str
    value: str
    share: float
    push: float
    tokens: int | None
    samples: int | None
    change: float = float("nan")
    at: int = -1


@dataclass(frozen=True)
class UpdateAnatomy:
    """Weight of the tokens of an update.

    Attributes
    ----------
    algorithm : UpdateAlgorithm
    totals : LossTotals
    advantage : ndarray of float, shape (N,)
        Advantage of each sample; NaN where it is not defined.
    rows : list of WeightRow
        By dimension, the largest share first; turns, positions and lengths in their order.
    half : ndarray of int
        Samples that carry half of the weight, the heaviest first.
    clipped, masked, flat : float
        Share of the tokens in the loss that are clipped, of all tokens that are not in the loss, and of the
        samples in groups of equal rewards; NaN if it is not defined.
    cancelled : float
        Share of the weight that is cancelled; NaN without tokens.
    alone, without_advantage : int
        Samples that are alone in their group, and samples without an advantage.
    phrase_samples : int
        Samples that were searched for phrases: the heaviest ones.
    """

    algorithm: UpdateAlgorithm
    totals: LossTotals
    advantage: np.ndarray
    rows: list[WeightRow]
    half: np.ndarray
    clipped: float
    masked: float
    flat: float
    cancelled: float
    alone: int
    without_advantage: int
    phrase_samples: int = 0


@dataclass
class _Tally:
    """Sums by a code."""

    size: int
    weight: np.ndarray = field(init=False)
    net: np.ndarray = field(init=False)
    tokens: np.ndarray = field(init=False)
    samples: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.weight, self.net, self.tokens, self.samples = (np.zeros(self.size) for _ in range(4))

    def add(self, code: np.ndarray, weight: np.ndarray, net: np.ndarray, tokens: np.ndarray) -> None:
        """Add sums of stretches."""
        self.weight += np.bincount(code, weight, self.size)
        self.net += np.bincount(code, net, self.size)
        self.tokens += np.bincount(code, tokens, self.size)

    def rows(self, dimension: str, names: list[str], total: float) -> list[WeightRow]:
        """Return a row of each code with tokens in the loss, in order."""
        return [
            WeightRow(
                dimension,
                names[at],
                float(self.weight[at]) / total,
                float(self.net[at]) / total,
                int(self.tokens[at]),
                int(self.samples[at]),
            )
            for at in np.flatnonzero(self.tokens).tolist()
        ]


def range_names() -> list[str]:
    """Return the texts of the ranges of positions and lengths, such as ``16–63``."""
    ends = [f"–{end - 1}" for end in _EDGES[1:].tolist()]
    return [f"{begin}{end}" for begin, end in zip(_EDGES.tolist(), [*ends, " or more"], strict=True)]


def length_ranges(batch: UpdateBatch) -> np.ndarray:
    """Return the range of each sample's length in tokens, an index into `range_names`; shape (N,)."""
    return np.searchsorted(_EDGES, batch.counts, side="right") - 1


def anatomy(
    batch: UpdateBatch,
    loss: PreparedLoss,
    limit: int | None = 12,
    also: Callable[[TokenBlock, np.ndarray], None] | None = None,
) -> UpdateAnatomy:
    """Return the weight of the tokens of an update by all dimensions.

    Parameters
    ----------
    batch : UpdateBatch
    loss : PreparedLoss
    limit : int, optional
        Most rows of a dimension without an order, such as samples.
    also : callable, optional
        Is called with each block and the pushes of its tokens, too.
    """
    pushes = np.zeros(batch.size, np.float64 if batch.new is None else batch.new.dtype)
    turns, positions = _Tally(_MAX_TURNS), _Tally(len(_EDGES))

    def each_block(block: TokenBlock, push: np.ndarray) -> None:
        pushes[block.tokens] = push
        _add_stretches(block, push, turns, positions)
        if also is not None:
            also(block, push)

    (totals,) = loss_totals(batch, [loss], each_block)
    total = float(totals.weight.sum()) or 1.0
    turn_names = [str(turn) for turn in range(_MAX_TURNS - 1)] + [f"{_MAX_TURNS - 1} or later"]
    rows = turns.rows("turn", turn_names, total) + positions.rows("position", range_names(), total)
    rows += _of_samples(batch, totals, total, limit)
    of_tokens, cancelled = _of_tokens(batch, pushes, total, limit)
    phrases, searched = _of_phrases(batch, pushes, totals, total, limit)
    order = np.argsort(-totals.weight, kind="stable")
    trained = float(batch.trained.sum())
    moments = group_moments(batch, batch.reward)
    has_reward = np.isfinite(batch.reward)
    flat = (moments.is_flat & (moments.count >= 2))[batch.group]
    advantage = np.where(loss.kept, loss.advantages.sample, np.nan)
    return UpdateAnatomy(
        algorithm=loss.algorithm,
        totals=totals,
        advantage=advantage,
        rows=rows + of_tokens + phrases,
        phrase_samples=searched,
        half=order[: totals.half],
        clipped=totals.clipped / trained if trained else float("nan"),
        masked=1 - trained / batch.size if batch.size else float("nan"),
        flat=float(flat[has_reward].mean()) if has_reward.any() else float("nan"),
        cancelled=cancelled,
        alone=int((np.bincount(batch.group, batch.outcome, batch.groups) < 2)[batch.group].sum()),
        without_advantage=int((~np.isfinite(loss.advantages.sample)).sum()),
    )


def _add_stretches(block: TokenBlock, push: np.ndarray, turns: _Tally, positions: _Tally) -> None:
    """Add the sums of a block by turn and by range of positions: both are stretches of tokens."""
    starts = block.starts[block.counts > 0]
    if not len(starts):
        return
    begins = block.turn_begins
    counts = block.counts[block.counts > 0]
    edges = starts[:, None] + _EDGES[None, :]
    edges = edges[edges < (starts + counts)[:, None]]
    is_bound = begins.copy()
    is_bound[edges] = True
    bounds = np.flatnonzero(is_bound)
    owner = np.searchsorted(starts, bounds, side="right") - 1
    # Every start of a sample and every begin of a turn is a bound.
    number = np.cumsum(begins[bounds])
    at = np.searchsorted(bounds, starts)
    first = number[at] - begins[starts]
    turn = np.clip(number - first[owner] - 1, 0, _MAX_TURNS - 1)
    position = np.searchsorted(_EDGES, bounds - starts[owner], side="right") - 1
    weight, net = np.add.reduceat(np.abs(push), bounds), np.add.reduceat(push, bounds)
    tokens = np.add.reduceat(block.weight, bounds)
    for tally, code in ((turns, turn), (positions, position)):
        tally.add(code, weight, net, tokens)
        has = np.zeros((len(starts), tally.size), bool)
        has[owner[tokens > 0], code[tokens > 0]] = True
        tally.samples += has.sum(axis=0)


def _of_samples(batch: UpdateBatch, totals: LossTotals, total: float, limit: int | None) -> list[WeightRow]:
    """Return the rows of dimensions whose values hold for whole samples."""
    size = len(batch)
    rows = _coded(batch, totals, total, "sample", np.arange(size), [str(at) for at in range(size)], limit)
    names = [str(at) for at in range(batch.groups)]
    rows += _coded(batch, totals, total, "group", batch.group, names, limit)
    count = int(batch.prompts.max()) + 1 if size else 0
    rows += _coded(batch, totals, total, "prompt", batch.prompts, [str(at) for at in range(count)], limit)
    for label, values in batch.labels.items():
        texts = sorted({value for value in values if value is not None})
        codes = {text: at for at, text in enumerate(texts)}
        at = np.array([codes.get(value, len(texts)) if value is not None else len(texts) for value in values])
        rows += _coded(batch, totals, total, label, at, [*texts, ""], limit)
    names = range_names()
    found = _coded(batch, totals, total, "length", length_ranges(batch), names, None)
    rows += sorted(found, key=lambda row: names.index(row.value))
    return rows + _of_parts(batch, totals, total)


def _coded(
    batch: UpdateBatch,
    totals: LossTotals,
    total: float,
    dimension: str,
    code: np.ndarray,
    names: list[str],
    limit: int | None,
) -> list[WeightRow]:
    weight = np.bincount(code, totals.weight, len(names))
    net = np.bincount(code, totals.net, len(names))
    tokens = np.bincount(code, batch.trained, len(names))
    samples = np.bincount(code, minlength=len(names))
    order = np.argsort(-weight, kind="stable")
    order = order[samples[order] > 0][:limit]
    return [
        WeightRow(
            dimension, names[at], float(weight[at]) / total, float(net[at]) / total,
            int(tokens[at]), int(samples[at]), at=at,
        )
        for at in order.tolist()
    ]  # fmt: skip


def _of_parts(batch: UpdateBatch, totals: LossTotals, total: float) -> list[WeightRow]:
    """Return the weight of each part of the reward: of each sample, in proportion to its distance.

    The distance is that of the part from its mean in the group, times its weight in the reward (1 if the run
    logs none), divided by the sum of those of all parts. It is an estimate for losses whose advantage is not
    linear in the reward.
    """
    if not batch.parts:
        return []
    distance = np.stack(
        [
            batch.part_weights.get(name, 1.0) * np.nan_to_num(group_moments(batch, each).deviation)
            for name, each in batch.parts.items()
        ]
    )
    size = np.abs(distance).sum(axis=0)
    share = np.abs(distance) * np.where(size > 0, totals.weight / np.where(size > 0, size, 1), 0.0)
    sign = np.sign(distance)
    rows = [
        WeightRow(
            "reward part", name, float(share[at].sum()) / total, float((share[at] * sign[at]).sum()) / total,
            int(batch.trained[distance[at] != 0].sum()), int((distance[at] != 0).sum()),
        )
        for at, name in enumerate(batch.parts)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.share)


def _of_tokens(
    batch: UpdateBatch, pushes: np.ndarray, total: float, limit: int | None
) -> tuple[list[WeightRow], float]:
    """Return the rows of token texts and of their classes, and the share that is cancelled."""
    if batch.token is None:
        return [], float("nan")
    size = len(batch.tokens) + 1
    weight, net, tokens, change, left = _sums_by_text(batch, pushes, size)
    order = 1 + np.argsort(-weight[1:], kind="stable")
    order = order[tokens[order] > 0][:limit]
    samples = _samples_with(batch, order)
    rows = [
        WeightRow(
            "token", batch.tokens[at - 1], float(weight[at]) / total, float(net[at]) / total,
            int(tokens[at]), int(samples[place]),
            float(change[at] / tokens[at]) if batch.has_ratio else float("nan"), at - 1,
        )
        for place, at in enumerate(order.tolist())
    ]  # fmt: skip
    names = [token_class(text) for text in batch.tokens]
    known = sorted(set(names))
    places = {name: at for at, name in enumerate(known)}
    codes = np.array([places[name] for name in names], np.int64)
    sums = [np.bincount(codes, values[1:], len(known)) for values in (weight, net, tokens, change)]
    for at in np.argsort(-sums[0], kind="stable").tolist():
        if sums[2][at]:
            mean = float(sums[3][at] / sums[2][at]) if batch.has_ratio else float("nan")
            values = (float(sums[0][at]) / total, float(sums[1][at]) / total, int(sums[2][at]))
            rows.append(WeightRow("token class", known[at], *values, None, mean))
    all_weight = float(weight.sum())
    # Tokens without a text cannot be matched.
    left += float(weight[0])
    return rows, max(1 - left / all_weight, 0.0) if all_weight else float("nan")


def _of_phrases(
    batch: UpdateBatch, pushes: np.ndarray, totals: LossTotals, total: float, limit: int | None
) -> tuple[list[WeightRow], int]:
    """Return the rows of phrases, and the number of samples that were searched."""
    found, searched = phrase_weights(batch, pushes, totals.weight, limit or _MAX_PHRASES)
    rows = [
        WeightRow(
            "phrase", each.text, each.weight / total, each.net / total, each.tokens, each.samples, each.change
        )
        for each in found
    ]
    return rows, searched


def _sums_by_text(
    batch: UpdateBatch, pushes: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Return sums by code, and what is not cancelled; a code is the token plus 1, 0 for one without a text.

    The sums are of absolute pushes, of pushes, of tokens in the loss and of their logprobs' changes. What is
    not cancelled is the sum over groups and known codes of the absolute value of each one's pushes.
    """
    assert batch.token is not None
    ends = np.concatenate([np.flatnonzero(np.diff(batch.group)) + 1, [len(batch)]])
    up, down, change = (np.zeros(size) for _ in range(3))
    tokens, left, first = np.zeros(size, np.int64), 0.0, 0
    for end in ends.tolist():
        part = slice(int(batch.starts[first]), int(batch.starts[end]))
        first = end
        # Tokens outside of the loss have no push: as tokens without a text, they count nowhere.
        at, count, push = np.add(batch.token[part], 1, dtype=np.intp), size, pushes[part]
        at *= batch.mask[part]
        present: np.ndarray | slice = slice(None)
        known: np.ndarray | slice = slice(1, None)
        if len(at) < size // 8:
            codes, at = np.unique(at, return_inverse=True)
            count, present, known = len(codes), codes, codes > 0
        tokens[present] += np.bincount(at, minlength=count)
        if batch.new is not None and batch.old is not None:
            moved = batch.new[part] - batch.old[part]
            if not np.isfinite(moved[batch.mask[part]]).all():
                moved[~np.isfinite(moved)] = 0
            change[present] += np.bincount(at, moved, count)
        if not push.any():
            continue
        # Pushes up in the first half of the sums, and down in the second one.
        np.add(at, count, out=at, where=push < 0)
        sums = np.bincount(at, push, 2 * count)
        raised, lowered = sums[:count], sums[count:]
        up[present] += raised
        down[present] += lowered
        raised += lowered
        left += float(np.abs(raised[known]).sum())
    return up - down, up + down, tokens, change, left


def _samples_with(batch: UpdateBatch, codes: np.ndarray) -> np.ndarray:
    """Return the number of samples with a token in the loss of each code, which is the token plus 1."""
    assert batch.token is not None
    # A token without a text, -1, takes the last place.
    place, is_wanted = np.zeros(len(batch.tokens) + 1, np.intp), np.zeros(len(batch.tokens) + 1, bool)
    place[codes - 1], is_wanted[codes - 1] = np.arange(len(codes)), True
    found = np.zeros(len(codes), np.int64)
    for block in batch.blocks():
        token = batch.token[block.tokens]
        wanted = np.flatnonzero(is_wanted[token] & block.mask)
        if len(wanted):
            owner = np.searchsorted(block.starts, wanted, side="right") - 1
            pairs = np.zeros((len(block.counts), len(codes)), bool)
            pairs[owner, place[token[wanted]]] = True
            found += pairs.sum(axis=0)
    return found


@lru_cache(1 << 18)
def token_class(token: str) -> str:
    """Return the class of a token: special, space, digits, punctuation or word."""
    if is_special(token):
        return "special"
    text = token.translate(_SPACES).strip()
    if text.isalnum():
        return "digits" if text.isdigit() else "word"
    if not text:
        return "space"
    return "word" if any(map(str.isalnum, text)) else "punctuation"
