"""Maps a trainer's logged scalars to equal numbers of rlpanel: a column's step mean, or a step metric.

Equal names are no proof: TRL's ``kl`` is a different number in each of GRPO, RLOO and PPO, and its
``entropy`` is a mean over micro-batches, while a sample column's step mean is over samples. The map contains
only scalars that equal ours up to rounding; where the name is ambiguous, the algorithm of ``run.json`` is
needed.
"""

from __future__ import annotations

import re

#: TRL's scalar → sample column.
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
#: Scalars that differ between algorithms: (algorithm in ``run.json``, scalar) → step metric.
_BY_ALGORITHM = {
    ("grpo", "kl"): "kl_k3_micro",
    ("grpo", "entropy"): "entropy_micro",
    ("rloo", "kl"): "kl_k1_pooled",
    ("rloo", "entropy"): "entropy_micro",
}
#: Mean of one reward function, such as ``rewards/format/mean``.
_REWARD_MEAN = re.compile(r"(rewards/.+)/mean")


def column_of(scalar: str, algorithm: str = "") -> str | None:
    """Return the sample column whose step mean equals a scalar, or the equal step metric; None if unknown.

    Parameters
    ----------
    scalar : str
        The trainer's name of it.
    algorithm : str
        Algorithm of the run (``grpo``, ``rloo``, ``ppo``); empty if unknown.
    """
    match = _REWARD_MEAN.fullmatch(scalar)
    return match.group(1) if match else _MEANS.get(scalar) or _BY_ALGORITHM.get((algorithm, scalar))


def skips_missing(scalar: str) -> bool:
    """Whether the trainer's mean skips samples without a value, as TRL's mean of one reward function does."""
    return _REWARD_MEAN.fullmatch(scalar) is not None
