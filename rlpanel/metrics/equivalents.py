"""Which of a trainer's scalars is the step mean of which sample column, to rounding.

A name alone is no proof: TRL's ``kl`` is three different numbers in GRPO, RLOO and PPO, and its ``entropy``
is a mean over tokens where a sample column's step mean is one over samples. Here stands only what equals.
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
    "objective/rlhf_reward": "token_reward_sum",
    "completions/mean_length": "response_tokens",
    "tokens/responses_len_mean": "response_tokens",
    "completions/clipped_ratio": "truncated",
}
#: The mean of one reward function: ``rewards/format/mean``.
_PART = re.compile(r"(rewards/.+)/mean")


def column_of(scalar: str) -> str | None:
    """The sample column whose step mean a scalar is; None where there is none."""
    part = _PART.fullmatch(scalar)
    return part.group(1) if part else _MEANS.get(scalar)


def skips_missing(scalar: str) -> bool:
    """Whether the mean is over the samples that have a number: TRL's over one reward function is."""
    return _PART.fullmatch(scalar) is not None
