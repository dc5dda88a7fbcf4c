"""The weights and masks by which trainers correct for the gap, recomputed for each token.

ρ is the trainer's probability of a token divided by the engine's; of a sequence, the product over its trained
tokens. Sources: TRL's ``vllm_importance_sampling_mode`` and verl's ``rollout_is`` for truncated and masked
importance sampling, whose defaults are the bounds here; Ling team 2025 for IcePop; Zheng et al. 2025 for
GSPO; MiniMax 2025 for CISPO. GSPO and CISPO clip the ratio of an update, which here is that to the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.drift.gap_tokens import GapTokens
from rlpanel.errors import SettingError

#: Bound of a logarithm, as in verl: exp(±20).
_MAX_LOG = 20.0


@dataclass(frozen=True)
class Correction:
    """A rule that gives a weight to each token.

    Attributes
    ----------
    title : str
    sequence : str
        Of which ratio: ``""`` of the token, ``"sum"`` of the sequence, ``"mean"`` of its geometric mean.
    masks : bool
        Whether a ratio outside of the bounds has weight 0; else it is set to the bound.
    low, high : float
        Usual bounds.
    """

    title: str
    sequence: str
    masks: bool
    low: float
    high: float


CORRECTIONS = {
    "tis": Correction("truncated importance sampling by token", "", False, 0.0, 2.0),
    "mis": Correction("masked importance sampling by token", "", True, 0.0, 3.0),
    "icepop": Correction("IcePop", "", True, 0.5, 5.0),
    "sequence_truncate": Correction("truncated importance sampling by sequence", "sum", False, 0.0, 3.0),
    "sequence_mask": Correction("masked importance sampling by sequence", "sum", True, 0.0, 3.0),
    "geometric_mask": Correction("mask by the geometric mean of a sequence", "mean", True, 0.99, 1.001),
    "gspo": Correction("clipping of GSPO", "mean", False, 1 - 3e-4, 1 + 4e-4),
    "cispo": Correction("clipping of CISPO", "", False, 0.0, 1.28),
}


@dataclass(frozen=True)
class Corrected:
    """Weights that a correction gives to the trained tokens.

    Attributes
    ----------
    weight : ndarray of float, shape (T,)
        Weight of each trained token.
    changed : ndarray of bool, shape (T,)
        Whether its ratio lies outside of the bounds: it is masked, or set to a bound.
    """

    weight: np.ndarray
    changed: np.ndarray

    @property
    def kept(self) -> float:
        """Share of the tokens with a weight above 0."""
        return float((self.weight > 0).mean()) if len(self.weight) else float("nan")

    def agreement(self, logged: Corrected | None) -> float:
        """Share of the tokens with weight 0 in this or the logged correction that have it in both.

        It is Jaccard's index of the two masks; NaN without a logged correction, and where nothing is masked.
        """
        if logged is None:
            return float("nan")
        mine, other = self.weight == 0, logged.weight == 0
        either = np.count_nonzero(mine | other)
        return float(np.count_nonzero(mine & other) / either) if either else float("nan")

    @property
    def effective(self) -> float:
        """Effective sample size as a share of the tokens: (Σw)² / (n Σw²) (Kish 1965)."""
        squares = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / (len(self.weight) * squares) if squares else float("nan")


#: Name of what the trainer logged, beside the keys of `CORRECTIONS`.
LOGGED, LOGGED_TITLE = "logged", "correction as the trainer logged it"
#: A logged weight that differs from the ratio by more than this share was set by the correction.
_CLOSE = 0.02


def logged_correction(tokens: GapTokens) -> Corrected | None:
    """Return the correction as the trainer logged it; None if it logged neither mask nor weights.

    Weights are ``correction_weights``, else the ratio; those of tokens with ``is_masked`` are 0. A token
    counts as changed if it is masked, or if its logged weight is not its ratio.
    """
    has_mask, has_weight = np.isfinite(tokens.dropped), np.isfinite(tokens.weight)
    if not (has_mask | has_weight).any():
        return None
    ratio = np.exp(np.clip(tokens.gap, -_MAX_LOG, _MAX_LOG))
    masked = has_mask & (tokens.dropped != 0)
    weight = np.where(masked, 0.0, np.where(has_weight, tokens.weight, ratio))
    changed = masked | (has_weight & (np.abs(tokens.weight - ratio) > _CLOSE * np.maximum(ratio, 1.0)))
    return Corrected(weight, changed)


def correction_named(name: str, low: float | None, high: float | None) -> tuple[Correction, float, float]:
    """Return a correction by its name, and its bounds; the usual ones for None. Errors as in `corrected`."""
    if name not in CORRECTIONS:
        raise SettingError(f"there is no correction {name[:80]!r}; known are {', '.join(CORRECTIONS)}")
    rule = CORRECTIONS[name]
    low, high = rule.low if low is None else low, rule.high if high is None else high
    if not 0 <= low < high:
        raise SettingError(
            f"the bounds of a ratio must be in order, 0 <= low < high, and are {low:g} and {high:g}"
        )
    return rule, low, high


def corrected(tokens: GapTokens, name: str, low: float | None = None, high: float | None = None) -> Corrected:
    """Return the weights that a correction gives to trained tokens.

    Parameters
    ----------
    tokens : GapTokens
        Trained tokens only: the ratio of a sequence is that of the tokens here.
    name : str
        A key of `CORRECTIONS`.
    low, high : float, optional
        Bounds of the ratio; the usual ones by default.

    Raises
    ------
    SettingError
        If there is no such correction, or the bounds are not in order.
    """
    rule, low, high = correction_named(name, low, high)
    log = tokens.gap
    if rule.sequence:
        count = np.bincount(tokens.sample, minlength=len(tokens.rows))
        total = np.bincount(tokens.sample, log, len(tokens.rows))
        of_sample = total / np.maximum(count, 1) if rule.sequence == "mean" else total
        log = of_sample[tokens.sample]
    return bounded(rule, log, low, high)


def bounded(rule: Correction, log_ratio: np.ndarray, low: float, high: float) -> Corrected:
    """Return the weights that a rule gives to ratios.

    Parameters
    ----------
    rule : Correction
    log_ratio : ndarray of float
        Logarithms of the ratios, of tokens or of sequences, as the rule wants them.
    low, high : float
        Bounds of the ratio.
    """
    ratio = np.exp(np.clip(log_ratio, -_MAX_LOG, _MAX_LOG))
    changed = (ratio < low) | (ratio > high)
    weight = np.where(changed, 0.0, ratio) if rule.masks else np.clip(ratio, low, high)
    return Corrected(weight, changed)
