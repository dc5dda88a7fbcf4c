"""Closed form of the gradient that a loss has at each token's logprob, for several losses at once.

With A the advantage, ρ the ratio, c the weight of the averaging, w that of a correction, the *push* of a
token is −d loss ÷ d log π(token):

- loss clipped: c w ρ A, and 0 where A > 0 and ρ > 1 + ε_high, or A < 0 and ρ < 1 − ε;
- weight capped (CISPO): c w min(ρ, 1 + ε_high) A;
- KL term in the loss: −c β times 1 for k1, d for k2, and 1 − exp(−d) for k3, d = log π − log π_ref.

Of a ratio of the sequence's mean, ρ is that of the sequence: its derivative 1 ÷ n by each of n tokens, summed
over n tokens, is 1. Of a product, it is the sum over tokens that has the weight c.
The weight of a token is the absolute value of its push; above 0, the update makes the token likelier.
Tests compare each form with finite differences of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.drift.corrections import Correction, bounded, correction_named
from rlpanel.update.loss_algorithms import UpdateAlgorithm
from rlpanel.update.shared_tokens import Advantages, CommonBounds, SharedTokens, advantages_of
from rlpanel.update.update_batch import TokenBlock, UpdateBatch, group_moments

#: Bound of −d in exp(−d), as in verl.
_MAX_LOG = 20.0
#: Relative error of sums of logged advantages, which trainers compute in float32.
_ROUNDING = 1e-6


class PreparedLoss:
    """A loss for a batch: what its tokens share.

    Parameters
    ----------
    batch : UpdateBatch
    algorithm : UpdateAlgorithm
    kept : ndarray of bool, shape (N,), optional
        Samples that another filter keeps; all by default.
    """

    def __init__(
        self, batch: UpdateBatch, algorithm: UpdateAlgorithm, kept: np.ndarray | None = None
    ) -> None:
        self.batch, self.algorithm = batch, algorithm
        self.advantages: Advantages = advantages_of(batch, algorithm)
        self.kept = _kept(batch, algorithm, kept)
        self._advantage = np.where(
            self.kept & np.isfinite(self.advantages.sample), self.advantages.sample, 0.0
        )
        self._dtype = np.dtype(np.float64) if batch.new is None else batch.new.dtype
        weight = np.where(self.kept, _averaging(batch, algorithm, self.kept), 0.0)
        self._weight = weight.astype(self._dtype)
        self._rule: tuple[Correction, float, float] | None = None
        if algorithm.correction:
            self._rule = correction_named(algorithm.correction, algorithm.cap_low, algorithm.cap)
        sign = np.sign(self._advantage)
        of_token = batch.has_ratio and algorithm.ratio == "token"
        self.low, self.high = self._bounds(sign) if of_token else (None, None)
        self.is_capped = algorithm.clip == "cap"
        self.rule = None if self._rule is None or self._rule[0].sequence else self._rule
        clip = (algorithm.clip, algorithm.epsilon, algorithm.epsilon_high, algorithm.dual_clip)
        of_ratio = (*clip, sign.astype(np.int8).tobytes()) if of_token else ()
        of_engine = () if self.rule is None else (algorithm.correction, *self.rule[1:])
        self.key: tuple[Hashable, ...] = (of_ratio, of_engine)
        #: Signed factor that all tokens of a sample share, shape (N,).
        self.scale: np.ndarray = self._scale()

    @property
    def is_product(self) -> bool:
        """Whether pushes are products: not for advantages that differ within samples, or with a KL term."""
        return self.advantages.token is None and not self._has_kl

    def _scale(self) -> np.ndarray:
        found = self._advantage * self._weight
        if self._sample_ratio is not None:
            found *= self._bounded(self._sample_ratio, np.sign(self._advantage))[0]
        if self._rule is not None and self.rule is None:
            found *= _sequence_correction(self.batch, self._rule)
        return found.astype(self._dtype)

    @cached_property
    def clipped_tokens(self) -> np.ndarray:
        """Tokens of each sample that are clipped with their sequence, shape (N,)."""
        if self._sample_ratio is None:
            return np.zeros(len(self.batch))
        outside = self._bounded(self._sample_ratio, np.sign(self._advantage))[1]
        return np.where(outside, self.batch.trained, 0.0)

    @cached_property
    def _sample_ratio(self) -> np.ndarray | None:
        """Ratio of each sequence; None if it is one of tokens, or if it is 1."""
        if not self.batch.has_ratio or self.algorithm.ratio in ("token", "one"):
            return None
        log = self.batch.log_ratio_sums
        if self.algorithm.ratio == "sequence mean":
            log = log / np.maximum(self.batch.trained, 1)
        return np.asarray(np.exp(np.clip(log, -_MAX_LOG, _MAX_LOG)).astype(self._dtype))

    def push(self, block: TokenBlock) -> tuple[np.ndarray, int]:
        """Return the push of each token of a block, shape (T,), and the number of clipped ones."""
        if self.is_product:
            shared = SharedTokens(block, CommonBounds.of([self]))
            return shared.push(self), shared.clipped(self)
        found, clipped = self._by_token(block)
        if self.rule is not None:
            found *= bounded(self.rule[0], block.engine_gap, *self.rule[1:]).weight
        elif self._rule is not None:
            found *= block.each(_sequence_correction(self.batch, self._rule))
        if self._has_kl:
            found -= self.algorithm.beta * block.each(self._weight) * self._kl(block) * block.weight
        return found, clipped

    @cached_property
    def _has_kl(self) -> bool:
        in_loss = bool(self.algorithm.beta) and self.algorithm.kl == "loss"
        return in_loss and self.batch.reference is not None

    def _by_token(self, block: TokenBlock) -> tuple[np.ndarray, int]:
        """Return the pushes without correction and KL term of any advantages, 0 outside of the loss."""
        of_tokens = self.advantages.token
        advantage = block.each(self._advantage) if of_tokens is None else of_tokens[block.tokens]
        advantage = np.where(np.isfinite(advantage), advantage, 0)
        scale = np.abs(advantage) * block.each(self._weight) * block.weight
        sign = np.sign(advantage)
        if not self.batch.has_ratio or self.algorithm.ratio == "one":
            return scale * sign, 0
        ratio = block.ratio if self._sample_ratio is None else block.each(self._sample_ratio)
        values, outside = self._bounded(ratio, sign)
        return values * sign * scale, int(np.count_nonzero(outside & (scale > 0)))

    def _bounds(self, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of the ratios of tokens or samples by the sign of their advantage."""
        used, constants = sign != 0, self.algorithm
        low, high = np.full(len(sign), -np.inf), np.full(len(sign), np.inf)
        if constants.clip == "cap":
            low[used], high[used] = max(1 - constants.epsilon, 0.0), 1 + constants.epsilon_high
        elif constants.clip == "zero":
            high[sign > 0] = 1 + constants.epsilon_high
            low[sign < 0] = 1 - constants.epsilon
            high[sign < 0] = constants.dual_clip or np.inf
        return low.astype(self._dtype), high.astype(self._dtype)

    def _bounded(self, ratio: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ratios as the gradient has them, and the mask of those that are clipped."""
        low, high = self._bounds(sign)
        outside = (ratio < low) | (ratio > high)
        bounds = np.minimum(np.maximum(ratio, low), high) if self.is_capped else 0
        return np.where(outside, bounds, ratio), outside

    def _kl(self, block: TokenBlock) -> np.ndarray:
        """Return the derivative of the KL estimator by the logprob."""
        d = block.reference_gap
        if self.algorithm.estimator == "k1":
            return np.ones_like(d)
        if self.algorithm.estimator == "k2":
            return d
        ratio, bound = np.exp(np.clip(-d, -_MAX_LOG, _MAX_LOG)), self.algorithm.kl_bound
        return np.where(ratio + d - 1 > bound, 0, 1 - ratio) if bound else 1 - ratio


def _kept(batch: UpdateBatch, algorithm: UpdateAlgorithm, kept: np.ndarray | None) -> np.ndarray:
    found = batch.trained > 0 if kept is None else kept & (batch.trained > 0)
    if algorithm.drop_flat:
        found = found & ~group_moments(batch, batch.reward).is_flat[batch.group]
    return found & ~(batch.truncated == 1) if algorithm.drop_truncated else found


def _averaging(batch: UpdateBatch, algorithm: UpdateAlgorithm, kept: np.ndarray) -> np.ndarray:
    """Return the weight of each sample's tokens by the averaging, shape (N,)."""
    trained, sequences = np.maximum(batch.trained, 1), max(int(kept.sum()), 1)
    ones = np.ones(len(batch))
    if algorithm.averaging == "token-mean":
        return ones / max(float(batch.trained[kept].sum()), 1.0)
    if algorithm.averaging == "seq-mean-token-mean":
        return 1 / (sequences * trained)
    if algorithm.averaging == "seq-mean-token-sum":
        return ones / sequences
    longest = algorithm.max_length or max(float(batch.counts.max(initial=0)), 1.0)
    return ones / (sequences * longest)


def _sequence_correction(batch: UpdateBatch, rule: tuple[Correction, float, float]) -> np.ndarray:
    """Return the weight of each sample by the ratio of its sequence to the engine, shape (N,)."""
    declared, low, high = rule
    log = batch.engine_gap_sums
    log = log / np.maximum(batch.trained, 1) if declared.sequence == "mean" else log
    return bounded(declared, log, low, high).weight


@dataclass(frozen=True)
class LossTotals:
    """Sums of a loss's pushes over a batch.

    Attributes
    ----------
    weight, net : ndarray of float, shape (N,)
        Sum of the absolute pushes, and of the pushes, over each sample's tokens.
    clipped : int
        Tokens whose gradient is 0 by clipping, or whose weight is capped.
    total, square, product : float
        Sums over the tokens in the loss: of pushes, of their squares, and of their products with those of
        the first loss.
    """

    weight: np.ndarray
    net: np.ndarray
    clipped: int
    total: float
    square: float
    product: float

    @property
    def effective(self) -> float:
        """Effective number of samples: (Σ w)² ÷ Σ w² (Kish 1965); NaN without weight."""
        square = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / square if square else float("nan")

    @property
    def half(self) -> int:
        """Number of the heaviest samples that carry half of the weight; 0 without weight."""
        sums = np.cumsum(np.sort(self.weight)[::-1])
        if not len(sums) or not sums[-1]:
            return 0
        return int(np.searchsorted(sums, sums[-1] * 0.5 * (1 - _ROUNDING))) + 1


def loss_totals(
    batch: UpdateBatch,
    losses: Sequence[PreparedLoss],
    each_block: Callable[[TokenBlock, np.ndarray], None] | None = None,
) -> list[LossTotals]:
    """Return the sums of the pushes of several losses.

    Parameters
    ----------
    batch : UpdateBatch
    losses : sequence of PreparedLoss
        Their products are those with the first one.
    each_block : callable, optional
        Is called with each block and the pushes of the first loss.
    """
    sums = [_Sums() for _ in losses]
    common = CommonBounds.of([loss for loss in losses if loss.is_product])
    for block in batch.blocks():
        shared, first = SharedTokens(block, common), None
        for loss, found in zip(losses, sums, strict=True):
            if loss.is_product:
                if first is None:
                    shared.first = first = shared.push(loss)
                net = shared.totals(loss)
                clipped = shared.clipped(loss) + int(loss.clipped_tokens[block.samples].sum())
                found.add(net, np.abs(net), clipped)
                if len(losses) > 1:
                    found.square += shared.squares(loss)
                    found.product += shared.products(loss)
            else:
                push, clipped = loss.push(block)
                if first is None:
                    shared.first = first = push
                found.add(block.totals(push), block.totals(np.abs(push)), clipped)
                # A product by BLAS starts threads that wait for one another.
                found.square += float(np.einsum("i,i", push, push))
                found.product += float(np.einsum("i,i", push, first))
        if each_block is not None and first is not None:
            each_block(block, first)
    return [found.totals() for found in sums]


class _Sums:
    """Sums of one loss over the blocks so far."""

    def __init__(self) -> None:
        self.weight: list[np.ndarray] = []
        self.net: list[np.ndarray] = []
        self.clipped, self.square, self.product = 0, 0.0, 0.0

    def add(self, net: np.ndarray, weight: np.ndarray, clipped: int) -> None:
        """Add the sums of a block's samples."""
        self.net.append(net)
        self.weight.append(weight)
        self.clipped += clipped

    def totals(self) -> LossTotals:
        weight, net = (np.concatenate(each) if each else np.empty(0) for each in (self.weight, self.net))
        return LossTotals(weight, net, self.clipped, float(net.sum()), self.square, self.product)


def correlation(first: LossTotals, other: LossTotals, tokens: int) -> float:
    """Return the correlation of the pushes of two losses over the tokens in the loss; NaN if one is equal."""
    spread = [each.square - each.total**2 / max(tokens, 1) for each in (first, other)]
    shared = other.product - first.total * other.total / max(tokens, 1)
    least = [1e-12 * each.square for each in (first, other)]
    if any(value <= bound for value, bound in zip(spread, least, strict=True)):
        return float("nan")
    return float(shared / np.sqrt(spread[0] * spread[1]))
