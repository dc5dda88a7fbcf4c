"""Advantages of a batch by the formulas of the losses, of samples or of tokens.

Samples without a finite reward, and samples whose group has fewer than two, have none: NaN. verl gives a
sample that is alone in its group its reward as the advantage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.update.loss_algorithms import UpdateAlgorithm
from rlpanel.update.update_batch import GroupMoments, UpdateBatch, group_moments

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
        values = (found[block.tokens] - mean) * scale
        values[~block.each(known)] = np.nan
        found[block.tokens] = values
        mean_of.append(block.sums(np.nan_to_num(values)))
    trained = np.maximum(batch.trained, 1)
    sample = np.concatenate(mean_of or [np.empty(0)]) / trained
    return Advantages(np.where(known & (batch.trained > 0), sample, np.nan), found)
