"""Parts of a reward: the weights with which they sum to it, and their shares in the policy gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metric_cache import group_keys

# -- reward split --------------------------------------------------------------------------------------
# Finds the weights with which a reward is the sum of its logged parts, if it is one.


#: Prefix of the columns of a reward's parts.
PARTS = "rewards/"
#: Largest distance of a sum from the reward, and the least share of the samples where it is smaller.
_CLOSE, _MIN_SHARE = 1e-3, 0.95
#: Singular values of the correlations of parts that are smaller, relative to the largest, count as 0.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class RewardSum:
    """A reward as a weighted sum of its parts plus a constant.

    Attributes
    ----------
    weights : dict of str to float
        Of the parts that vary in the samples.
    offset : float
        What is added: also what the parts in ``constant`` add.
    constant : dict of str to float
        Values of the parts that are the same in all samples, so that their weight is not known.
    is_unique : bool
        False if parts depend on one another, so that other weights fit as well.
    """

    weights: dict[str, float]
    offset: float
    constant: dict[str, float]
    is_unique: bool

    def expected(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward that follows from the parts, shape (N,); NaN where a part is missing."""
        total: np.ndarray | float = self.offset
        for name, weight in self.weights.items():
            total = total + weight * parts[name]
        return np.asarray(total)


def fitted_sum(reward: np.ndarray, parts: Mapping[str, np.ndarray]) -> RewardSum:
    """Return the weighted sum of parts that is next to a reward, by ordinary least squares with a constant.

    Parameters
    ----------
    reward : ndarray of float, shape (N,)
        Finite, of at least one sample.
    parts : mapping of str to ndarray of float, shape (N,)
        Finite.
    """
    constant = {name: float(values[0]) for name, values in parts.items() if not np.ptp(values)}
    names = [name for name in parts if name not in constant]
    middle = float(reward.mean())
    if not names:
        return RewardSum({}, middle, constant, is_unique=True)
    means = np.array([parts[name].mean() for name in names])
    scales = np.array([parts[name].std() for name in names])
    centred = [(parts[name] - mean) / scale for name, mean, scale in zip(names, means, scales, strict=True)]
    # Sums of products by hand: a product of large matrices would wake a thread for each core.
    products = np.array([[(a * b).sum() for b in centred] for a in centred])
    target = np.array([(each * (reward - middle)).sum() for each in centred])
    fitted, _, rank, _ = np.linalg.lstsq(products, target, rcond=_SINGULAR)
    weights = fitted / scales
    offset = middle - float((weights * means).sum())
    return RewardSum(
        dict(zip(names, weights.tolist(), strict=True)), offset, constant, bool(rank == len(names))
    )


def reward_weights(view: RunView, rows: np.ndarray) -> dict[str, float]:
    """Return the weight of each part of the reward; empty if the reward is not a weighted sum of them.

    A part that is missing counts as 0. Weights of 1 are tried first, then those of least squares; a part
    that does not vary then has the weight 0.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int
        Rows by which this is decided.
    """
    parts = part_names(view.snapshot)
    reward = view.counted("reward", rows)
    finite = np.isfinite(reward)
    if not parts or not finite.any():
        return {}
    reward = reward[finite].astype(float)
    values = {name: np.nan_to_num(view.counted(name, rows)[finite].astype(float)) for name in parts}
    plain = RewardSum(dict.fromkeys(parts, 1.0), 0.0, {}, is_unique=True)
    for found in (plain, fitted_sum(reward, values)):
        if close_share(found.expected(values), reward) >= _MIN_SHARE:
            return {name: found.weights.get(name, 0.0) for name in parts}
    return {}


def part_names(snapshot: Snapshot) -> list[str]:
    """Return the columns of the reward's parts."""
    return [name for name in snapshot.numbers if name.startswith(PARTS)]


def close_share(expected: np.ndarray, reward: np.ndarray) -> float:
    """Return the share of samples whose reward is the expected one but for rounding."""
    return float((np.abs(expected - reward) <= _CLOSE * (1 + np.abs(reward))).mean())


# -- reward parts --------------------------------------------------------------------------------------
# Shares of a reward's parts in what the policy gradient sees: the differences within groups.
#
# An advantage of GRPO and its relatives compares a sample with its group. So a part that is the same for all
# samples of a group moves no gradient, however large it is. The share of a part p with weight w is ::
#
#     sum(w * (p - P) * (r - R)) / sum((r - R) ** 2)
#
# P and R are the means of the part and of the reward in the sample's group. The sums are over all samples.
# For a reward that is the weighted sum of its parts, the shares add up to 1. A share below 0 belongs to a
# part that works against the others.


#: Least share of the samples in which a sum equals the reward, for it to be the sum that was used.
_IS_SUM = 0.95
#: Share of the reward's variance within groups that is rounding.
_ROUNDED = 1e-9
#: Name of what the reward holds beyond the weighted sum of its parts.
REST = "rest"

Source = Literal["declared", "sum", "fitted", ""]


@dataclass(frozen=True)
class GroupRows:
    """Samples with a reward, in groups.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    group : ndarray of int, shape (N,)
        Index of each sample's group; a group is of one step.
    step : ndarray of int, shape (N,)
    is_grouped : bool
        False if the run has no groups; each step is then one group.
    """

    rows: np.ndarray
    group: np.ndarray
    step: np.ndarray
    is_grouped: bool

    def centred(self, values: np.ndarray) -> np.ndarray:
        """Return values minus their group's mean; values that are not finite stay out and are NaN."""
        known = np.isfinite(values)
        count = np.bincount(self.group, known)
        sums = np.bincount(self.group, np.where(known, values, 0.0))
        with np.errstate(all="ignore"):
            return np.where(known, values - (sums / count)[self.group], np.nan)

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of each group."""
        return np.bincount(self.group)


def group_rows(view: RunView, rows: np.ndarray) -> GroupRows:
    """Return those of some rows that have a finite reward, in their groups."""
    reward = (
        view.counted("reward", rows) if view.snapshot.has_number("reward") else np.full(len(rows), np.nan)
    )
    rows = rows[np.isfinite(reward)]
    step = view.snapshot.metadata("step")[rows].astype(np.int64)
    keys = np.zeros(len(rows), np.int64)
    if view.grouped:
        keys = group_keys(view.snapshot, rows)
        keys = np.where(keys < 0, -2 - np.arange(len(rows)), keys)  # a sample without a group is its own
    order = np.lexsort((keys, step))
    new = np.append(True, (np.diff(step[order]) != 0) | (np.diff(keys[order]) != 0))[: len(rows)]
    group = np.empty(len(rows), np.int64)
    group[order] = np.cumsum(new) - 1
    return GroupRows(rows, group, step, view.grouped)


@dataclass(frozen=True)
class RewardPart:
    """A part of the reward over some samples.

    Attributes
    ----------
    name : str
        Without prefix; `REST` for what the reward holds beyond the weighted sum.
    step : int, optional
        None for all steps.
    samples, missing : int
        Samples with and without a finite value.
    mean : float, optional
    weight : float, optional
    source : str
        ``declared`` by the trainer, ``sum`` (the reward is the plain sum), ``fitted``, or empty.
    contribution : float, optional
        Weight times the sum of the part, divided by all samples: what it adds to the mean reward.
    share : float, optional
        Share of the reward's variance within groups.
    correlations : dict of str to float
        Within groups, with the other parts, ``length`` and ``valid_reward``.
    reasons : dict of str to str
        Why a value is missing, by its name.
    """

    name: str
    step: int | None
    samples: int
    missing: int
    mean: float | None
    weight: float | None
    source: Source
    contribution: float | None
    share: float | None
    correlations: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RewardAnatomy:
    """All parts of a reward.

    Attributes
    ----------
    parts : tuple of RewardPart
        By descending share, of all steps first, then of each step if asked for.
    samples, groups, alone, equal : int
        Samples with a reward, their groups, groups of one sample, and groups whose rewards are equal.
    without_reward : int
        Samples without a finite reward.
    exact : float, optional
        Share of the samples whose reward is the weighted sum; None without parts.
    source : str
        See `RewardPart`.
    remarks : tuple of str
        What is approximated or missing.
    """

    parts: tuple[RewardPart, ...]
    samples: int
    groups: int
    alone: int
    equal: int
    without_reward: int
    exact: float | None
    source: Source
    remarks: tuple[str, ...]


def reward_anatomy(view: RunView, rows: np.ndarray, *, by_step: bool = False) -> RewardAnatomy:
    """Return the parts of the reward of some samples with their weights and shares.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
    by_step : bool
        Also return the parts of each step.
    """
    grouped, snapshot = group_rows(view, rows), view.snapshot
    reward = view.counted("reward", grouped.rows).astype(float) if len(grouped.rows) else np.empty(0)
    logged = {name: view.counted(name, grouped.rows).astype(float) for name in part_names(snapshot)}
    parts = {
        name.removeprefix(PARTS): np.where(np.isfinite(each), each, np.nan) for name, each in logged.items()
    }
    remarks = _remarks(grouped, parts)
    empty = RewardAnatomy((), len(grouped.rows), 0, 0, 0, len(rows) - len(grouped.rows), None, "", remarks)
    if not len(grouped.rows) or not parts:
        return empty
    found, source, exact = _sum_used(view, reward, parts)
    if source == "fitted" and exact < _IS_SUM:
        remarks = (
            *remarks,
            f"The reward is the weighted sum of its parts in {exact:.0%} of the samples: the weights are "
            "those of least squares, and the row “rest” is what they leave.",
        )
    others = _others(view, grouped)
    names = [*parts, *([REST] if exact < 1 else [])]
    values = parts | {REST: reward - found.expected(_filled(parts))}
    split = _Split(grouped, reward, values, found, source, others)
    whole = sorted(
        (split.part(name, None, np.ones(len(reward), bool)) for name in names),
        key=lambda part: -(part.share if part.share is not None else -np.inf),
    )
    steps = list(split.by_step(names)) if by_step else []
    deviation = grouped.centred(reward)
    spread = np.bincount(grouped.group, deviation**2)
    sizes = grouped.sizes
    alone = int(np.count_nonzero(sizes == 1))
    return RewardAnatomy(
        parts=(*whole, *steps),
        samples=len(reward),
        groups=len(sizes),
        alone=alone,
        equal=int(np.count_nonzero(spread <= _ROUNDED * sizes)) - alone,
        without_reward=len(rows) - len(reward),
        exact=exact,
        source=source,
        remarks=remarks,
    )


def _remarks(grouped: GroupRows, parts: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    found = []
    if not len(grouped.rows):
        found.append("No sample has a finite reward.")
    if not parts:
        found.append(
            "No parts are logged: log them as rewards/NAME, or as an object of numbers named rewards."
        )
    if not grouped.is_grouped:
        found.append("The run has no groups: deviations are those from the mean of the step.")
    return tuple(found)


def _filled(parts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the parts with 0 for missing values, as trainers sum them (TRL: ``nansum``)."""
    return {name: np.nan_to_num(each) for name, each in parts.items()}


def _sum_used(
    view: RunView, reward: np.ndarray, parts: Mapping[str, np.ndarray]
) -> tuple[RewardSum, Source, float]:
    """Return the weighted sum, where its weights come from, and the share of samples that it equals."""
    filled, declared = _filled(parts), view.constants.get("reward_weights")
    tried: list[tuple[Source, RewardSum]] = []
    if isinstance(declared, Mapping) and all(name in declared for name in parts):
        tried.append(
            ("declared", RewardSum({name: declared[name] for name in parts}, 0.0, {}, is_unique=True))
        )
    tried.append(("sum", RewardSum(dict.fromkeys(parts, 1.0), 0.0, {}, is_unique=True)))
    for source, found in tried:
        exact = close_share(found.expected(filled), reward)
        if exact >= _IS_SUM:
            return found, source, exact
    found = fitted_sum(reward, filled)
    return found, "fitted", close_share(found.expected(filled), reward)


def _others(view: RunView, grouped: GroupRows) -> dict[str, np.ndarray]:
    """Return what parts are compared with besides one another: length, and a held-out score."""
    snapshot = view.snapshot
    length = next((name for name in ("response_tokens", "response_chars") if snapshot.has_number(name)), "")
    columns = {
        "length": length,
        "valid_reward": "valid_reward" if snapshot.has_number("valid_reward") else "",
    }
    return {
        name: view.counted(column, grouped.rows).astype(float) for name, column in columns.items() if column
    }


@dataclass(frozen=True)
class _Split:
    """Splits the variance within groups among the parts."""

    grouped: GroupRows
    reward: np.ndarray
    values: Mapping[str, np.ndarray]
    found: RewardSum
    source: Source
    others: Mapping[str, np.ndarray]

    def by_step(self, names: list[str]) -> Iterator[RewardPart]:
        """Yield the parts of each step."""
        order = np.argsort(self.grouped.step, kind="stable")
        steps, starts = np.unique(self.grouped.step[order], return_index=True)
        for step, where in zip(steps.tolist(), np.split(order, starts[1:]), strict=True):
            for name in names:
                yield self.part(name, step, where)

    def part(self, name: str, step: int | None, where: np.ndarray) -> RewardPart:
        """Return a part over some of the samples."""
        values = self.values[name][where]
        known = np.isfinite(values)
        weight, reasons = self._weight(name)
        mean = float(values[known].mean()) if known.any() else None
        if mean is None:
            reasons["mean"] = "no sample has a finite value"
        filled = self._filled_part(name)
        contribution = share = None
        deviation = self._deviation[where]
        total = float((deviation**2).sum())
        if weight is None:
            reasons["contribution"] = reasons["share"] = reasons["weight"]
        else:
            contribution = weight * float(filled[where].mean())
            part = self._centred(name, filled)[where]
            if total > _ROUNDED * len(deviation):
                share = weight * float((part * deviation).sum()) / total
            else:
                reasons["share"] = "the rewards of each group are equal"
        correlations = self._correlations(name, where) if step is None else {}
        return RewardPart(
            name=name,
            step=step,
            samples=int(known.sum()),
            missing=int((~known).sum()),
            mean=mean,
            weight=weight,
            source=self.source if weight is not None and name != REST else "",
            contribution=contribution,
            share=share,
            correlations=correlations,
            reasons=reasons,
        )

    def _weight(self, name: str) -> tuple[float | None, dict[str, str]]:
        if name == REST:
            return 1.0, {}
        if name in self.found.constant:
            return None, {"weight": "the part is the same in all samples"}
        if not self.found.is_unique:
            return None, {"weight": "parts depend on one another, so that several weights fit; declare them"}
        return self.found.weights[name], {}

    def _correlations(self, name: str, where: np.ndarray) -> dict[str, float | None]:
        mine = self.grouped.centred(self.values[name])[where]
        others = {other: each for other, each in self.values.items() if other not in (name, REST)} | dict(
            self.others
        )
        return {
            other: _correlation(mine, self.grouped.centred(each)[where]) for other, each in others.items()
        }

    @property
    def _deviation(self) -> np.ndarray:
        return self._centred("", self.reward)

    def _centred(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return centred values, each column's once."""
        if name not in self._known:
            self._known[name] = self.grouped.centred(values)
        return self._known[name]

    def _filled_part(self, name: str) -> np.ndarray:
        """Return a part with 0 for missing values, each one's once: steps are many."""
        key = f"\0{name}"
        if key not in self._known:
            self._known[key] = np.nan_to_num(self.values[name])
        return self._known[key]

    _known: dict[str, np.ndarray] = field(default_factory=dict)


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the correlation of deviations where both are finite; None if one of them does not vary."""
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    if not scale > _ROUNDED * max(len(a), 1):
        return None
    return float((a * b).sum()) / scale
