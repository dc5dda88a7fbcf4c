"""The run's own loss: as ``run.json`` names it, else by the formula that its advantages follow.

Nothing is assumed in silence: what is not logged has its usual value and is listed as assumed. Without a name
and without advantages that a formula fits, the loss is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.lint.advantage_rules import advantage_formula
from rlpanel.metrics.engine.trainer_names import algorithm_of
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.update.loss_algorithms import ALGORITHMS, UpdateAlgorithm, algorithm_named
from rlpanel.update.update_batch import UpdateBatch

#: Largest share of the samples that a formula may miss.
_MISSED = 0.2
#: Formula of `advantage_formula`, as its name begins → loss.
_INFERRED = (
    ("std of the group", "grpo"),
    ("one std for the step", "reinforce++-baseline"),
    ("mean of the group", "dr_grpo"),
    ("mean of the others", "rloo"),
    ("mean and std of the step", "reinforce++"),
)
#: How a loss averages, as trainers name it.
_AVERAGINGS: Mapping[str, str] = {
    "grpo": "seq-mean-token-mean",
    "sequence": "seq-mean-token-mean",
    "seq-mean-token-mean": "seq-mean-token-mean",
    **dict.fromkeys(("dapo", "bnpo", "cispo", "token-mean", "token"), "token-mean"),
    **dict.fromkeys(("dr_grpo", "seq-mean-token-sum-norm", "constant"), "constant"),
    "seq-mean-token-sum": "seq-mean-token-sum",
}
_CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "epsilon": ("epsilon", "clip_ratio_low", "clip_ratio", "cliprange", "eps_clip"),
    "epsilon_high": ("epsilon_high", "clip_ratio_high", "eps_clip_high"),
    "dual_clip": ("delta", "clip_ratio_c"),
    "beta": ("beta", "kl_loss_coef", "kl_coef", "init_kl_coef"),
    "max_length": ("max_completion_length", "max_response_length", "response_length"),
}
_SCALES = {"group": "group std", "batch": "step std", "none": "group mean"}
_ESTIMATORS = {"kl": "k1", "mse": "k2", "low_var_kl": "k3", "k1": "k1", "k2": "k2", "k3": "k3"}


@dataclass(frozen=True)
class OwnLoss:
    """The run's own loss.

    Attributes
    ----------
    algorithm : UpdateAlgorithm or None
        None if it is not known.
    found : str
        Sentence that says how it was found, or what to do if it was not.
    assumed : tuple of str
        What is not logged and has its usual value.
    by_formula : UpdateAlgorithm or None
        The loss with the advantages of its formula, for other rewards; ``algorithm`` takes the logged ones.
    """

    algorithm: UpdateAlgorithm | None
    found: str
    assumed: tuple[str, ...] = field(default=())
    by_formula: UpdateAlgorithm | None = None


def own_loss(view: RunView, batch: UpdateBatch, named: str = "") -> OwnLoss:
    """Return the run's own loss.

    Parameters
    ----------
    view : RunView
    batch : UpdateBatch
        Samples of the steps.
    named : str
        A key of `ALGORITHMS` that the user gives.

    Raises
    ------
    SettingError
        If there is no such loss.
    """
    logged = view.snapshot.constants.logged
    if named:
        return _completed(algorithm_named(named), "The algorithm was given.", logged, batch)
    name = _name_in(logged)
    if name:
        try:
            return _completed(algorithm_named(name), f"run.json names {name}.", logged, batch)
        except SettingError:
            # The constant of a custom trainer may be any word; advantages may still say what it does.
            pass
    if view.snapshot.has_number("value_mean"):
        found = "The run logs a critic's values, as PPO does."
        return _completed(ALGORITHMS["ppo"], found, logged, batch)
    inferred = _by_advantages(view, batch)
    if inferred is not None:
        return _completed(inferred[0], inferred[1], logged, batch)
    unknown = f"run.json names {name!r}, which is not known. " if name else ""
    advice = f"Name it as algo in run.json, or give one of {', '.join(ALGORITHMS)}."
    return OwnLoss(None, f"{unknown}The algorithm is not known. {advice}")


def _name_in(logged: Mapping[str, Any]) -> str:
    """Return the name of the loss in ``run.json``; empty if there is none."""
    mode = str(logged.get("loss_mode") or "").lower()
    if mode in ("gspo", "cispo"):
        return mode
    estimator = next((logged[key] for key in ("adv_estimator", "advantage_estimator") if logged.get(key)), "")
    name = str(estimator).lower() or algorithm_of(logged)
    if name == "gae":
        return "ppo"
    if name == "grpo" and logged.get("loss_type") in ("dr_grpo", "cispo"):
        return str(logged["loss_type"])
    return name


def _by_advantages(view: RunView, batch: UpdateBatch) -> tuple[UpdateAlgorithm, str] | None:
    """Return the loss whose formula the logged advantages follow, and how well; None if none fits."""
    rows = np.unique(batch.rows)
    steps = np.unique(batch.steps)
    if not len(rows) or not view.grouped:
        return None
    marks = advantage_formula(RowBatch(view, rows, steps))
    # Groups of equal rewards fit every formula.
    missed = {name: int((found.values == 1).sum()) for name, found in marks.items()}
    checked = max((int(np.isfinite(found.values).sum()) for found in marks.values()), default=0)
    if not checked or not np.any(np.nan_to_num(batch.advantage)):
        return None
    best = min(missed, key=lambda name: missed[name])
    if missed[best] > _MISSED * checked:
        return None
    name = next(name for begins, name in _INFERRED if best.startswith(begins))
    fits = 1 - missed[best] / checked
    also = [other for other in missed if other != best and missed[other] == missed[best]]
    more = f" As many fit: {', '.join(also)}." if also else ""
    text = f"Inferred from the logged advantages: {fits:.0%} of {checked:,} samples fit the formula {best}."
    return ALGORITHMS[name], f"{text}{more}"


def _completed(
    algorithm: UpdateAlgorithm, found: str, logged: Mapping[str, Any], batch: UpdateBatch
) -> OwnLoss:
    """Return the loss with the constants in ``run.json``, and a list of those that are not there."""
    changes: dict[str, Any] = {}
    assumed: list[str] = []
    for name, keys in _CONSTANTS.items():
        value = next((logged[key] for key in keys if _is_number(logged.get(key))), None)
        if value is not None:
            changes[name] = int(value) if name == "max_length" else float(value)
    if "epsilon" in changes and "epsilon_high" not in changes:
        changes["epsilon_high"] = changes["epsilon"]
    if algorithm.clip == "cap" and "epsilon_high" in changes and logged.get("loss_type") == "cispo":
        # TRL's epsilon_high of CISPO is the cap itself, and there is no lower one.
        changes |= {"epsilon_high": changes["epsilon_high"] - 1, "epsilon": 1.0}
    averaging = next(
        (
            _AVERAGINGS[str(logged[key]).lower()]
            for key in ("loss_agg_mode", "loss_type")
            if str(logged.get(key, "")).lower() in _AVERAGINGS
        ),
        None,
    )
    if averaging is not None:
        changes["averaging"] = averaging
    else:
        assumed.append(f"averaging {algorithm.averaging}: loss_type or loss_agg_mode is not in run.json")
    if logged.get("importance_sampling_level") == "sequence":
        changes["ratio"] = "sequence mean"
    scale = logged.get("scale_rewards")
    scale = {True: "group", False: "none"}.get(scale, scale) if isinstance(scale, bool) else scale
    if algorithm.advantage == "group std" and scale in _SCALES:
        changes["advantage"] = _SCALES[str(scale)]
    if logged.get("kl_loss_type") in _ESTIMATORS or logged.get("kl_estimator") in _ESTIMATORS:
        key = "kl_loss_type" if logged.get("kl_loss_type") in _ESTIMATORS else "kl_estimator"
        changes["estimator"] = _ESTIMATORS[str(logged[key])]
    if logged.get("use_kl_loss") is False:
        changes["beta"] = 0.0
    if algorithm.name == "dapo":
        # Dynamic sampling and the overlong filter are switches of their own in the trainers.
        changes |= {"drop_flat": False, "drop_truncated": bool(logged.get("mask_truncated_completions"))}
    elif logged.get("mask_truncated_completions"):
        changes["drop_truncated"] = True
    by_formula = replace(algorithm, **changes)
    if batch.advantages is not None or np.isfinite(batch.advantage).any():
        changes["advantage"] = "logged"
    elif algorithm.advantage != "logged":
        assumed.append("advantages by the formula, since none are logged")
    if batch.has_ratio and algorithm.clip != "none" and "epsilon" not in changes:
        assumed.append(
            f"clip range {algorithm.epsilon:g} and {algorithm.epsilon_high:g}: epsilon is not in run.json"
        )
    if batch.reference is not None and "beta" not in changes:
        assumed.append("no KL term: beta is not in run.json")
    if batch.reference is None and changes.get("beta", algorithm.beta):
        if algorithm.kl == "loss":
            beta = changes.get("beta", algorithm.beta)
            assumed.append(f"the gradient without its KL term of β = {beta:g}: ref_logprobs is not logged")
            changes["beta"] = 0.0
        elif changes.get("advantage") == "logged":
            changes["beta"] = 0.0  # logged advantages have the term of the reward
    return OwnLoss(replace(algorithm, **changes), found, tuple(assumed), by_formula)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < 1e300
