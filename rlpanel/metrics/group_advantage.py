"""Advantages of samples over their group by the formulas of GRPO, Dr. GRPO and RLOO.

They are recomputed from rewards, and compared with the logged advantage. Samples without a reward and groups
of one sample have no value.

References
----------
Shao et al. 2024, DeepSeekMath (GRPO); Liu et al. 2025, Understanding R1-Zero-Like Training (Dr. GRPO);
Ahmadian et al. 2024, Back to Basics (RLOO).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import SubSegments
from rlpanel.metrics.group import values_of_several

#: GRPO adds this to a group's standard deviation, to avoid division by 0.
_EPSILON = 1e-4

_REWARDS = "reward of the sample and rewards of its group"
_GROUP_OF_ONE = "a sample without a reward, or in a group of fewer than two rewards"
_TO_LOGGED = "Differs from the logged advantage if the trainer uses another baseline, scale or clipping."


@metric(
    "GRPO advantage",
    level="sample",
    formula=r"A_i = \frac{R_i - \bar{R}_g}{\sigma_g + 10^{-4}}",
    source="(R − mean) / (std + 1e-4), ddof 1: TRL",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
    compares=_REWARDS,
    undefined=_GROUP_OF_ONE,
)
def grpo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward minus the group's mean, divided by the group's standard deviation."""
    std = groups.broadcast(values_of_several(groups, reward, groups.std(reward)))
    return (reward - groups.broadcast(groups.mean(reward))) / (std + _EPSILON)


@metric(
    "Dr. GRPO advantage",
    level="sample",
    formula=r"A_i = R_i - \bar{R}_g",
    source="R − mean: Liu 2025",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
    compares=_REWARDS,
    undefined=_GROUP_OF_ONE,
)
def dr_grpo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward minus the group's mean."""
    return reward - groups.broadcast(values_of_several(groups, reward, groups.mean(reward)))


@metric(
    "RLOO advantage",
    level="sample",
    formula=r"A_i = R_i - \frac{1}{n_g - 1} \sum_{j \in g, j \ne i} R_j",
    source="R − mean of the others: Ahmadian 2024",
    color="reference",
    advice="TRL first subtracts β Σ log-ratio from the reward; 'RLOO advantage, KL in the reward' does so "
    "too.",
    scale="diverging",
    compares=_REWARDS,
    undefined=_GROUP_OF_ONE,
)
def rloo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward minus the mean reward of the group's other samples."""
    return _leave_one_out(groups, reward)


@metric(
    "RLOO advantage, KL in the reward",
    level="sample",
    formula=r"A_i = q_i - \frac{1}{n_g - 1} \sum_{j \in g, j \ne i} q_j, \quad q_i = R_i - \beta \sum_t d_t",
    source="TRL RLOO: q = R − β Σd",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
    compares="reward of the sample less its KL penalty, and the same of the others of its group",
    undefined="a sample without reward or log-ratios, or the only one of its group; a run without a known β",
)
def rloo_kl_advantage(
    groups: SubSegments, reward: np.ndarray, log_ratio_sum: np.ndarray, kl_coef: float
) -> np.ndarray:
    """Reward minus KL penalty, minus the mean of the same for the group's other samples."""
    return _leave_one_out(groups, reward - kl_coef * log_ratio_sum)


def _leave_one_out(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Return the reward minus the mean of the group's other rewards; NaN in groups of one reward."""
    total, count = groups.broadcast(groups.sum(reward)), groups.broadcast(groups.count(reward))
    return np.where(count > 1, reward - (total - reward) / (count - 1), np.nan)


_NOT_LOGGED = "a sample without advantage or reward, or in a group of fewer than two rewards"
_DIFFERENCE = (
    "If it is 0 everywhere, the trainer uses this formula. Differences that rounding to float32 explains "
    "are 0."
)

#: Largest relative error of a group's mean in float32: half a unit in the last place of the rewards, and as
#: much for the sum and the quotient.
_FLOAT32 = 2.0**-22


def _difference(advantage: np.ndarray, formula: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Return the logged advantage minus the formula's; 0 where trainers that use float32 may differ."""
    difference = advantage - formula
    rounding = rounding + _FLOAT32 * np.abs(formula)
    return np.where(np.abs(difference) <= rounding, 0.0, difference)


def _rounding(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Return the error of R − mean in float32, of each sample: relative to the group's largest reward."""
    return _FLOAT32 * groups.broadcast(groups.max(np.abs(reward)))


@metric(
    "logged − GRPO advantage",
    level="sample",
    formula=r"A_i^\mathrm{logged} - \frac{R_i - \bar{R}_g}{\sigma_g + 10^{-4}}",
    good="near 0",
    advice=_DIFFERENCE,
    scale="diverging",
    color="bad",
    compares="the logged advantage and that of GRPO's formula",
    undefined=_NOT_LOGGED,
)
def advantage_less_grpo(groups: SubSegments, advantage: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Logged advantage minus the advantage recomputed by GRPO's formula."""
    scale = groups.broadcast(groups.std(reward)) + _EPSILON
    return _difference(advantage, grpo_advantage(groups, reward), _rounding(groups, reward) / scale)


@metric(
    "logged − Dr. GRPO advantage",
    level="sample",
    formula=r"A_i^\mathrm{logged} - (R_i - \bar{R}_g)",
    good="near 0",
    advice=_DIFFERENCE,
    scale="diverging",
    color="bad",
    compares="the logged advantage and that of Dr. GRPO's formula",
    undefined=_NOT_LOGGED,
)
def advantage_less_dr_grpo(groups: SubSegments, advantage: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Logged advantage minus the advantage recomputed by Dr. GRPO's formula."""
    return _difference(advantage, dr_grpo_advantage(groups, reward), _rounding(groups, reward))


@metric(
    "logged − RLOO advantage",
    level="sample",
    formula=r"A_i^\mathrm{logged} - q_i + \frac{1}{n_g - 1} \sum_{j \in g, j \ne i} q_j, \quad q_i = "
    r"R_i - \beta \sum_t d_t",
    good="near 0",
    advice=_DIFFERENCE,
    scale="diverging",
    color="bad",
    compares="the logged advantage and that of RLOO's formula",
    undefined="a sample without advantage, reward or, if β is known, log-ratios, or the only one of its "
    "group",
)
def advantage_less_rloo(
    groups: SubSegments,
    advantage: np.ndarray,
    reward: np.ndarray,
    *,
    log_ratio_sum: np.ndarray | None = None,
    kl_coef: float | None = None,
) -> np.ndarray:
    """Logged advantage minus the one by RLOO's formula, with the KL penalty in the reward if β is given."""
    if log_ratio_sum is not None and kl_coef is not None:
        reward = reward - kl_coef * log_ratio_sum
    return _difference(advantage, _leave_one_out(groups, reward), 2 * _rounding(groups, reward))
