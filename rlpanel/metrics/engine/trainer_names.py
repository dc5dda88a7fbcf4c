"""Table of trainers' scalars that equal one of our numbers, with the versions and conditions for it.

Tooltips, the curve menu, the docs and the comparison with the trainer's log read this table. Equal names
prove nothing: TRL's ``kl`` is a different number in GRPO, RLOO and PPO, and ``reward_std`` changed in TRL
0.27. A row belongs here only if a test compares it with the trainer's own log or code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rlpanel.metrics.engine import trainer_facts as facts
from rlpanel.metrics.engine.step_statistics import split_statistic
from rlpanel.metrics.engine.trainer_facts import Condition

#: How often a trainer computes a scalar: once per rollout, or once per optimizer step.
Frequency = Literal["rollout", "optimizer step"]


@dataclass(frozen=True)
class TrainerScalar:
    """A scalar of a trainer and the number of ours that it equals.

    Attributes
    ----------
    name : str
        The trainer's name; ``*`` stands for the name of a reward function or column.
    number : str
        Our curve: a sample column (its mean per step), a column with a statistic, or a step metric; ``*`` as
        in ``name``.
    trainer : str
        Trainer and algorithms, for docs and tooltips.
    since : str
        First version of the trainer in which both are equal, for the docs.
    conditions : tuple of Condition
        What must hold for the two to be equal.
    frequency : str
        ``rollout`` or ``optimizer step``; they differ if a rollout is trained on in several steps.
    skips_missing : bool
        True if the trainer leaves out samples without a value.
    last_pass : bool
        True if our number is of the last pass through a rollout, which the trainer logs some steps later.
    rounding : float
        Rounding of the logged rows, in the number's unit; added to the tolerance of the comparison.
    """

    name: str
    number: str
    trainer: str
    since: str = ""
    conditions: tuple[Condition, ...] = ()
    frequency: Frequency = "rollout"
    skips_missing: bool = False
    last_pass: bool = False
    rounding: float = 0.0

    def number_of(self, scalar: str) -> str | None:
        """Return our curve for a scalar of the trainer's log; None if the row is about another scalar."""
        return _translate(scalar, self.name, self.number)

    def name_of(self, curve: str) -> str | None:
        """Return the trainer's name of one of our curves; None if the row is about another curve."""
        (column, statistic), (own, own_statistic) = split_statistic(curve), split_statistic(self.number)
        if statistic != own_statistic:
            return None
        return _translate(column, own, self.name)


def _translate(name: str, pattern: str, into: str) -> str | None:
    """Return ``into`` with its ``*`` replaced by what the pattern's ``*`` matches; None without a match."""
    match = re.fullmatch(re.escape(pattern).replace(r"\*", "(.+)"), name)
    return into.replace("*", match.group(1) if match.groups() else "*") if match else None


_BOTH, _GRPO, _RLOO, _PPO = "TRL GRPO and RLOO", "TRL GRPO", "TRL RLOO", "TRL PPO"
_VERL = "verl"

TABLE: tuple[TrainerScalar, ...] = (
    TrainerScalar("reward", "reward", _BOTH, "0.14 (RLOO 0.22)", (facts.GRPO_OR_RLOO,)),
    TrainerScalar("reward_std", "reward:std", _BOTH, "0.27", (facts.GRPO_OR_RLOO, facts.trl_since("0.27"))),
    TrainerScalar("rewards/*/mean", "rewards/*", _BOTH, "0.17 (RLOO 0.22)", skips_missing=True),
    TrainerScalar("rewards/*/std", "rewards/*:std", _BOTH, "0.17 (RLOO 0.22)", skips_missing=True),
    TrainerScalar("completions/mean_length", "response_tokens", _BOTH, "0.17 (RLOO 0.22)"),
    TrainerScalar("completions/min_length", "response_tokens:min", _BOTH, "0.17 (RLOO 0.22)"),
    TrainerScalar("completions/max_length", "response_tokens:max", _BOTH, "0.17 (RLOO 0.22)"),
    TrainerScalar("completions/clipped_ratio", "truncated", _BOTH, "0.17 (RLOO 0.22)"),
    TrainerScalar(
        "kl",
        "kl_k3_micro",
        _GRPO,
        "0.16",
        (facts.GRPO, facts.WHOLE_ROLLOUT, facts.POOLED_OVER_RANKS),
        "optimizer step",
    ),
    TrainerScalar("kl", "kl_k1_pooled", _RLOO, "0.22", (facts.RLOO, facts.POOLED_OVER_RANKS)),
    TrainerScalar(
        "entropy",
        "entropy_micro",
        _BOTH,
        "0.20 (RLOO 0.22)",
        (facts.GRPO_OR_RLOO, facts.WHOLE_ROLLOUT, facts.POOLED_OVER_RANKS),
        "optimizer step",
        rounding=5e-5,
    ),
    TrainerScalar(
        "clip_ratio/region_mean",
        "clipfrac",
        _GRPO,
        "0.17",
        (
            facts.GRPO,
            facts.TOKEN_RATIOS,
            facts.WHOLE_ROLLOUT,
            facts.ONE_MICRO_BATCH,
            facts.POOLED_OVER_RANKS,
        ),
        "optimizer step",
        last_pass=True,
    ),
    TrainerScalar("objective/scores", "reward", _PPO, "0.12"),
    TrainerScalar("objective/kl", "log_ratio_sum", _PPO, "0.12", (facts.K1,)),
    TrainerScalar("objective/kl", "kl_k3_sum", _PPO, "0.17", (facts.K3,)),
    TrainerScalar("objective/entropy", "surprisal_sum", _PPO, "1.10", (facts.trl_since("1.10"),)),
    TrainerScalar("objective/non_score_reward", "non_score_reward", _PPO, "0.12", (facts.NOT_WHITENED,)),
    TrainerScalar("objective/rlhf_reward", "rlhf_reward", _PPO, "0.12", (facts.NOT_WHITENED,)),
    TrainerScalar("critic/score/mean", "reward", _VERL, "0.1", (facts.NO_EMPTY_RESPONSE,)),
    TrainerScalar("critic/score/min", "reward:min", _VERL, "0.1", (facts.NO_EMPTY_RESPONSE,)),
    TrainerScalar("critic/score/max", "reward:max", _VERL, "0.1", (facts.NO_EMPTY_RESPONSE,)),
    *(
        row
        for statistic, ending in (("mean", ""), ("min", ":min"), ("max", ":max"))
        for row in (
            TrainerScalar(f"response_length/{statistic}", f"trajectory_tokens{ending}", _VERL, "0.1"),
            TrainerScalar(
                f"response_length/{statistic}", f"response_tokens{ending}", _VERL, "0.1", (facts.NO_TOOLS,)
            ),
        )
    ),
    TrainerScalar("critic/advantages/mean", "advantage_pooled", _VERL, "0.1"),
    TrainerScalar("critic/returns/mean", "return_pooled", _VERL, "0.1"),
    TrainerScalar("critic/values/mean", "value_pooled", _VERL, "0.1"),
)
#: The mean of a column that the user's own code logs; the name alone does not prove it.
USERS_MEAN = TrainerScalar(
    "*_mean",
    "*",
    "your own log",
    conditions=(Condition("your code logs the mean of this column", lambda _: None),),
)


@lru_cache(4096)
def rows_of(scalar: str) -> tuple[tuple[TrainerScalar, str], ...]:
    """Return the rows about a scalar of a trainer's log, each with our curve's name."""
    named = [(row, row.number_of(scalar)) for row in (*TABLE, USERS_MEAN)]
    return tuple((row, curve) for row, curve in named if curve is not None)


@lru_cache(4096)
def names_of(curve: str) -> tuple[tuple[TrainerScalar, str], ...]:
    """Return the rows about one of our curves, each with the trainer's name."""
    named = [(row, row.name_of(curve)) for row in TABLE]
    return tuple((row, scalar) for row, scalar in named if scalar is not None)
