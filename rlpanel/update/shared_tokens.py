"""Tokens of a block as all losses of a comparison see them, so that most sums are computed once.

Without a KL term, and with one advantage a sample, a token's push is a product: a scale of the sample, times
the ratio, times the ratio to the engine if the loss corrects for it. Bounds of a loss change only the tokens
outside of them. So the tokens inside the bounds of every loss are summed once, and the few others by loss.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from rlpanel.drift.corrections import Correction, bounded
from rlpanel.update.update_batch import TokenBlock


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
