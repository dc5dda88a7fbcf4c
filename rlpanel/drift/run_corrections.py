"""Finds in a run's settings by which corrections it trains, and with which bounds.

Sources, by the names of their settings: TRL 1.16 (``GRPOConfig``), verl 0.9
(``algorithm.rollout_correction``; before 0.6 ``tis_imp_ratio_cap``), slime and miles (``--use-tis``), NeMo-RL
(``loss_fn``), prime-rl (``trainer.loss``), open-instruct (``grpo_fast.py``), and AReaL. A bound that no file
gives is the usual one of `CORRECTIONS`, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.drift.corrections import CORRECTIONS
from rlpanel.sources.config.config_values import plain_name
from rlpanel.sources.config.run_config import read_run_config
from rlpanel.store.index.run_index import RunIndex

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
