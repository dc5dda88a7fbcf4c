"""Metrics of a group, the samples of one prompt in one step: statistics, zero variance, pass@k.

``groups`` are the rows of a step with the same group id or, where none is logged, with the same prompt.
Groups of one sample have no value but pass@1. A missing reward is ignored; the group's other samples still
count.

References
----------
Yu et al. 2025, DAPO (zero variance); Chen et al. 2021, Evaluating Large Language Models Trained on Code
(pass@k).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments
from rlpanel.metrics.reward import EQUAL_WITHIN

_RESPONSES = "responses of one group, by their exact text"
_PASS = "rewards of the samples of one group, and the pass threshold"
_ALIKE_AND_PASS = "rewards of one group with each other and with the pass threshold"

# -- one number per group ------------------------------------------------------------------------------


@metric(
    "group mean",
    level="group",
    formula=r"\bar{R}_g = \frac{1}{n_g} \sum_{i \in g} R_i",
    unit="reward",
    good="up",
    color="policy",
    advice="Compare it with earlier steps of the same prompt, since prompts differ in difficulty.",
)
def group_mean(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Mean reward of the group's samples."""
    return values_of_several(groups, reward, groups.mean(reward))


@metric(
    "group std",
    level="group",
    formula=r"\sigma_g = \sqrt{\frac{1}{n_g - 1} \sum_{i \in g} (R_i - \bar{R}_g)^2}",
    unit="reward",
    color="policy",
    advice="At 0 no sample of the group is preferred, so the group has no learning signal.",
)
def group_std(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Standard deviation (ddof 1) of the group's rewards."""
    return values_of_several(groups, reward, groups.std(reward))


@metric(
    "group max",
    level="group",
    formula=r"\max_{i \in g} R_i",
    unit="reward",
    good="up",
    color="good",
    advice="Shows what the policy can already reach with several attempts.",
    over="nothing: it is the highest of the group's rewards",
)
def group_best(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Highest reward of the group."""
    return values_of_several(groups, reward, groups.max(reward))


@metric(
    "group min",
    level="group",
    formula=r"\min_{i \in g} R_i",
    unit="reward",
    good="up",
    color="bad",
    advice="Shows what the policy still gets wrong.",
    over="nothing: it is the lowest of the group's rewards",
)
def group_worst(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Lowest reward of the group."""
    return values_of_several(groups, reward, groups.min(reward))


@metric(
    "zero variance",
    level="group",
    formula=r"z_g = [\max_{i \in g} R_i - \min_{i \in g} R_i \le 10^{-6}]",
    source="DAPO",
    good="down",
    color="bad",
    advice="Such a group has no learning signal, whether all its answers are right or all are wrong.",
    compares="highest and lowest reward of one group",
    over="nothing: it is 0 or 1 of each group",
)
def group_zero_variance(groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """1 if all rewards of the group are equal (within 1e-6), else 0."""
    same = groups.max(reward) - groups.min(reward) <= EQUAL_WITHIN
    return values_of_several(groups, reward, same.astype(float))


@metric(
    "group diversity",
    level="group",
    formula=r"\frac{\mathrm{distinct\ responses}}{\mathrm{responses}}",
    unit="share",
    good="up",
    color="length",
    advice="Near 0 all samples give the same answer: mode collapse, or a prompt with only one good answer.",
    compares=_RESPONSES,
    over="the group's samples that have a response, all equally",
    undefined="a group of fewer than two responses",
)
def group_diversity(groups: SubSegments, response_key: np.ndarray, response_chars: np.ndarray) -> np.ndarray:
    """Number of distinct responses divided by the number of the group's responses."""
    distinct, count = groups.distinct(response_key, np.isfinite(response_chars)), groups.count(response_chars)
    return np.where(count > 1, distinct / count, np.nan)


@metric(
    "pass rate",
    level="group",
    unit="share",
    formula=r"\frac{c_g}{n_g}",
    source="c / n, which is pass@1: Chen 2021",
    good="up",
    color="good",
    advice="At 0 the prompt is too hard for the current policy, at 1 it is solved; values between teach "
    "most.",
    compares=_PASS,
)
def group_pass_rate(groups: SubSegments, reward: np.ndarray, pass_reward: float) -> np.ndarray:
    """Share of the group's rewards that are at least ``pass_reward``."""
    passed = np.where(np.isfinite(reward), reward >= pass_reward - EQUAL_WITHIN, np.nan)
    return values_of_several(groups, reward, groups.mean(passed))


def values_of_several(groups: SubSegments, reward: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values, with NaN for groups of fewer than two rewards.

    Parameters
    ----------
    groups : SubSegments
        G groups of N rows.
    reward : ndarray of float, shape (N,)
    values : ndarray of float, shape (G,)

    Returns
    -------
    ndarray of float, shape (G,)
    """
    return np.where(groups.count(reward) > 1, values, np.nan)


# -- one number per step, from its groups --------------------------------------------------------------


@metric(
    "groups",
    level="step",
    formula=r"\sum_g [n_g \ge 2]",
    unit="groups",
    color="muted",
    advice="Groups of one sample are not counted.",
    quantity="groups of at least two samples",
    over="nothing: it is a number of groups",
)
def group_count(by: Segments, groups: SubSegments) -> np.ndarray:
    """Number of groups in the step."""
    return groups.outer.sum(np.where(groups.has_several, 1.0, np.nan))


@metric(
    "group std, mean over groups",
    level="step",
    unit="reward",
    good="up",
    color="policy",
    formula=r"\frac{1}{|g|} \sum_g \sigma_g",
    source="mean over groups of std, ddof 1",
    advice="Falls to 0 as rewards within groups become equal. The step's std also contains differences "
    "between prompts.",
)
def reward_group_std(by: Segments, groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Mean over groups of the standard deviation of the group's rewards."""
    return groups.outer.mean(group_std(groups, reward))


@metric(
    "zero-variance groups",
    level="step",
    unit="share",
    formula=r"\frac{1}{|g|} \sum_g z_g",
    source="DAPO",
    good="down",
    color="bad",
    advice="These groups have no learning signal. TRL's frac_reward_zero_std undercounts them in float32.",
    compares="highest and lowest reward of one group",
)
def zero_variance_groups(by: Segments, groups: SubSegments, reward: np.ndarray) -> np.ndarray:
    """Share of groups whose rewards are all equal."""
    return groups.outer.mean(group_zero_variance(groups, reward))


@metric(
    "zero-variance groups, low",
    level="step",
    unit="share",
    formula=r"\frac{1}{|g|} \sum_g z_g [\bar{R}_g < R_\mathrm{pass}]",
    source="DAPO",
    good="down",
    color="bad",
    advice="Prompts that are too hard: all samples of the group have the same reward and fail.",
    compares=_ALIKE_AND_PASS,
)
def zero_variance_low(
    by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float
) -> np.ndarray:
    """Share of groups whose rewards are all equal and below ``pass_reward``."""
    low = groups.mean(reward) < pass_reward - EQUAL_WITHIN
    return groups.outer.mean(low * group_zero_variance(groups, reward))


@metric(
    "zero-variance groups, high",
    level="step",
    unit="share",
    formula=r"\frac{1}{|g|} \sum_g z_g [\bar{R}_g \ge R_\mathrm{pass}]",
    source="DAPO",
    color="good",
    advice="Prompts that are solved: all samples of the group have the same reward and pass.",
    compares=_ALIKE_AND_PASS,
)
def zero_variance_high(
    by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float
) -> np.ndarray:
    """Share of groups whose rewards are all equal and at least ``pass_reward``."""
    high = groups.mean(reward) >= pass_reward - EQUAL_WITHIN
    return groups.outer.mean(high * group_zero_variance(groups, reward))


@metric(
    "group diversity, mean over groups",
    level="step",
    unit="share",
    good="up",
    color="length",
    formula=r"\frac{1}{|g|} \sum_g \frac{\mathrm{distinct\ responses}_g}{\mathrm{responses}_g}",
    source="distinct responses / G",
    advice="In mode collapse it falls before the reward does.",
    compares=_RESPONSES,
    over="the step's groups with at least two responses, all equally",
)
def response_diversity(
    by: Segments, groups: SubSegments, response_key: np.ndarray, response_chars: np.ndarray
) -> np.ndarray:
    """Mean over groups of the share of distinct responses."""
    return groups.outer.mean(group_diversity(groups, response_key, response_chars))


def _groups_of(k: int) -> str:
    """Return what pass@k is averaged over."""
    if k == 1:
        return "the step's groups with a reward, all equally; a sample without a group is one"
    return f"the step's groups with at least {k} rewards, all equally"


def _pass_at(k: int) -> None:
    """Declare the metric pass@k."""

    @metric(
        f"pass@{k}",
        level="step",
        unit="share",
        name=f"pass_at_{k}",
        good="up",
        color="good",
        formula=rf"1 - \frac{{1}}{{|g|}} \sum_g \binom{{n_g - c_g}}{{{k}}} / \binom{{n_g}}{{{k}}}",
        source="1 − C(n−c, k) / C(n, k): Chen 2021",
        advice="A sample passes with a reward of at least pass_reward.",
        compares=_PASS,
        over=_groups_of(k),
        single=k == 1,
    )
    def pass_at(by: Segments, groups: SubSegments, reward: np.ndarray, pass_reward: float) -> np.ndarray:
        """Unbiased estimate of the chance that at least one of k samples passes, mean over groups."""
        n = groups.count(reward)
        failed = groups.sum(np.where(np.isfinite(reward), reward < pass_reward - EQUAL_WITHIN, np.nan))
        drawn = np.arange(k)[:, None]
        all_fail = np.prod(np.clip(failed - drawn, 0, None) / np.maximum(n - drawn, 1), axis=0)
        return groups.outer.mean(np.where(n >= k, 1 - all_fail, np.nan))


for _k in (1, 2, 4, 8):
    _pass_at(_k)
