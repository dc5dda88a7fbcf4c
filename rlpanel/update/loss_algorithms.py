"""Table of losses of reinforcement learning: advantage, ratio, clipping, averaging, KL term and filters.

A loss is that of one token, averaged over the batch. With a = advantage, ρ = ratio, c = weight of the token
by the averaging, the closed form of its gradient is in `rlpanel.update.token_gradient`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rlpanel.errors import SettingError

Advantage = Literal[
    "group std", "group mean", "leave one out", "step std", "step whitened", "group mean whitened", "logged"
]
Ratio = Literal["token", "sequence mean", "sequence product", "one"]
Clip = Literal["zero", "cap", "none"]
Averaging = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "constant"]
Estimator = Literal["k1", "k2", "k3"]

#: Formula of each advantage; r is the reward of an episode.
ADVANTAGE_FORMULAS: Mapping[str, str] = {
    "group std": "A = (r − mean of the group) ÷ (std of the group, n − 1, + 1e-4)",
    "group mean": "A = r − mean of the group",
    "leave one out": "A = r − mean of the group's others",
    "step std": "A = (r − mean of the group) ÷ (std of the step's rewards + 1e-4)",
    "step whitened": "A = (R − mean) ÷ std over all tokens in the loss, R = reward to go",
    "group mean whitened": "A = r − mean of the group, then whitened over all tokens in the loss",
    "logged": "A as it was logged",
}
RATIO_FORMULAS: Mapping[str, str] = {
    "token": "ρ = π_new(token) ÷ π_old(token)",
    "sequence mean": "ρ = exp(mean over the sequence of log π_new − log π_old)",
    "sequence product": "ρ = exp(sum over the sequence of log π_new − log π_old)",
    "one": "ρ = 1",
}
CLIP_FORMULAS: Mapping[str, str] = {
    "zero": "loss = −c min(ρA, clip(ρ, 1 − ε, 1 + ε_high) A)",
    "cap": "loss = −c min(ρ, 1 + ε_high) A log π, the capped ratio as a constant",
    "none": "loss = −c ρ A",
}
AVERAGING_FORMULAS: Mapping[str, str] = {
    "token-mean": "c = 1 ÷ tokens of the batch",
    "seq-mean-token-mean": "c = 1 ÷ (sequences × tokens of the sequence)",
    "seq-mean-token-sum": "c = 1 ÷ sequences",
    "constant": "c = 1 ÷ (sequences × longest possible response)",
}
KL_FORMULAS: Mapping[str, str] = {
    "k1": "β d, d = log π − log π_ref",
    "k2": "β d² ÷ 2, d = log π − log π_ref",
    "k3": "β (exp(−d) + d − 1), d = log π − log π_ref",
}


@dataclass(frozen=True)
class UpdateAlgorithm:
    """Declaration of a loss; all constants may be replaced.

    Attributes
    ----------
    name, title : str
    advantage : str
        A key of `ADVANTAGE_FORMULAS`.
    ratio : str
        A key of `RATIO_FORMULAS`.
    clip : str
        A key of `CLIP_FORMULAS`: ``zero`` clips the loss, so that the gradient is 0 outside; ``cap`` bounds
        the weight.
    averaging : str
        A key of `AVERAGING_FORMULAS`.
    source : str
        Paper, and function of a trainer.
    epsilon, epsilon_high : float
        Clip range below and above 1.
    dual_clip : float
        Ratio above which a token with a negative advantage has no gradient, as verl's ``clip_ratio_c``; 0
        for none.
    beta : float
        Weight of the KL term.
    kl : str
        Where the KL term is: in the ``loss`` or in the ``reward``.
    estimator : str
        Estimator of the KL term in the loss.
    kl_bound : float
        Value of the estimator k3 above which a token's KL term has no gradient: 10 in verl; 0 for none.
    max_length : int
        Longest possible response of the averaging ``constant``; 0 takes the longest one of the batch.
    drop_flat : bool
        Whether groups of equal rewards are left out, as dynamic sampling does.
    drop_truncated : bool
        Whether truncated samples are left out, as the overlong filter does.
    correction : str
        A key of `rlpanel.drift.corrections.CORRECTIONS`, or empty.
    cap_low, cap : float or None
        Bounds of the correction; its usual ones by default.
    std_epsilon : float
        Added to a standard deviation of rewards: 1e-4 in TRL, 1e-6 in verl.
    """

    name: str
    title: str
    advantage: Advantage
    ratio: Ratio
    clip: Clip
    averaging: Averaging
    source: str
    epsilon: float = 0.2
    epsilon_high: float = 0.2
    dual_clip: float = 0.0
    beta: float = 0.0
    kl: Literal["loss", "reward"] = "loss"
    estimator: Estimator = "k3"
    kl_bound: float = 0.0
    max_length: int = 0
    drop_flat: bool = False
    drop_truncated: bool = False
    correction: str = ""
    cap_low: float | None = None
    cap: float | None = None
    std_epsilon: float = 1e-4

    @property
    def formula(self) -> str:
        """The loss as text, with its constants."""
        advantage = ADVANTAGE_FORMULAS[self.advantage].replace("1e-4", f"{self.std_epsilon:g}")
        parts = [CLIP_FORMULAS[self.clip], advantage, RATIO_FORMULAS[self.ratio]]
        parts.append(AVERAGING_FORMULAS[self.averaging])
        if self.clip != "none":
            parts.append(f"ε = {self.epsilon:g}, ε_high = {self.epsilon_high:g}")
        if self.dual_clip and self.clip == "zero":
            parts.append(f"ρ of a negative A up to {self.dual_clip:g}")
        if self.beta:
            text = KL_FORMULAS[self.estimator if self.kl == "loss" else "k1"]
            bound = f", up to {self.kl_bound:g}" if self.kl_bound and self.estimator == "k3" else ""
            parts.append(f"KL in the {self.kl}: {text}, β = {self.beta:g}{bound}")
        if self.correction:
            parts.append(f"times the weight of the correction {self.correction}")
        if self.drop_flat:
            parts.append("without groups of equal rewards")
        if self.drop_truncated:
            parts.append("without truncated samples")
        return "; ".join(parts)


_GRPO = UpdateAlgorithm(
    "grpo",
    "GRPO",
    *("group std", "token", "zero", "seq-mean-token-mean"),
    source="Shao et al. 2024, DeepSeekMath; TRL GRPOTrainer with loss_type grpo; verl seq-mean-token-mean",
)
_ENGINE = "TRL vllm_importance_sampling_mode; verl rollout_is"
ALGORITHMS: Mapping[str, UpdateAlgorithm] = {
    each.name: each
    for each in (
        _GRPO,
        UpdateAlgorithm(
            "dr_grpo",
            "Dr. GRPO",
            *("group mean", "token", "zero", "constant"),
            source="Liu et al. 2025, Understanding R1-Zero-Like Training; TRL loss_type dr_grpo; verl "
            "seq-mean-token-sum-norm",
        ),
        UpdateAlgorithm(
            "rloo",
            "RLOO",
            *("leave one out", "sequence product", "zero", "seq-mean-token-sum"),
            source="Ahmadian et al. 2024, Back to Basics; TRL RLOOTrainer",
            kl="reward",
        ),
        UpdateAlgorithm(
            "reinforce++",
            "REINFORCE++",
            *("step whitened", "token", "zero", "token-mean"),
            source="Hu 2025, REINFORCE++; verl compute_reinforce_plus_plus_outcome_advantage",
            kl="reward",
        ),
        UpdateAlgorithm(
            "reinforce++-baseline",
            "REINFORCE++ with a baseline",
            *("group mean whitened", "token", "zero", "token-mean"),
            source="Hu 2025, REINFORCE++; verl compute_reinforce_plus_plus_baseline_outcome_advantage",
        ),
        UpdateAlgorithm(
            "gspo",
            "GSPO",
            *("group std", "sequence mean", "zero", "seq-mean-token-mean"),
            source="Zheng et al. 2025, GSPO; TRL importance_sampling_level sequence; verl loss_mode gspo",
            epsilon=3e-4,
            epsilon_high=4e-4,
        ),
        UpdateAlgorithm(
            "cispo",
            "CISPO",
            *("group std", "token", "cap", "token-mean"),
            source="MiniMax 2025, MiniMax-M1; TRL loss_type cispo; verl loss_mode cispo",
            epsilon=1.0,
            epsilon_high=0.28,
        ),
        UpdateAlgorithm(
            "dapo",
            "DAPO",
            *("group std", "token", "zero", "token-mean"),
            source="Yu et al. 2025, DAPO; TRL loss_type dapo; verl token-mean",
            epsilon_high=0.28,
            drop_flat=True,
            drop_truncated=True,
        ),
        UpdateAlgorithm(
            "ppo",
            "PPO",
            *("logged", "token", "zero", "token-mean"),
            source="Schulman et al. 2017, PPO; verl compute_policy_loss",
        ),
        replace(_GRPO, name="tis", title="GRPO with TIS", source=_ENGINE, correction="tis"),
        replace(_GRPO, name="mis", title="GRPO with MIS", source=_ENGINE, correction="mis"),
        replace(
            _GRPO,
            name="icepop",
            title="GRPO with IcePop",
            source="Ling team 2025, IcePop",
            correction="icepop",
        ),
    )
}
#: Names of trainers for the same losses.
_ALIASES = {
    "drgrpo": "dr_grpo",
    "reinforce_plus_plus": "reinforce++",
    "reinforce_plus_plus_baseline": "reinforce++-baseline",
    "rf++": "reinforce++",
}
_POSITIVE = (
    *("epsilon", "epsilon_high", "dual_clip", "beta", "kl_bound", "max_length", "cap", "cap_low"),
    "std_epsilon",
)


def algorithm_named(name: str, **constants: Any) -> UpdateAlgorithm:
    """Return a loss by its name, with other constants.

    Parameters
    ----------
    name : str
        A key of `ALGORITHMS`, or another usual name of it.
    **constants
        Attributes of `UpdateAlgorithm`; None keeps the usual value.

    Raises
    ------
    SettingError
        If there is no such loss or constant, or a value is out of range.
    """
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in ALGORITHMS:
        raise SettingError(f"there is no algorithm {name[:80]!r}; known are {', '.join(ALGORITHMS)}")
    return with_constants(ALGORITHMS[key], **constants)


def with_constants(algorithm: UpdateAlgorithm, **constants: Any) -> UpdateAlgorithm:
    """Return a loss with other constants; None keeps a value. Errors as in `algorithm_named`."""
    given = {name: value for name, value in constants.items() if value is not None}
    unknown = [name for name in given if name not in UpdateAlgorithm.__dataclass_fields__]
    if unknown:
        raise SettingError(f"a loss has no constant {unknown[0][:80]!r}")
    for name in _POSITIVE:
        if name in given and not 0 <= float(given[name]) < float("inf"):
            raise SettingError(f"{name} must not be below 0, and is {given[name]:g}")
    choices = {
        "advantage": ADVANTAGE_FORMULAS,
        "ratio": RATIO_FORMULAS,
        "clip": CLIP_FORMULAS,
        "averaging": AVERAGING_FORMULAS,
        "estimator": KL_FORMULAS,
        "kl": ("loss", "reward"),
    }
    for name, known in choices.items():
        if name in given and given[name] not in known:
            raise SettingError(f"{name} must be one of {', '.join(known)}, and is {given[name]!r:.80}")
    if given.get("correction"):
        from rlpanel.drift.corrections import CORRECTIONS

        if given["correction"] not in CORRECTIONS:
            raise SettingError(
                f"there is no correction {given['correction'][:80]!r}; known are {', '.join(CORRECTIONS)}"
            )
    return replace(algorithm, **given)
