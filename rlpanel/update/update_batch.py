"""Samples of one step, or of some steps, as flat token arrays: what a policy's loss is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

#: Tokens of a block: few enough for the cache, and enough that calls cost little.
BLOCK = 1 << 18
#: Bound of a logarithm of a ratio, as in verl.
_MAX_LOG = 20.0
#: Deviations from the group's mean up to this share of the largest reward are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class BatchReading:
    """Counts of what was read for a batch, and of what is missing in it.

    Attributes
    ----------
    read, total : int
        Samples that were read, and samples of the steps.
    unreadable, without_tokens, unequal, unscored : int
        Samples whose line cannot be read any more; samples without tokens and token arrays; arrays whose
        length differs from that of the sample's tokens, which are left out; tokens in the loss without a
        finite logprob, whose ratio counts as 1.
    lengths_from_text : int
        Samples whose length is estimated by the characters of their response.
    has_mask : bool
        Whether a loss mask is logged.
    has_critic : bool
        Whether a critic's values are logged.
    is_grouped : bool
        Whether groups are known, by a logged id or by prompts.
    """

    read: int = 0
    total: int = 0
    unreadable: int = 0
    without_tokens: int = 0
    unequal: int = 0
    unscored: int = 0
    lengths_from_text: int = 0
    has_mask: bool = False
    has_critic: bool = False
    is_grouped: bool = True


@dataclass(frozen=True)
class UpdateBatch:
    """Samples with their tokens; those of one group stand beside each other.

    Attributes
    ----------
    counts : ndarray of int, shape (N,)
        Number of tokens of each sample.
    group, episode : ndarray of int, shape (N,)
        Index of the group within all steps, and of the episode; an episode of several rows has one reward.
    outcome : ndarray of bool, shape (N,)
        Rows whose reward counts in the statistics of their group: the last of each episode.
    reward, advantage : ndarray of float, shape (N,)
        Reward of the episode, and the logged advantage; NaN where they are not logged.
    mask : ndarray of bool, shape (T,)
        Tokens in the loss.
    old, new, engine, reference : ndarray of float, shape (T,), or None
        Logprobs in nats of the policy before and after the update, of the engine and of the reference; NaN
        where a sample has none. Without ``old``, ``new`` are the policy's only logprobs and ratios are 1.
    advantages : ndarray of float, shape (T,), or None
        Logged advantages of the tokens.
    token : ndarray of int, shape (T,), or None
        Index in ``tokens``; -1 where they are not logged.
    tokens : list of str
    truncated : ndarray of float, shape (N,)
        1 if the length limit ended the sample; NaN where it is not logged.
    rows, steps, ranks : ndarray of int, shape (N,)
    prompts : ndarray of int, shape (N,)
        Key of the prompt.
    parts : dict of str to ndarray, shape (N,)
        Parts of the reward by their names, without ``rewards/``.
    part_weights : dict of str to float
        Weights of parts in the reward, where the run logs them.
    labels : dict of str to list
        Labels with a few values.
    reading : BatchReading
    """

    counts: np.ndarray
    group: np.ndarray
    reward: np.ndarray
    mask: np.ndarray
    episode: np.ndarray
    outcome: np.ndarray
    advantage: np.ndarray
    truncated: np.ndarray
    old: np.ndarray | None = None
    new: np.ndarray | None = None
    engine: np.ndarray | None = None
    reference: np.ndarray | None = None
    advantages: np.ndarray | None = None
    token: np.ndarray | None = None
    tokens: list[str] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    steps: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    ranks: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    prompts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    part_weights: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, list[str | None]] = field(default_factory=dict)
    reading: BatchReading = field(default_factory=BatchReading)

    @classmethod
    def of_arrays(
        cls, counts: np.ndarray, group: np.ndarray, reward: np.ndarray, **arrays: np.ndarray | None
    ) -> UpdateBatch:
        """Return a batch of arrays; what is not given is missing, and each sample is an episode.

        Parameters
        ----------
        counts, group, reward : ndarray, shape (N,)
        **arrays
            Further attributes. Samples of a group must stand beside each other.
        """
        size = len(counts)
        usual: dict[str, np.ndarray | None] = {
            "mask": np.ones(int(np.sum(counts)), bool),
            "episode": np.arange(size),
            "outcome": np.ones(size, bool),
            "advantage": np.full(size, np.nan),
            "truncated": np.full(size, np.nan),
            "rows": np.arange(size),
            "steps": np.zeros(size, np.int64),
            "ranks": np.full(size, -1),
            "prompts": group,
        }
        reading = BatchReading(size, size, has_mask="mask" in arrays)
        given = {"counts": counts, "group": group, "reward": reward, "reading": reading}
        return cls(**(usual | given | arrays))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def starts(self) -> np.ndarray:
        """Position of each sample's first token, and the number of all tokens; shape (N + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return int(self.starts[-1])

    @cached_property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1 if len(self) else 0

    @cached_property
    def trained(self) -> np.ndarray:
        """Number of tokens of each sample in the loss, shape (N,)."""
        found = [block.totals(block.mask.astype(np.float32)) for block in self.blocks()]
        return np.concatenate(found or [np.empty(0)])

    @property
    def has_ratio(self) -> bool:
        """Whether the policy's logprobs before and after the update are both logged."""
        return self.old is not None and self.new is not None

    @property
    def before(self) -> np.ndarray | None:
        """Logprobs of the policy that the trainer took for sampling: ``old``, else its only ones."""
        return self.new if self.old is None else self.old

    def blocks(self) -> Iterator[TokenBlock]:
        """Yield the tokens in blocks of whole samples."""
        first = 0
        while first < len(self):
            wanted = int(np.searchsorted(self.starts, self.starts[first] + BLOCK, side="right")) - 1
            last = max(min(wanted, len(self)), first + 1)
            yield TokenBlock(self, first, last)
            first = last

    @cached_property
    def log_ratio_sums(self) -> np.ndarray:
        """Sum of log π_new − log π_old over each sample's tokens in the loss, shape (N,)."""
        return np.concatenate([block.sums(block.log_ratio) for block in self.blocks()] or [np.empty(0)])

    @cached_property
    def engine_gap_sums(self) -> np.ndarray:
        """Sum of the trainer's minus the engine's logprob over tokens in the loss, shape (N,)."""
        return np.concatenate([block.sums(block.engine_gap) for block in self.blocks()] or [np.empty(0)])

    @cached_property
    def reference_gap_sums(self) -> np.ndarray:
        """Sum of the sampling policy's minus the reference's logprob over tokens in the loss, shape (N,)."""
        parts = [block.sums(block.difference(self.before, self.reference)) for block in self.blocks()]
        return np.concatenate(parts or [np.empty(0)])

    def with_reward(self, reward: np.ndarray) -> UpdateBatch:
        """Return the batch with other rewards, shape (N,)."""
        return replace(self, reward=reward)


class TokenBlock:
    """Tokens of consecutive samples of a batch; arrays are computed once for all losses.

    Parameters
    ----------
    batch : UpdateBatch
    first, last : int
        Samples ``first`` to ``last - 1``.
    """

    def __init__(self, batch: UpdateBatch, first: int, last: int) -> None:
        self.batch, self.samples = batch, slice(first, last)
        self.tokens = slice(int(batch.starts[first]), int(batch.starts[last]))
        self.counts = batch.counts[first:last]
        self.mask = batch.mask[self.tokens]
        self.starts = batch.starts[first:last] - batch.starts[first]
        self._has_tokens = self.counts > 0

    def __len__(self) -> int:
        return self.tokens.stop - self.tokens.start

    @cached_property
    def turn_begins(self) -> np.ndarray:
        """True at the first token in the loss of each turn, an uninterrupted stretch of them; shape (T,)."""
        begins = self.mask.copy()
        begins[1:] &= ~self.mask[:-1]
        starts = self.starts[self._has_tokens]
        begins[starts] = self.mask[starts]
        return begins

    def each(self, values: np.ndarray) -> np.ndarray:
        """Return a value of each sample of the batch, shape (N,), for each token of the block."""
        return np.repeat(values[self.samples], self.counts)

    def each_of_block(self, values: np.ndarray) -> np.ndarray:
        """Return a value of each sample of the block for each of its tokens."""
        return np.repeat(values, self.counts)

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over all tokens of each sample of the block."""
        found = np.zeros(len(self.counts))
        if len(self):
            found[self._has_tokens] = np.add.reduceat(values, self.starts[self._has_tokens])
        return found

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over the tokens in the loss of each sample of the block."""
        return self.totals(np.where(self.mask, values, 0.0))

    def difference(self, ours: np.ndarray | None, other: np.ndarray | None) -> np.ndarray:
        """Return the difference of two logprobs; 0 where one of them is missing or not finite."""
        if ours is None or other is None:
            return np.zeros(len(self))
        found = ours[self.tokens] - other[self.tokens]
        # One sum is quicker than a mask, and not finite if a value is not.
        with np.errstate(invalid="ignore", over="ignore"):
            is_finite = np.isfinite(found.sum())
        if not is_finite:
            found[~np.isfinite(found)] = 0.0
        return found

    @cached_property
    def weight(self) -> np.ndarray:
        """Mask of the tokens in the loss as numbers, shape (T,)."""
        new = self.batch.new
        return self.mask.astype(np.float64 if new is None else new.dtype)

    @cached_property
    def log_ratio(self) -> np.ndarray:
        """Difference log π_new − log π_old, shape (T,)."""
        return self.difference(self.batch.new, self.batch.old)

    @cached_property
    def ratio(self) -> np.ndarray:
        """Ratio π_new / π_old of each token, bounded as in verl, shape (T,)."""
        return _bounded_exp(self.log_ratio)

    @cached_property
    def engine_gap(self) -> np.ndarray:
        """Difference of the sampling policy's logprob by the trainer and by the engine, shape (T,)."""
        return self.difference(self.batch.before, self.batch.engine)

    @cached_property
    def engine_ratio(self) -> np.ndarray:
        """Ratio of the sampling policy's probability by the trainer to that by the engine, shape (T,)."""
        return _bounded_exp(self.engine_gap)

    @cached_property
    def reference_gap(self) -> np.ndarray:
        """Difference log π_new − log π_ref, shape (T,)."""
        return self.difference(self.batch.new, self.batch.reference)


def _bounded_exp(log: np.ndarray) -> np.ndarray:
    """Return ratios of their logarithms, which are bounded as in verl."""
    found = np.minimum(log, _MAX_LOG)
    np.maximum(found, -_MAX_LOG, out=found)
    return np.exp(found, out=found)


@dataclass(frozen=True)
class GroupMoments:
    """Statistics of the rewards of groups.

    Attributes
    ----------
    count, mean, square : ndarray of float, shape (G,)
        Number of rewards, their mean, and the sum of squared deviations from it.
    deviation : ndarray of float, shape (N,)
        Reward minus the mean of its group; NaN without a finite reward.
    """

    count: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    deviation: np.ndarray

    @property
    def is_flat(self) -> np.ndarray:
        """Groups whose rewards do not differ, or that have fewer than two; shape (G,)."""
        return (self.square <= 0) | (self.count < 2)


def group_moments(batch: UpdateBatch, reward: np.ndarray) -> GroupMoments:
    """Return the statistics of the groups; an episode of several rows counts once.

    Parameters
    ----------
    batch : UpdateBatch
    reward : ndarray of float, shape (N,)
        Values that are not finite do not count.
    """
    known = np.isfinite(reward)
    counted = known & batch.outcome
    value = np.where(counted, reward, 0.0)
    count = np.bincount(batch.group, counted.astype(float), batch.groups)
    mean = np.bincount(batch.group, value, batch.groups) / np.maximum(count, 1)
    deviation = np.where(known, reward, np.nan) - mean[batch.group]
    largest = max(float(np.abs(value).max(initial=0.0)), 1e-300)
    deviation[np.abs(deviation) <= _ROUNDING * largest] = 0.0
    square = np.bincount(batch.group, np.where(counted, deviation, 0.0) ** 2, batch.groups)
    return GroupMoments(count, mean, square, deviation)
