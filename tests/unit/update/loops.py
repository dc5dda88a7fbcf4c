"""Losses of a batch in plain loops, from their papers: an oracle that shares no code with the package."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rlpanel.update.update_batch import UpdateBatch


@dataclass
class Case:
    """A batch as lists of samples."""

    rewards: list[float]
    groups: list[int]
    new: list[np.ndarray]
    old: list[np.ndarray]
    engine: list[np.ndarray]
    reference: list[np.ndarray]
    masks: list[np.ndarray]
    truncated: list[float]
    tokens: list[np.ndarray] = field(default_factory=list)

    @property
    def batch(self) -> UpdateBatch:
        """The same as flat arrays."""
        names = ("new", "old", "engine", "reference")
        arrays = {name: np.concatenate(getattr(self, name)) for name in names}
        return UpdateBatch.of_arrays(
            np.array([len(each) for each in self.new]),
            np.array(self.groups),
            np.array(self.rewards),
            mask=np.concatenate(self.masks).astype(bool),
            truncated=np.array(self.truncated),
            **arrays,
        )


def random_case(seed: int) -> Case:
    """Return a ragged batch: masks with holes, groups of several sizes, rewards that may be equal."""
    r = np.random.default_rng(seed)
    sizes = r.integers(2, 6, r.integers(2, 5)).tolist()
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    lengths = r.integers(2, 12, len(groups))
    old = [-r.exponential(1.0, n) for n in lengths]
    masks = [(r.random(n) < 0.8).astype(float) for n in lengths]
    for mask in masks:
        mask[0] = 1.0
    return Case(
        rewards=(r.integers(0, 3, len(groups)) / 2).tolist(),
        groups=groups,
        new=[each + r.normal(0, 0.25, len(each)) for each in old],
        old=old,
        engine=[each + r.normal(0, 0.7, len(each)) for each in old],
        reference=[each + r.normal(0, 0.5, len(each)) for each in old],
        masks=masks,
        truncated=(r.random(len(groups)) < 0.2).astype(float).tolist(),
    )


def group_advantages(case: Case, kind: str, rewards: list[float] | None = None) -> list[float]:
    """Return advantages by a group's statistics: grpo, dr_grpo or rloo."""
    rewards = case.rewards if rewards is None else rewards
    found = []
    for at, group in enumerate(case.groups):
        members = [rewards[other] for other, of in enumerate(case.groups) if of == group]
        mean = sum(members) / len(members)
        if kind == "rloo":
            others = (sum(members) - rewards[at]) / (len(members) - 1)
            found.append(rewards[at] - others)
        elif kind == "dr_grpo":
            found.append(rewards[at] - mean)
        else:
            variance = sum((each - mean) ** 2 for each in members) / (len(members) - 1)
            found.append((rewards[at] - mean) / (math.sqrt(variance) + 1e-4))
    return found


def whitened(case: Case, values: list[np.ndarray]) -> list[np.ndarray]:
    """Return values of tokens minus their mean, by their deviation, over the tokens in the loss."""
    flat = [
        v
        for value, mask in zip(values, case.masks, strict=True)
        for v, m in zip(value, mask, strict=True)
        if m
    ]
    mean = sum(flat) / len(flat)
    variance = sum((v - mean) ** 2 for v in flat) / (len(flat) - 1)
    return [(value - mean) / math.sqrt(variance + 1e-8) for value in values]


def correction(kind: str, gap: float) -> float:
    """Return the weight of a token by its logprob's gap to the engine's."""
    ratio = math.exp(gap)
    if kind == "tis":
        return min(ratio, 2.0)
    if kind == "mis":
        return ratio if ratio <= 3.0 else 0.0
    return ratio if 0.5 <= ratio <= 5.0 else 0.0


def loss(
    case: Case,
    new: list[np.ndarray],
    advantages: list[np.ndarray],
    *,
    ratio: str = "token",
    averaging: str = "seq-mean-token-mean",
    low: float = 0.2,
    high: float = 0.2,
    cap: bool = False,
    beta: float = 0.0,
    estimator: str = "k3",
    corrected: str = "",
    keep: list[bool] | None = None,
    longest: int = 0,
    fixed: list[np.ndarray] | None = None,
) -> float:
    """Return the loss as a number; ``fixed`` are the logprobs that a stopped gradient keeps."""
    keep = [True] * len(new) if keep is None else keep
    sequences = sum(keep)
    tokens = sum(mask.sum() for mask, kept in zip(case.masks, keep, strict=True) if kept)
    longest = longest or max(map(len, new))
    total = 0.0
    for at, (logprobs, old, mask) in enumerate(zip(new, case.old, case.masks, strict=True)):
        if not keep[at]:
            continue
        count = mask.sum()
        inside = [t for t in range(len(mask)) if mask[t]]
        difference = sum(logprobs[t] - old[t] for t in inside)
        of_sample = 0.0
        for t in inside:
            advantage = advantages[at][t]
            if ratio == "sequence mean":
                rho = math.exp(difference / count)
            elif ratio == "sequence product":
                rho = math.exp(difference)
            else:
                rho = math.exp(logprobs[t] - old[t])
            if cap:
                assert fixed is not None
                value = -min(math.exp(fixed[at][t] - old[t]), 1 + high) * advantage * logprobs[t]
            else:
                value = -min(rho * advantage, min(max(rho, 1 - low), 1 + high) * advantage)
            if corrected:
                value *= correction(corrected, old[t] - case.engine[at][t])
            if beta:
                d = logprobs[t] - case.reference[at][t]
                value += beta * {"k1": d, "k2": d * d / 2, "k3": math.exp(-d) + d - 1}[estimator]
            # One ratio for the sequence is one term of the sequence, and not one of each token.
            of_sample += value / count if ratio == "sequence product" else value
        if averaging == "token-mean":
            total += of_sample / tokens
        elif averaging == "seq-mean-token-mean":
            total += of_sample / count / sequences
        elif averaging == "constant":
            total += of_sample / longest / sequences
        else:
            total += of_sample / sequences
    return total


def slopes(case: Case, advantages: list[np.ndarray], **options: object) -> np.ndarray:
    """Return −d loss ÷ d logprob of each token by central differences."""
    found, step = [], 1e-6
    for at, logprobs in enumerate(case.new):
        for t in range(len(logprobs)):
            values = []
            for sign in (1, -1):
                moved = [each.copy() for each in case.new]
                moved[at][t] += sign * step
                values.append(loss(case, moved, advantages, fixed=case.new, **options))  # type: ignore[arg-type]
            found.append(-(values[0] - values[1]) / (2 * step))
    return np.array(found)


def by_token(case: Case, values: list[float]) -> list[np.ndarray]:
    """Return a value of each sample for each of its tokens."""
    return [np.full(len(each), value) for each, value in zip(case.new, values, strict=True)]
