"""Corrections for the gap: weights and masks by token, and those that a run's settings name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.drift.gap_tokens import GapTokens
from rlpanel.errors import SettingError
from rlpanel.sources.config.config_values import plain_name
from rlpanel.sources.config.run_config import read_run_config
from rlpanel.store.index.run_index import RunIndex

# -- corrections ---------------------------------------------------------------------------------------
# The weights and masks by which trainers correct for the gap, recomputed for each token.
#
# ρ is the trainer's probability of a token divided by the engine's; of a sequence, the product over its
# trained tokens. Sources: TRL's ``vllm_importance_sampling_mode`` and verl's ``rollout_is`` for truncated and
# masked importance sampling, whose defaults are the bounds here; Ling team 2025 for IcePop; Zheng et al. 2025
# for GSPO; MiniMax 2025 for CISPO. GSPO and CISPO clip the ratio of an update, which here is that to the
# engine.


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


# -- run corrections -----------------------------------------------------------------------------------
# Finds in a run's settings by which corrections it trains, and with which bounds.
#
# Sources, by the names of their settings: TRL 1.16 (``GRPOConfig``), verl 0.9
# (``algorithm.rollout_correction``; before 0.6 ``tis_imp_ratio_cap``), slime and miles (``--use-tis``),
# NeMo-RL (``loss_fn``), prime-rl (``trainer.loss``), open-instruct (``grpo_fast.py``), and AReaL. A bound
# that no file gives is the usual one of `CORRECTIONS`, and is named.


#: Corrections by TRL's ``vllm_importance_sampling_mode``.
_TRL = {
    "token_truncate": "tis",
    "token_mask": "mis",
    "sequence_truncate": "sequence_truncate",
    "sequence_mask": "sequence_mask",
}
#: By the level of verl's ``rollout_is``, and by its ``rollout_rs``, whose newer names end in the estimator.
_VERL_WEIGHTS = {"token": "tis", "sequence": "sequence_truncate"}
_VERL_MASKS = {
    "token": "mis",
    "token_k1": "mis",
    "sequence": "sequence_mask",
    "seq_sum_k1": "sequence_mask",
    "geometric": "geometric_mask",
    "seq_mean_k1": "geometric_mask",
}
#: By NeMo-RL's ``truncated_importance_sampling_type``.
_NEMO = {"tis": "tis", "icepop": "icepop", "seq-mask-tis": "geometric_mask"}


@dataclass(frozen=True)
class RunCorrection:
    """A correction that the run's settings name.

    Attributes
    ----------
    name : str
        A key of `CORRECTIONS`; empty for one that is not recomputed here.
    low, high : float
        Bounds of the ratio.
    settings : str
        The settings that say so, such as ``use_tis = True, tis_clip = 2.0``.
    """

    name: str
    low: float
    high: float
    settings: str


class _Settings:
    """Settings by the last part of their dotted names, in any spelling; keeps which were read."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._values: dict[str, tuple[str, Any]] = {}
        for name, value in given.items():
            self._values.setdefault(plain_name(name), (name, value))
        self._read: dict[str, Any] = {}

    def take(self, *names: str) -> Any:
        """Return the value of the first of these settings that is given and not null, or None."""
        for name in names:
            known, value = self._values.get(name, ("", None))
            if known and value is not None and str(value).lower() not in ("null", "none", ""):
                self._read[known] = value
                return value
        return None

    def number(self, *names: str) -> float | None:
        """Return a setting that is a number; None otherwise."""
        value = self.take(*names)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, *names: str) -> str:
        """Return a setting in small letters; empty if it is not given, or false."""
        value = self.take(*names)
        return "" if value is None or value is False else str(value).lower()

    def drain(self) -> str:
        """Return the settings that were read since the last call, and forget them."""
        text = ", ".join(f"{name} = {value}" for name, value in self._read.items())
        self._read = {}
        return text


def own_corrections(index: RunIndex) -> list[RunCorrection]:
    """Return the corrections that the configuration files in a run's folder name; see `run_corrections`."""
    return run_corrections(read_run_config(index.path, index.root).values)


def run_corrections(settings: Mapping[str, Any]) -> list[RunCorrection]:
    """Return the corrections for the gap by which a run trains.

    Parameters
    ----------
    settings : mapping
        Settings of the run by dotted name, as its configuration files have them.

    Returns
    -------
    list of RunCorrection
        Empty if no setting names one.
    """
    given = _Settings(settings)
    found: list[RunCorrection] = []
    for read in (_of_trl, _of_verl, _of_slime, _of_nemo, _of_prime, _of_others):
        found += read(given)
        given.drain()
    return found


def _correction(name: str, low: float | None, high: float | None, given: _Settings) -> RunCorrection:
    """Return a correction with the usual bounds where none are given; an unknown one has no name."""
    usual = CORRECTIONS.get(name)
    if usual is None:
        return RunCorrection("", float("nan"), float("nan"), given.drain())
    said = given.drain()
    if high is None:
        said += f" (the bound {usual.high:g} is assumed)"
    low, high = usual.low if low is None else low, usual.high if high is None else high
    return RunCorrection(name if low < high else "", low, high, said)


def _of_trl(given: _Settings) -> Iterator[RunCorrection]:
    mode = given.text("vllm_importance_sampling_mode")
    used = given.take("vllm_importance_sampling_correction"), given.take("use_vllm")
    if mode and False not in used:
        high = given.number("vllm_importance_sampling_clip_max", "vllm_importance_sampling_cap")
        low = given.number("vllm_importance_sampling_clip_min")
        yield _correction(_TRL.get(mode, ""), 0.0 if low is None else low, high, given)


def _of_verl(given: _Settings) -> Iterator[RunCorrection]:
    weights = given.text("rollout_is")
    if weights:
        low, high = _bounds(given.take("rollout_is_threshold"))
        # Two bounds mask what lies outside, as IcePop does; one is a cap.
        name = "icepop" if low is not None and weights == "token" else _VERL_WEIGHTS.get(weights, "")
        yield _correction(name, 0.0 if low is None else low, high, given)
    given.drain()
    masks = given.text("rollout_rs")
    if masks:
        low, high = _bounds(given.take("rollout_rs_threshold"))
        lower = given.number("rollout_rs_threshold_lower")
        if low is None and high:
            low = 1 / high if lower is None else lower  # as verl sets it
        yield _correction(_VERL_MASKS.get(masks, ""), low, high, given)
    given.drain()
    cap = given.number("tis_imp_ratio_cap")
    if cap is not None and cap > 0:
        yield _correction("tis", 0.0, cap, given)


def _of_slime(given: _Settings) -> Iterator[RunCorrection]:
    if given.take("use_tis") is not True:
        return
    own = given.text("custom_tis_function_path")
    low, high = given.number("tis_clip_low"), given.number("tis_clip")
    name = "icepop" if "icepop" in own else "" if own else "tis"
    yield _correction(name, low, high, given)


def _of_nemo(given: _Settings) -> Iterator[RunCorrection]:
    if given.take("use_importance_sampling_correction") is False:
        return
    high = given.number("truncated_importance_sampling_ratio")
    if high is not None:
        low = given.number("truncated_importance_sampling_ratio_min")
        kind = given.text("truncated_importance_sampling_type") or "tis"
        yield _correction(_NEMO.get(kind, ""), 0.0 if kind == "tis" else low, high, given)


def _of_prime(given: _Settings) -> Iterator[RunCorrection]:
    for name, part in (("mis", "token_mask"), ("geometric_mask", "geo_mask")):
        high = given.number(f"{part}_high")
        if high is not None:
            yield _correction(name, given.number(f"{part}_low") or 0.0, high, given)
        given.drain()


def _of_others(given: _Settings) -> Iterator[RunCorrection]:
    cap = given.number("truncated_importance_sampling_ratio_cap")  # open-instruct; 0 switches it off
    if cap:
        yield _correction("tis", 0.0, cap, given)
    given.drain()
    cap = given.number("behave_imp_weight_cap", "behav_imp_weight_cap")  # AReaL masks what lies above
    if cap:
        yield _correction("mis", 0.0, cap, given)


def _bounds(value: Any) -> tuple[float | None, float | None]:
    """Return both bounds of verl's thresholds: a number is the upper one, ``"0.5_5.0"`` are both."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None, float(value)
    parts = str(value or "").split("_")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None, None
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (None, numbers[0])
