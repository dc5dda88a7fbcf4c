"""Samples of one prompt in one step: what they tell about each other, and the advantages that follow.

``groups`` are runs of rows of one step with one explicit id, else one prompt. A group of one is no group and
has no value. A reward that is missing is missing for its own sample; the others are compared without it.

References
----------
Shao et al. 2024, DeepSeekMath (GRPO); Liu et al. 2025, Understanding R1-Zero-Like Training (Dr. GRPO);
Ahmadian et al. 2024, Back to Basics (RLOO); Yu et al. 2025, DAPO (zero variance); Chen et al. 2021,
Evaluating Large Language Models Trained on Code (pass@k).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments
from rlpanel.metrics.reward import SAME

#: What GRPO adds to the deviation.
_EPSILON = 1e-4


# -- one number a group ------------------------------------------------------------------------------


@metric(
    "group mean",
    level="group",
    unit="reward",
    good="up",
    color="policy",
    advice="Compare with the prompt's own past: prompts differ in how hard they are.",
)
def group_mean(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Mean reward of the group."""
    return _of_several(groups, reward, groups.mean(reward))


@metric(
    "group deviation",
    level="group",
    unit="reward",
    color="policy",
    advice="0 means that no sample of the group is preferred, so it teaches nothing.",
)
def group_std(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Standard deviation (ddof 1) of the group's rewards."""
    return _of_several(groups, reward, groups.std(reward))


@metric(
    "group best",
    level="group",
    unit="reward",
    good="up",
    color="good",
    advice="What the policy can do with luck.",
)
def group_best(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Highest reward of the group."""
    return _of_several(groups, reward, groups.max(reward))


@metric(
    "group worst", level="group", unit="reward", good="up", color="bad", advice="What it still does wrong."
)
def group_worst(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Lowest reward of the group."""
    return _of_several(groups, reward, groups.min(reward))


@metric(
    "zero variance",
    level="group",
    source="DAPO",
    good="down",
    color="bad",
    advice="The group has no learning signal, whether all its answers are right or all are wrong.",
)
def group_zero_variance(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """1 where all rewards of the group are the same (within 1e-6)."""
    same = groups.max(reward) - groups.min(reward) <= SAME
    return _of_several(groups, reward, same.astype(float))


@metric(
    "group diversity",
    level="group",
    unit="share",
    good="up",
    color="length",
    advice="Near 0 the samples repeat one answer: collapse, or a prompt with one way to say it.",
)
def group_diversity(groups: SubSegments, response_key: np.ndarray) -> np.ndarray:
    """Distinct responses over the group's size."""
    return np.where(groups.shared, groups.distinct(response_key) / groups.sizes, np.nan)


@metric(
    "pass rate",
    level="group",
    unit="share",
    source="c / n, which is pass@1: Chen 2021",
    good="up",
    color="good",
    advice="0 is too hard for the policy as it is, 1 is solved; between them the group teaches most.",
)
def group_pass_rate(groups: SubSegments, reward: np.ndarray, pass_reward: float) -> np.ndarray:
    """Share of the group's rewards that are at least ``pass_reward``."""
    passed = np.where(np.isfinite(reward), reward >= pass_reward - SAME, np.nan)
    return _of_several(groups, reward, groups.mean(passed))


def _of_several(groups: SubSegments, reward: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(groups.count(reward) > 1, values, np.nan)


# -- one number a sample, from its group -------------------------------------------------------------

_TO_LOGGED = "Differs from the logged advantage where the trainer uses another baseline, scale or clipping."


@metric(
    "GRPO advantage",
    level="sample",
    source="(R − mean) / (std + 1e-4), ddof 1: TRL",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
)
def grpo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward less the group's mean, over its deviation."""
    std = groups.spread(_of_several(groups, reward, groups.std(reward)))
    return (reward - groups.spread(groups.mean(reward))) / (std + _EPSILON)


@metric(
    "Dr. GRPO advantage",
    level="sample",
    source="R − mean: Liu 2025",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
)
def dr_grpo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward less the group's mean."""
    return reward - groups.spread(_of_several(groups, reward, groups.mean(reward)))


@metric(
    "RLOO advantage",
    level="sample",
    source="R − mean of the others: Ahmadian 2024",
    color="reference",
    advice="TRL takes β Σ log-ratio off the reward first; with β known, that is what is compared.",
    scale="diverging",
)
def rloo_advantage(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Reward less the mean of the group's other rewards."""
    return _leave_one_out(groups, reward)


@metric(
    "RLOO advantage, KL in the reward",
    level="sample",
    source="TRL RLOO: q = R − β Σd",
    color="reference",
    advice=_TO_LOGGED,
    scale="diverging",
)
def rloo_kl_advantage(
    groups: SubSegments, reward: np.ndarray, log_ratio_sum: np.ndarray, kl_coef: float
) -> np.ndarray:
    """Reward with the KL penalty taken off, less the mean of the group's others."""
    return _leave_one_out(groups, reward - kl_coef * log_ratio_sum)


def _leave_one_out(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    total, count = groups.spread(groups.sum(reward)), groups.spread(groups.count(reward))
    return np.where(count > 1, reward - (total - reward) / (count - 1), np.nan)


_LESS = "0 everywhere says that this is the trainer's formula."


@metric(
    "logged less GRPO advantage", level="sample", good="near 0", advice=_LESS, scale="diverging", color="bad"
)
def advantage_less_grpo(groups: SubSegments, advantage: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The logged advantage less the one recomputed by GRPO's formula."""
    return advantage - grpo_advantage(groups, reward)


@metric(
    "logged less Dr. GRPO advantage",
    level="sample",
    good="near 0",
    advice=_LESS,
    scale="diverging",
    color="bad",
)
def advantage_less_dr_grpo(groups: SubSegments, advantage: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """The logged advantage less the one recomputed by Dr. GRPO's formula."""
    return advantage - dr_grpo_advantage(groups, reward)


@metric(
    "logged less RLOO advantage", level="sample", good="near 0", advice=_LESS, scale="diverging", color="bad"
)
def advantage_less_rloo(
    groups: SubSegments,
    advantage: np.ndarray,
    reward: np.ndarray,
    *,
    log_ratio_sum: np.ndarray | None = None,
    kl_coef: float | None = None,
) -> np.ndarray:
    """The logged advantage less the one by RLOO's formula, with the KL penalty where β is known."""
    if log_ratio_sum is not None and kl_coef is not None:
        reward = reward - kl_coef * log_ratio_sum
    return advantage - _leave_one_out(groups, reward)


# -- one number a step, from its groups --------------------------------------------------------------


@metric("groups", level="step", unit="groups", color="muted", advice="Groups of one sample do not count.")
def group_count(by: Segments, groups: SubSegments) -> np.ndarray:
    """How many groups the step has."""
    return groups.outer.sum(np.where(groups.shared, 1.0, np.nan))


@metric(
    "group deviation, mean",
    level="step",
    unit="reward",
    good="up",
    color="policy",
    source="mean over groups of std, ddof 1",
    advice="Falls to 0 as groups agree; the step's own deviation also has what lies between prompts.",
)
def reward_group_std(by: Segments, groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Mean deviation of the rewards within groups."""
    return groups.outer.mean(group_std(groups, reward))


@metric(
    "zero-variance groups",
    level="step",
    unit="share",
    source="DAPO",
    good="down",
    color="bad",
    advice="Groups without learning signal; TRL's frac_reward_zero_std undercounts them in float32.",
)
def zero_variance_groups(by: Segments, groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Share of groups whose rewards are all the same."""
    return groups.outer.mean(group_zero_variance(groups, reward))


@metric(
    "zero-variance groups, low",
    level="step",
    unit="share",
    source="DAPO",
    good="down",
    color="bad",
    advice="Prompts that are too hard: all samples of the group score the same, below a pass.",
)
def zero_variance_low(
    by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float
) -> np.ndarray:
    """Share of groups whose rewards are all the same, and below ``pass_reward``."""
    low = groups.mean(reward) < pass_reward - SAME
    return groups.outer.mean(low * group_zero_variance(groups, reward))


@metric(
    "zero-variance groups, high",
    level="step",
    unit="share",
    source="DAPO",
    color="good",
    advice="Prompts that are solved: all samples of the group score the same, a pass or better.",
)
def zero_variance_high(
    by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float
) -> np.ndarray:
    """Share of groups whose rewards are all the same, and at least ``pass_reward``."""
    high = groups.mean(reward) >= pass_reward - SAME
    return groups.outer.mean(high * group_zero_variance(groups, reward))


@metric(
    "group diversity, mean",
    level="step",
    unit="share",
    good="up",
    color="length",
    source="distinct responses / G",
    advice="Falls in collapse before the reward does.",
)
def response_diversity(by: Segments, groups: SubSegments, response_key: np.ndarray) -> np.ndarray:
    """Mean over groups of the share of distinct responses."""
    return groups.outer.mean(group_diversity(groups, response_key))


def _pass_at(k: int) -> None:
    """Declare pass@k."""

    @metric(
        f"pass@{k}",
        level="step",
        unit="share",
        name=f"pass_at_{k}",
        good="up",
        color="good",
        source="1 − C(n−c, k) / C(n, k): Chen 2021",
        advice="A pass is a reward of at least the constant pass_reward; groups smaller than k do not count.",
    )
    def pass_at(by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float) -> np.ndarray:
        """Chance that one of k samples of a prompt passes, without bias, mean over groups."""
        n = groups.count(reward)
        failed = groups.sum(np.where(np.isfinite(reward), reward < pass_reward - SAME, np.nan))
        drawn = np.arange(k)[:, None]
        all_fail = np.prod(np.clip(failed - drawn, 0, None) / np.maximum(n - drawn, 1), axis=0)
        return groups.outer.mean(np.where((n >= k) & groups.shared, 1 - all_fail, np.nan))


for _k in (1, 2, 4, 8):
    _pass_at(_k)
