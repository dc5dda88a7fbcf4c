"""Other losses on the samples of an update, side by side with the run's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlpanel.drift.corrections import CORRECTIONS
from rlpanel.errors import SettingError
from rlpanel.number_text import DUST
from rlpanel.update.loss_algorithms import ALGORITHMS, UpdateAlgorithm, algorithm_named, with_constants
from rlpanel.update.run_algorithm import OwnLoss
from rlpanel.update.token_gradient import LossTotals, PreparedLoss, correlation, loss_totals
from rlpanel.update.update_anatomy import length_ranges, range_names
from rlpanel.update.update_batch import UpdateBatch, group_moments

#: The name that stands for the run's own loss.
OWN = "own"
#: Losses that are the run's own with a correction for the engine.
_CORRECTED = ("tis", "mis", "icepop")


@dataclass(frozen=True)
class LossOutcome:
    """Result of a loss on a batch.

    Attributes
    ----------
    algorithm : UpdateAlgorithm
    is_own : bool
        Whether it is the run's own loss, unchanged.
    needs : str
        Fields without which it cannot be computed; then the numbers are None.
    approximated : tuple of str
        What is not exact.
    samples : int or None
        Samples that its filters keep.
    weighted : int or None
        Samples with a weight above 0.
    effective : float or None
        Effective number of samples, see `LossTotals.effective`.
    half : int or None
        Number of samples that carry half of the weight.
    mean, std : float or None
        Of the advantages of the samples that are kept.
    clipped : float or None
        Share of the tokens in the loss that are clipped, or whose weight is capped.
    changed, gained, lost : int or None
        Samples whose push has the other sign than by the run's own loss; samples that only this loss, and
        that only the run's own one weighs.
    correlation : float or None
        Correlation of the pushes of all tokens in the loss with those of the run's own loss.
    mass : mapping of str to float
        Share of the weight by category.
    """

    algorithm: UpdateAlgorithm
    is_own: bool = False
    needs: str = ""
    approximated: tuple[str, ...] = ()
    samples: int | None = None
    weighted: int | None = None
    effective: float | None = None
    half: int | None = None
    mean: float | None = None
    std: float | None = None
    clipped: float | None = None
    changed: int | None = None
    gained: int | None = None
    lost: int | None = None
    correlation: float | None = None
    mass: Mapping[str, float] | None = None


def chosen_losses(
    own: OwnLoss, names: Sequence[str] = (), by_formula: bool = False, **constants: Any
) -> list[UpdateAlgorithm]:
    """Return the losses to compare.

    Parameters
    ----------
    own : OwnLoss
    names : sequence of str
        Keys of `ALGORITHMS`, or `OWN`; all without one.
    by_formula : bool
        Whether the run's own loss computes its advantages, since rewards are changed.
    **constants
        Attributes of `UpdateAlgorithm`, for all of them.

    Raises
    ------
    SettingError
        If there is no such loss, or a constant is out of range.
    """
    base = own.by_formula if by_formula else own.algorithm
    found = []
    changed = any(value is not None for value in constants.values()) or by_formula
    for name in names or [*([OWN] if changed and base is not None else []), *ALGORITHMS]:
        if name == OWN:
            if base is None:
                raise SettingError(own.found)
            algorithm = replace(base, name=OWN, title=f"{base.title}, changed")
        elif name.lower() in _CORRECTED and base is not None:
            title = f"{base.title} with {CORRECTIONS[name.lower()].title}"
            algorithm = replace(base, name=name.lower(), title=title, correction=name.lower())
        else:
            algorithm = algorithm_named(name)
            if own.algorithm is not None and algorithm.averaging == "constant":
                algorithm = replace(algorithm, max_length=own.algorithm.max_length)
        found.append(with_constants(algorithm, **constants))
    return found


def compare_losses(
    batch: UpdateBatch,
    own: UpdateAlgorithm | None,
    others: Sequence[UpdateAlgorithm],
    *,
    label: str = "length",
    rewards: np.ndarray | None = None,
    pass_range: tuple[float, float] | None = None,
) -> list[LossOutcome]:
    """Return what the run's own loss and others make of a batch.

    Parameters
    ----------
    batch : UpdateBatch
    own : UpdateAlgorithm or None
        The run's own loss, which comes first; None if it is not known.
    others : sequence of UpdateAlgorithm
    label : str
        Label by whose values the weight is summed; ``length`` for ranges of the length.
    rewards : ndarray of float, shape (N,), optional
        Rewards of the others, if they differ from those of the run.
    pass_range : (float, float), optional
        The others drop groups whose mean reward lies outside of it.

    Raises
    ------
    SettingError
        If there is no such label.
    """
    code, names = _categories(batch, label)
    other_batch = batch if rewards is None else batch.with_reward(rewards)
    kept = None
    if pass_range is not None:
        mean = group_moments(other_batch, other_batch.reward).mean[batch.group]
        kept = (mean >= pass_range[0]) & (mean <= pass_range[1])
    missing = [_needs_of_other(other_batch, each) for each in others]
    losses: list[PreparedLoss] = []
    own_known = own is not None and not needs_of(batch, own)
    if own is not None and own_known:
        losses.append(PreparedLoss(batch, own))
    losses += [
        PreparedLoss(other_batch, each, kept)
        for each, needs in zip(others, missing, strict=True)
        if not needs
    ]
    totals = iter(zip(losses, loss_totals(batch, losses), strict=True))
    rows: list[LossOutcome] = []
    first: LossTotals | None = None
    if own is not None and own_known:
        loss, first = next(totals)
        rows.append(_outcome(batch, loss, first, None, code, names))
        rows[0] = replace(rows[0], is_own=True, correlation=1.0, changed=0, gained=0, lost=0)
    elif own is not None:
        rows.append(LossOutcome(own, is_own=True, needs=needs_of(batch, own)))
    for algorithm, needs in zip(others, missing, strict=True):
        if needs:
            rows.append(LossOutcome(algorithm, needs=needs))
        else:
            loss, found = next(totals)
            rows.append(_outcome(other_batch, loss, found, first, code, names))
    return rows


def needs_of(batch: UpdateBatch, algorithm: UpdateAlgorithm) -> str:
    """Return the fields that a loss needs and the batch lacks, separated by commas; empty for none."""
    needs = []
    has_reward = bool(np.isfinite(batch.reward).any())
    if algorithm.advantage == "logged":
        if batch.advantages is None and not np.isfinite(batch.advantage).any():
            needs.append("advantage or advantages")
    elif not has_reward:
        needs.append("reward")
    grouped = algorithm.advantage not in ("logged", "step whitened") or algorithm.drop_flat
    if grouped and not batch.reading.is_grouped:
        needs.append("group")
    elif grouped and batch.groups and not (np.bincount(batch.group, batch.outcome) >= 2).any():
        needs.append("groups of at least two samples")
    if algorithm.correction and batch.engine is None:
        needs.append("rollout_logprobs")
    if algorithm.correction and batch.before is None:
        needs.append("logprobs")
    if algorithm.beta and batch.reference is None:
        needs.append("ref_logprobs")
    elif algorithm.beta and batch.new is None:
        needs.append("logprobs")
    return ", ".join(dict.fromkeys(needs))


def _needs_of_other(batch: UpdateBatch, algorithm: UpdateAlgorithm) -> str:
    """Return the fields that a loss needs which is not the run's own: PPO needs a critic's advantages."""
    needs = needs_of(batch, algorithm)
    if algorithm.name != "ppo" or batch.reading.has_critic:
        return needs
    return ", ".join(filter(None, ["values", needs]))


def approximations(batch: UpdateBatch, algorithm: UpdateAlgorithm) -> tuple[str, ...]:
    """Return what is not exact in the numbers of a loss on a batch, as sentences."""
    found = []
    if not batch.has_ratio and algorithm.ratio != "one":
        found.append("The ratio is 1: old_logprobs or new_logprobs are not logged.")
    if not batch.reading.has_mask:
        found.append("All tokens are in the loss: loss_mask is not logged.")
    if algorithm.drop_truncated and not np.isfinite(batch.truncated).any():
        found.append("No sample is left out as overlong: truncated is not logged.")
    if algorithm.averaging == "constant" and not algorithm.max_length:
        found.append("The longest response of the batch stands for the longest possible one.")
    reading = batch.reading
    if reading.lengths_from_text:
        found.append(f"Lengths of {reading.lengths_from_text:,} samples are estimated: 4 characters a token.")
    if reading.unscored:
        found.append(f"The ratio of {reading.unscored:,} logprobs that are not finite is 1.")
    if reading.read < reading.total:
        found.append(f"{reading.read:,} of {reading.total:,} samples are read, in whole groups.")
    unweighted = [name for name in batch.parts if name not in batch.part_weights]
    if len(batch.parts) > 1 and unweighted:
        shown = ", ".join(unweighted)[:200]
        found.append(f"These parts of the reward count with the weight 1: {shown}. Log reward_weights.")
    late = int((~np.isfinite(batch.reward)).sum())
    if late and algorithm.advantage != "logged":
        found.append(f"{late:,} samples without a finite reward have no weight.")
    return tuple(found)


def missing_fields(batch: UpdateBatch) -> tuple[str, ...]:
    """Return the fields that are not logged and would add to the anatomy of an update."""
    found = {
        "old_logprobs or new_logprobs": batch.has_ratio,
        "loss_mask": batch.reading.has_mask,
        "response_tokens": batch.token is not None,
        "ref_logprobs": batch.reference is not None,
        "rollout_logprobs": batch.engine is not None,
        "advantage or advantages": batch.advantages is not None or bool(np.isfinite(batch.advantage).any()),
        "reward": bool(np.isfinite(batch.reward).any()),
        "rewards (its parts)": bool(batch.parts),
    }
    return tuple(name for name, is_there in found.items() if not is_there)


def weighted_rewards(
    batch: UpdateBatch, weights: Mapping[str, float], known: Mapping[str, float] | None = None
) -> tuple[np.ndarray, int]:
    """Return rewards by other weights of the parts, and how many logged rewards the parts do not explain.

    A part that is missing in a sample counts as 0, as in TRL; a sample without any part has no reward.

    Parameters
    ----------
    batch : UpdateBatch
    weights : mapping of str to float
        New weights by part; others keep theirs.
    known : mapping of str to float, optional
        Weights of the run; 1 for parts that it does not have.

    Raises
    ------
    SettingError
        If the run has no parts, or not such a part.
    """
    if not batch.parts:
        raise SettingError("other reward weights need the parts of the reward: rewards is not logged")
    unknown = [name for name in weights if name not in batch.parts]
    if unknown:
        raise SettingError(
            f"the reward has no part {unknown[0][:80]!r}; its parts are {', '.join(batch.parts)[:400]}"
        )
    usual = {name: float((known or {}).get(name, 1.0)) for name in batch.parts}
    any_part = np.any([np.isfinite(part) for part in batch.parts.values()], axis=0)

    def total(by: Mapping[str, float]) -> np.ndarray:
        parts = [by[name] * np.where(np.isfinite(part), part, 0.0) for name, part in batch.parts.items()]
        return np.where(any_part, np.sum(parts, axis=0), np.nan)

    now = total(usual)
    both = np.isfinite(batch.reward) & np.isfinite(now)
    apart = both & (np.abs(now - batch.reward) > 1e-4 * np.maximum(np.abs(batch.reward), 1))
    return total({**usual, **weights}), int(apart.sum())


def _categories(batch: UpdateBatch, label: str) -> tuple[np.ndarray, list[str]]:
    if label == "length":
        return length_ranges(batch), range_names()
    if label not in batch.labels:
        known = ", ".join(["length", *batch.labels])
        raise SettingError(f"there is no label {label[:80]!r} with a few values; known are {known[:400]}")
    values = [value if value is not None else "" for value in batch.labels[label]]
    names = sorted(set(values))
    codes = {name: at for at, name in enumerate(names)}
    return np.array([codes[value] for value in values], np.int64), names


def _outcome(
    batch: UpdateBatch,
    loss: PreparedLoss,
    totals: LossTotals,
    first: LossTotals | None,
    code: np.ndarray,
    names: list[str],
) -> LossOutcome:
    known = loss.advantages.sample[loss.kept & np.isfinite(loss.advantages.sample)]
    trained, weight = float(batch.trained.sum()), totals.weight
    has = weight > 0
    total = float(weight.sum())
    mass = np.bincount(code, weight, len(names)) if total else np.zeros(len(names))
    present = np.bincount(code, minlength=len(names)) > 0
    found = LossOutcome(
        loss.algorithm,
        approximated=approximations(batch, loss.algorithm),
        samples=int(loss.kept.sum()),
        weighted=int(has.sum()),
        effective=totals.effective if total else 0.0,
        half=totals.half,
        mean=_without_dust(known) if len(known) else None,
        std=float(known.std()) if len(known) else None,
        clipped=totals.clipped / trained if trained else None,
        mass={names[at]: float(mass[at]) / total for at in np.flatnonzero(present).tolist()} if total else {},
    )
    if first is None:
        return found
    own = first.weight > 0
    sign = np.sign(totals.net) * np.sign(first.net)
    return replace(
        found,
        changed=int(((sign < 0) & has & own).sum()),
        gained=int((has & ~own).sum()),
        lost=int((own & ~has).sum()),
        correlation=correlation(first, totals, int(trained)),
    )


def _without_dust(values: np.ndarray) -> float:
    """Return the mean; 0 where only the rounding of the sum is left, as of advantages that are centred."""
    mean = float(values.mean())
    return 0.0 if abs(mean) < DUST * float(np.abs(values).max()) else mean
