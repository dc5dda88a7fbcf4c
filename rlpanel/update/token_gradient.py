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
from rlpanel.update.update_advantages import Advantages, advantages_of
from rlpanel.update.update_batch import TokenBlock, UpdateBatch, group_moments

#: Bound of −d in exp(−d), as in verl.
_MAX_LOG = 20.0


@dataclass(frozen=True)
class PushFactors:
    """Pushes of a block's tokens as products; all of a sample have one sign.

    Attributes
    ----------
    values : ndarray of float, shape (T,)
        Of tokens, 0 outside of the loss.
    scale : ndarray of float, shape (n,)
        Of the block's samples.
    clipped : int
        Clipped tokens.
    key : tuple
        Losses with the same key have the same values in a block.
    """

    values: np.ndarray
    scale: np.ndarray
    clipped: int
    key: tuple[Hashable, ...]


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
        self._weight = np.where(self.kept, _averaging(batch, algorithm, self.kept), 0.0)
        self._rule: tuple[Correction, float, float] | None = None
        if algorithm.correction:
            self._rule = correction_named(algorithm.correction, algorithm.cap_low, algorithm.cap)
        dtype = np.float64 if batch.new is None else batch.new.dtype
        self._weight = self._weight.astype(dtype)
        self._sign = np.sign(self._advantage).astype(dtype)
        self._scale = (np.abs(self._advantage) * self._weight).astype(dtype)
        # Signed ratios above this are clipped: ρ > 1 + ε_high for A > 0, and −ρ > −(1 − ε) for A < 0.
        self._limit = self._limits(self._sign).astype(dtype)
        # Losses with the same key clip the same tokens.
        clip = (algorithm.clip, algorithm.epsilon, algorithm.epsilon_high, algorithm.dual_clip)
        self._key = (*clip, self._sign.tobytes())

    @cached_property
    def _sample_ratio(self) -> np.ndarray | None:
        """Ratio of each sequence; None if it is one of tokens, or if it is 1."""
        if not self.batch.has_ratio or self.algorithm.ratio in ("token", "one"):
            return None
        log = self.batch.log_ratio_sums
        if self.algorithm.ratio == "sequence mean":
            log = log / np.maximum(self.batch.trained, 1)
        return np.asarray(np.exp(np.clip(log, -_MAX_LOG, _MAX_LOG)).astype(self._scale.dtype))

    def push(self, block: TokenBlock) -> tuple[np.ndarray, int]:
        """Return the push of each token of a block, shape (T,), and the number of clipped ones."""
        factors = self.factors(block)
        if factors is not None:
            return factors.values * block.each_of_block(factors.scale), factors.clipped
        found, clipped = self._by_token(block)
        if self._rule is not None:
            found *= _correction_weight(block, self._rule)
        if self._has_kl:
            found -= self.algorithm.beta * block.each(self._weight) * self._kl(block) * block.weight
        return found, clipped

    def factors(self, block: TokenBlock) -> PushFactors | None:
        """Return the pushes of a block as products of values of tokens and of samples.

        None if they are no such products: for advantages that differ within samples, and with a KL term.
        """
        if self.advantages.token is not None or self._has_kl:
            return None
        scale = (self._scale * self._sign)[block.samples]
        key: tuple[Hashable, ...] = ()
        values, clipped = block.weight, 0
        if self._sample_ratio is not None:
            # One value of the sequence holds for all of its tokens.
            ratio = self._sample_ratio[block.samples]
            sign, limit = self._sign[block.samples], self._limit[block.samples]
            of_sample, outside = self._bounded(ratio, sign, limit)
            scale = of_sample * self._scale[block.samples]
            clipped = int(self.batch.trained[block.samples][outside].sum())
        elif self.batch.has_ratio and self.algorithm.ratio != "one":
            key, scale = self._key, self._scale[block.samples]
            if key not in block.bounded:
                bounds, outside = self._bounded(block.ratio, block.each(self._sign), block.each(self._limit))
                bounds *= block.weight
                outside &= block.mask
                block.bounded[key] = bounds, int(np.count_nonzero(outside))
            values, clipped = block.bounded[key]
        if self._rule is not None:
            key = (*key, self._rule)
            if key not in block.bounded:
                block.bounded[key] = values * _correction_weight(block, self._rule), clipped
            values = block.bounded[key][0]
        return PushFactors(values, scale, clipped, key)

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
        values, outside = self._bounded(ratio, sign, self._limits(sign))
        return values * scale, int(np.count_nonzero(outside & (scale > 0)))

    def _limits(self, sign: np.ndarray) -> np.ndarray:
        """Return the signed ratio above which clipping takes the gradient; none without an advantage."""
        limit = np.where(sign > 0, 1 + self.algorithm.epsilon_high, self.algorithm.epsilon - 1)
        return np.where(sign == 0, np.inf, limit)

    def _bounded(
        self, ratio: np.ndarray, sign: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return signed ratios as the gradient has them, and the mask of those that are clipped."""
        if self.algorithm.clip == "cap":
            values = np.clip(ratio, max(1 - self.algorithm.epsilon, 0.0), 1 + self.algorithm.epsilon_high)
            outside = (values != ratio) & (sign != 0)
            values *= sign
            return values, outside
        signed = ratio * sign
        if self.algorithm.clip == "none":
            return signed, np.zeros(len(signed), bool)
        outside = signed > limit
        if self.algorithm.dual_clip:
            outside |= signed < -self.algorithm.dual_clip
        np.putmask(signed, outside, 0)
        return signed, outside

    def _kl(self, block: TokenBlock) -> np.ndarray:
        """Return the derivative of the KL estimator by the logprob."""
        d = block.reference_gap
        if self.algorithm.estimator == "k1":
            return np.ones_like(d)
        return d if self.algorithm.estimator == "k2" else 1 - np.exp(np.clip(-d, -_MAX_LOG, _MAX_LOG))


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


def _correction_weight(block: TokenBlock, rule: tuple[Correction, float, float]) -> np.ndarray:
    declared, low, high = rule
    if not declared.sequence:
        return bounded(declared, block.engine_gap, low, high).weight
    batch = block.batch
    log = batch.engine_gap_sums
    log = log / np.maximum(batch.trained, 1) if declared.sequence == "mean" else log
    return block.each(bounded(declared, log, low, high).weight)


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
    for block in batch.blocks():
        shared = _BlockSums(block)
        first: np.ndarray | None = None
        for loss, found in zip(losses, sums, strict=True):
            factors = loss.factors(block)
            if factors is None or first is None:
                push, clipped = loss.push(block)
                shared.first = first = push if first is None else first
                found.add(block.totals(push), block.totals(np.abs(push)), clipped)
                # A product by BLAS starts threads that wait for one another.
                square = float(np.einsum("i,i", push, push))
                found.square += square
                found.product += square if push is first else float(np.einsum("i,i", push, first))
            else:
                net, square_of, product_of = shared.of(factors)
                net = net * factors.scale
                found.add(net, np.abs(net), factors.clipped)
                found.square += float((square_of * np.square(factors.scale, dtype=np.float64)).sum())
                found.product += float((product_of * factors.scale).sum())
        if each_block is not None and first is not None:
            each_block(block, first)
    return [found.totals() for found in sums]


class _BlockSums:
    """Sums over each sample's tokens of a block, which losses with the same values share."""

    def __init__(self, block: TokenBlock) -> None:
        self.first = np.empty(0)
        self._block = block
        self._known: dict[Hashable, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def of(self, factors: PushFactors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sums of values, of their squares and of their products with the first pushes, shape (n,)."""
        if factors.key not in self._known:
            each, values = self._block.totals, factors.values
            if factors.key:
                self._known[factors.key] = each(values), each(values * values), each(values * self.first)
            else:  # the mask, which is its own square
                tokens = self._block.batch.trained[self._block.samples]
                self._known[factors.key] = tokens, tokens, each(self.first)
        return self._known[factors.key]


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
