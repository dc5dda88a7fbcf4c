"""Tokens and advantages of a block as all losses of a comparison see them, computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from rlpanel.drift.corrections import Correction, bounded
from rlpanel.update.loss_algorithms import UpdateAlgorithm
from rlpanel.update.update_batch import GroupMoments, TokenBlock, UpdateBatch, group_moments

# -- shared tokens -------------------------------------------------------------------------------------
# Tokens of a block as all losses of a comparison see them, so that most sums are computed once.
#
# Without a KL term, and with one advantage a sample, a token's push is a product: a scale of the sample,
# times the ratio, times the ratio to the engine if the loss corrects for it. Bounds of a loss change only the
# tokens outside of them. So the tokens inside the bounds of every loss are summed once, and the few others by
# loss.


class ProductLoss(Protocol):
    """A loss whose pushes are products.

    Attributes
    ----------
    scale : ndarray of float, shape (N,)
        Signed factor of each sample.
    low, high : ndarray of float, shape (N,), or None
        Bounds of the token's ratio by sample; None if the ratio of tokens does not count.
    is_capped : bool
        Whether a ratio outside is set to its bound; else its gradient is 0.
    rule : (Correction, float, float) or None
        Correction by the tokens' ratio to the engine, with its bounds.
    key : tuple
        Losses with the same key have the same values but for the scale.
    """

    scale: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    is_capped: bool
    rule: tuple[Correction, float, float] | None
    key: tuple[Hashable, ...]


@dataclass(frozen=True)
class CommonBounds:
    """Ratios that no loss of a comparison changes: of the update, and to the engine; None if unused."""

    ratio: tuple[float, float] | None
    engine: tuple[float, float] | None

    @classmethod
    def of(cls, losses: Iterable[ProductLoss]) -> CommonBounds:
        """Return the bounds that lie inside those of all losses."""
        losses = list(losses)
        ratios = [
            (float(loss.low.max(initial=-np.inf)), float(loss.high.min(initial=np.inf)))
            for loss in losses
            if loss.low is not None and loss.high is not None
        ]
        return cls(_innermost(ratios), _innermost([loss.rule[1:] for loss in losses if loss.rule]))


def _innermost(bounds: list[tuple[float, float]]) -> tuple[float, float] | None:
    return (max(low for low, _ in bounds), min(high for _, high in bounds)) if bounds else None


class SharedTokens:
    """Values and sums of a block's tokens.

    Parameters
    ----------
    block : TokenBlock
    common : CommonBounds
        Of all losses that are asked for.
    """

    def __init__(self, block: TokenBlock, common: CommonBounds) -> None:
        #: Pushes of the first loss, shape (T,), with which `products` are those of the others.
        self.first = np.empty(0)
        self._block, self._common = block, common
        self._base: dict[tuple[bool, bool], np.ndarray] = {}
        self._sums: dict[Hashable, np.ndarray] = {}
        self._values: dict[Hashable, tuple[np.ndarray, int]] = {}

    def push(self, loss: ProductLoss) -> np.ndarray:
        """Return the push of each token, shape (T,), 0 outside of the loss."""
        found = self._tokens(loss).copy()
        if _has_bounds(loss):
            found[self._outside] = self._values_of(loss)[0]
        found *= self._block.each(loss.scale)
        return found

    def clipped(self, loss: ProductLoss) -> int:
        """Return the number of tokens in the loss whose ratio is outside its bounds."""
        return self._values_of(loss)[1] if _has_bounds(loss) else 0

    def totals(self, loss: ProductLoss) -> np.ndarray:
        """Return the sum of the pushes of each sample, shape (n,)."""
        return self._summed(loss, "total") * loss.scale[self._block.samples]

    def squares(self, loss: ProductLoss) -> float:
        """Return the sum of the squared pushes."""
        scale = np.square(loss.scale[self._block.samples], dtype=np.float64)
        return float((self._summed(loss, "square") * scale).sum())

    def products(self, loss: ProductLoss) -> float:
        """Return the sum of the products with the pushes of the first loss."""
        return float((self._summed(loss, "product") * loss.scale[self._block.samples]).sum())

    @cached_property
    def _outside(self) -> np.ndarray:
        """Tokens in the loss that are outside the bounds of some loss, ascending."""
        found = np.zeros(len(self._block), bool)
        if self._common.ratio is not None:
            low, high = self._common.ratio
            found |= self._block.ratio > high
            found |= self._block.ratio < low
        if self._common.engine is not None:
            low, high = self._common.engine
            found |= self._block.engine_ratio > high
            found |= self._block.engine_ratio < low
        found &= self._block.mask
        return np.flatnonzero(found)

    @cached_property
    def _counts(self) -> np.ndarray:
        """Number of the tokens of `_outside` of each sample, shape (n,)."""
        bounds = np.append(self._block.starts, len(self._block))
        return np.diff(np.searchsorted(self._outside, bounds))

    def _totals_outside(self, values: np.ndarray) -> np.ndarray:
        """Return sums over each sample's tokens of `_outside`, shape (n,)."""
        found = np.zeros(len(self._counts))
        if len(values):
            has = self._counts > 0
            found[has] = np.add.reduceat(values, (np.cumsum(self._counts) - self._counts)[has])
        return found

    @cached_property
    def _ratio(self) -> np.ndarray:
        return self._block.ratio[self._outside]

    @cached_property
    def _engine_gap(self) -> np.ndarray:
        return self._block.engine_gap[self._outside]

    def _tokens(self, loss: ProductLoss) -> np.ndarray:
        """Return the ratios of the tokens in the loss as far as the loss has them, 0 at `_outside`."""
        kind = loss.low is not None, loss.rule is not None
        if kind not in self._base:
            found = self._block.weight
            if kind[0]:
                found = found * self._block.ratio
            if kind[1]:
                found = found * self._block.engine_ratio
            if any(kind):
                found[self._outside] = 0
            self._base[kind] = found
        return self._base[kind]

    def _values_of(self, loss: ProductLoss) -> tuple[np.ndarray, int]:
        """Return the values of the tokens of `_outside`, and how many the clipping takes or caps."""
        if loss.key in self._values:
            return self._values[loss.key]
        found, clipped = np.ones(len(self._outside), self._block.weight.dtype), 0
        if loss.low is not None and loss.high is not None:
            low = np.repeat(loss.low[self._block.samples], self._counts)
            high = np.repeat(loss.high[self._block.samples], self._counts)
            is_changed = (self._ratio < low) | (self._ratio > high)
            clipped = int(np.count_nonzero(is_changed))
            inside = np.minimum(np.maximum(self._ratio, low), high) if loss.is_capped else self._ratio
            found = inside if loss.is_capped else np.where(is_changed, 0, inside)
        if loss.rule is not None:
            found = found * bounded(loss.rule[0], self._engine_gap, *loss.rule[1:]).weight
        self._values[loss.key] = found, clipped
        return found, clipped

    def _summed(self, loss: ProductLoss, kind: str) -> np.ndarray:
        """Return sums over each sample's tokens without its scale, shape (n,)."""
        if (kind, loss.key) not in self._sums:
            name = kind, loss.low is not None, loss.rule is not None
            if name not in self._sums:
                tokens = self._tokens(loss)
                other = {"square": tokens, "product": self.first}.get(kind)
                self._sums[name] = self._block.totals(tokens if other is None else tokens * other)
            found = self._sums[name]
            if _has_bounds(loss):
                values = self._values_of(loss)[0]
                if kind == "square":
                    values = values * values
                elif kind == "product":
                    values = values * self._first_outside
                found = found + self._totals_outside(values)
            self._sums[kind, loss.key] = found
        return self._sums[kind, loss.key]

    @cached_property
    def _first_outside(self) -> np.ndarray:
        return self.first[self._outside]


def _has_bounds(loss: ProductLoss) -> bool:
    return loss.low is not None or loss.rule is not None


# -- update advantages ---------------------------------------------------------------------------------
# Advantages of a batch by the formulas of the losses, of samples or of tokens.
#
# Samples without a finite reward, and samples whose group has fewer than two, have none: NaN. verl gives a
# sample that is alone in its group its reward as the advantage.


#: Added to a variance, as in verl's ``masked_whiten``.
_WHITEN_EPSILON = 1e-8


@dataclass(frozen=True)
class Advantages:
    """Advantages of a batch.

    Attributes
    ----------
    sample : ndarray of float, shape (N,)
        Advantage of each sample; of advantages by token, their mean over the tokens in the loss. NaN where
        it is not defined.
    token : ndarray of float, shape (T,), or None
        Advantages of the tokens, if they differ within samples.
    """

    sample: np.ndarray
    token: np.ndarray | None = None


def advantages_of(batch: UpdateBatch, algorithm: UpdateAlgorithm) -> Advantages:
    """Return the advantages that a loss gives to a batch.

    Parameters
    ----------
    batch : UpdateBatch
    algorithm : UpdateAlgorithm
        With ``kl`` in the reward, β times the sum of log π − log π_ref is taken from the reward.
    """
    if algorithm.advantage == "logged":
        return logged_advantages(batch)
    in_reward = algorithm.beta > 0 and algorithm.kl == "reward" and batch.reference is not None
    if algorithm.advantage == "step whitened":
        if in_reward:
            return _whitened_tokens(batch, algorithm.beta)
        return Advantages(_whitened(batch, np.where(np.isfinite(batch.reward), batch.reward, np.nan)))
    reward = batch.reward - algorithm.beta * batch.reference_gap_sums if in_reward else batch.reward
    moments = group_moments(batch, reward)
    found = np.where((moments.count >= 2)[batch.group], moments.deviation, np.nan)
    if algorithm.advantage == "group std":
        found = found / (_std(moments)[batch.group] + algorithm.std_epsilon)
    elif algorithm.advantage == "step std":
        counted = reward[np.isfinite(reward) & batch.outcome]
        found = found / ((np.std(counted, ddof=1) if len(counted) > 1 else np.nan) + algorithm.std_epsilon)
    elif algorithm.advantage == "leave one out":
        count = moments.count[batch.group]
        found = found * count / np.maximum(count - 1, 1)
    elif algorithm.advantage == "group mean whitened":
        found = _whitened(batch, found)
    return Advantages(found)


def logged_advantages(batch: UpdateBatch) -> Advantages:
    """Return the advantages that the trainer logged: of tokens, else of samples."""
    if batch.advantages is None:
        return Advantages(np.where(np.isfinite(batch.advantage), batch.advantage, np.nan))
    count, total, several = [], [], False
    for block in batch.blocks():
        values = batch.advantages[block.tokens]
        known = np.isfinite(values)
        count.append(block.sums(known.astype(np.float32)))
        total.append(block.sums(np.where(known, values, 0.0)))
    counts = np.concatenate(count) if count else np.empty(0)
    mean = np.where(counts > 0, np.concatenate(total) if total else np.empty(0), np.nan)
    mean = mean / np.maximum(counts, 1)
    for block in batch.blocks():
        values = batch.advantages[block.tokens]
        apart = np.abs(values - block.each(mean)) > 1e-5 * np.abs(block.each(mean)) + 1e-9
        several = several or bool((apart & block.mask).any())
    return Advantages(np.where(counts > 0, mean, batch.advantage), batch.advantages if several else None)


def _std(moments: GroupMoments) -> np.ndarray:
    """Return the standard deviation of each group, n − 1; shape (G,)."""
    return np.sqrt(moments.square / np.maximum(moments.count - 1, 1))


def _whitened(batch: UpdateBatch, value: np.ndarray) -> np.ndarray:
    """Return a value of samples minus its mean, divided by its deviation, over all tokens in the loss."""
    weight = np.where(np.isfinite(value), batch.trained, 0.0)
    value = np.where(np.isfinite(value), value, 0.0)
    count = weight.sum()
    mean = (weight * value).sum() / max(count, 1)
    variance = (weight * (value - mean) ** 2).sum() / max(count - 1, 1)
    return np.where(weight > 0, (value - mean) / np.sqrt(variance + _WHITEN_EPSILON), np.nan)


def _whitened_tokens(batch: UpdateBatch, beta: float) -> Advantages:
    """Return whitened rewards to go, with −β (log π − log π_ref) as the reward of each token."""
    found = np.zeros(batch.size, np.float32 if batch.size > 1 << 20 else np.float64)
    reward = np.where(np.isfinite(batch.reward), batch.reward, 0.0)
    known = np.isfinite(batch.reward)
    count = total = 0.0
    for block in batch.blocks():
        gap = np.where(block.mask, block.difference(batch.before, batch.reference), 0.0).astype(np.float64)
        run = np.cumsum(gap)
        # To go: the sum of the sample, less what came before the token.
        before = np.concatenate([[0.0], run])[block.each(batch.starts[:-1]) - block.tokens.start]
        to_go: np.ndarray = block.each(reward) - beta * (
            block.each_of_block(block.totals(gap)) - (run - gap - before)
        )
        found[block.tokens] = to_go
        used = block.mask & block.each(known)
        count, total = count + float(used.sum()), total + float(to_go[used].sum())
    mean, square = total / max(count, 1), 0.0
    for block in batch.blocks():
        used = block.mask & block.each(known)
        square += float(((found[block.tokens][used] - mean) ** 2).sum())
    scale = 1 / np.sqrt(square / max(count - 1, 1) + _WHITEN_EPSILON)
    mean_of = []
    for block in batch.blocks():
        values = np.asarray(found[block.tokens], np.float64)
        values = (values - mean) * scale
        values[~block.each(known)] = np.nan
        found[block.tokens] = values
        mean_of.append(block.sums(np.nan_to_num(values)))
    trained = np.maximum(batch.trained, 1)
    sample = np.concatenate(mean_of or [np.empty(0)]) / trained
    return Advantages(np.where(known & (batch.trained > 0), sample, np.nan), found)
