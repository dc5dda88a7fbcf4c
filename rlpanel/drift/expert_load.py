"""Load of each expert of a mixture-of-experts model, and the layers in which engine and trainer differ."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlpanel.sources.records.token_lists import EXPERTS

#: Most experts of a layer: ids beyond are of something else.
MAX_EXPERTS = 4096


@dataclass
class ExpertLoad:
    """Number of tokens by layer and expert.

    Attributes
    ----------
    trainer, engine : ndarray of int, shape (layers, experts)
        Tokens that each expert got; empty if the side logs none.
    differs, compared : ndarray of int, shape (layers,)
        Tokens with another set of experts, and tokens of which both sides are known.
    without, unlike : int
        Samples that log no experts, and samples whose shape or ids are not those of the others.
    """

    trainer: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    engine: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    differs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    compared: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    without: int = 0
    unlike: int = 0

    @property
    def layers(self) -> int:
        """Number of layers."""
        return max(len(self.trainer), len(self.engine))

    def add(self, experts: dict[str, np.ndarray]) -> None:
        """Count the experts of a sample's tokens."""
        if not experts:
            self.without += 1
            return
        layers = {ids.shape[1] for ids in experts.values()}
        largest = max(int(ids.max()) for ids in experts.values())
        if len(layers) > 1 or (self.layers and layers != {self.layers}) or largest >= MAX_EXPERTS:
            self.unlike += 1
            return
        trainer, engine = (experts.get(name) for name in EXPERTS)
        if trainer is not None:
            self.trainer = _added(self.trainer, trainer)
        if engine is not None:
            self.engine = _added(self.engine, engine)
        if trainer is not None and engine is not None and trainer.shape == engine.shape:
            known = (trainer >= 0).all(-1) & (engine >= 0).all(-1)
            differs = (np.sort(trainer, -1) != np.sort(engine, -1)).any(-1) & known
            if not len(self.compared):
                self.compared, self.differs = (np.zeros(self.layers, np.int64) for _ in range(2))
            self.compared, self.differs = self.compared + known.sum(0), self.differs + differs.sum(0)


def _added(counts: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the counts with those of further tokens, shape (layers, experts)."""
    layers, size = ids.shape[1], max(int(ids.max()) + 1, counts.shape[1])
    at = np.broadcast_to(np.arange(layers)[None, :, None], ids.shape)[ids >= 0] * size + ids[ids >= 0]
    found = np.bincount(at, minlength=layers * size).reshape(layers, size)
    if counts.size:
        found[:, : counts.shape[1]] += counts
    return found


@dataclass(frozen=True)
class LoadLevel:
    """One expert of one layer.

    Attributes
    ----------
    layer, expert : int
    tokens : int
        Tokens that the expert got, of the trainer if it is logged, else of the engine.
    load : float
        This divided by the mean of the layer's experts: 1 is an even load.
    engine_load : float
        The engine's load beside the trainer's; NaN if one of them is not logged.
    mismatch : float
        Share of the layer's tokens with another set of experts; NaN if it is not known.
    """

    layer: int
    expert: int
    tokens: int
    load: float
    engine_load: float
    mismatch: float


def load_levels(load: ExpertLoad) -> list[LoadLevel]:
    """Return the experts of all layers, in their order."""
    first = load.trainer if load.trainer.size else load.engine
    both = bool(load.trainer.size and load.engine.size)
    found = []
    with np.errstate(all="ignore"):
        relative = [counts / counts.mean(1, keepdims=True) for counts in (first, load.engine) if counts.size]
        mismatch = load.differs / load.compared if len(load.compared) else np.full(len(first), np.nan)
    for layer, expert in np.ndindex(first.shape):
        known = both and expert < load.engine.shape[1]
        found.append(
            LoadLevel(
                layer=layer,
                expert=expert,
                tokens=int(first[layer, expert]),
                load=float(relative[0][layer, expert]),
                engine_load=float(relative[1][layer, expert]) if known else float("nan"),
                mismatch=float(mismatch[layer]),
            )
        )
    return found
