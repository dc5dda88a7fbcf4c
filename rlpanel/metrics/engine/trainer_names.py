"""Which of a trainer's scalars is which number of ours, to rounding: a column's step mean, or a step metric.

A name alone is no proof: TRL's ``kl`` is three different numbers in GRPO, RLOO and PPO, and its ``entropy``
is a mean over micro-batches where a sample column's step mean is one over samples. Here stands only what
equals, and where the trainer decides, only for runs that say which one wrote them.
"""

from __future__ import annotations

import re

#: Scalar → sample column. TRL's names.
_MEANS = {
    "reward": "reward",
    "objective/scores": "reward",
    "env/reward_mean": "reward",
    "objective/kl": "log_ratio_sum",
    "objective/entropy": "surprisal_sum",
    "objective/rlhf_reward": "rlhf_reward",
    "objective/non_score_reward": "non_score_reward",
    "completions/mean_length": "response_tokens",
    "tokens/responses_len_mean": "response_tokens",
    "completions/clipped_ratio": "truncated",
}
#: By the algorithm that ``run.json`` names, because these mean something else in each.
_BY_ALGORITHM = {
    ("grpo", "kl"): "kl_k3_micro",
    ("grpo", "entropy"): "entropy_micro",
    ("rloo", "kl"): "kl_k1_pooled",
    ("rloo", "entropy"): "entropy_micro",
}
#: The mean of one reward function: ``rewards/format/mean``.
_PART = re.compile(r"(rewards/.+)/mean")


def column_of(scalar: str, algorithm: str = "") -> str | None:
    """The sample column whose step mean a scalar is, or the step metric that it is; None where there is none.

    Parameters
    ----------
    scalar : str
        As the trainer calls it.
    algorithm : str
        Which trainer wrote the run (``grpo``, ``rloo``, ``ppo``); empty where that is not known.
    """
    part = _PART.fullmatch(scalar)
    return part.group(1) if part else _MEANS.get(scalar) or _BY_ALGORITHM.get((algorithm, scalar))


def skips_missing(scalar: str) -> bool:
    """Whether the mean is over the samples that have a number: TRL's over one reward function is."""
    return _PART.fullmatch(scalar) is not None
