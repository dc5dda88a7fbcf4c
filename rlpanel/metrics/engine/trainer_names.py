"""Table of trainers' scalars that equal one of our numbers, with the versions and conditions for it.

Tooltips, the curve menu, the docs and the comparison with the trainer's log read this table. Equal names
prove nothing: TRL's ``kl`` is a different number in GRPO, RLOO and PPO, and ``reward_std`` changed in TRL
0.27. A row belongs here only if a test compares it with the trainer's own log or code.

A condition on a training holds, does not hold, or is unknown (None), because ``run.json`` is missing or lacks
the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from rlpanel.metrics.engine.metric import split_statistic

#: Content of a ``run.json``.
Facts = Mapping[str, Any]
#: Larger counts in a ``run.json`` are errors.
_MAX_COUNT = 10**6


@dataclass(frozen=True)
class Condition:
    """A condition under which a scalar equals one of our numbers.

    Attributes
    ----------
    text : str
        The condition as a clause, for tooltips and docs, such as ``the KL estimator is k1``.
    holds : callable
        Returns True, False, or None if it is unknown.
    """

    text: str
    holds: Callable[[Facts], bool | None]


def algorithm(*names: str) -> Condition:
    """Return the condition that the run's algorithm is one of these, in lower case."""

    def holds(facts: Facts) -> bool | None:
        known = algorithm_of(facts)
        return known in names if known else None

    return Condition(f"the algorithm is {' or '.join(name.upper() for name in names)}", holds)


def value(key: str, *wanted: Any, text: str) -> Condition:
    """Return the condition that a key of ``run.json`` has one of these values."""
    return Condition(text, lambda facts: facts[key] in wanted if facts.get(key) is not None else None)


def trl_since(version: str) -> Condition:
    """Return the condition that TRL has at least this version, such as ``1.9``."""

    def holds(facts: Facts) -> bool | None:
        versions = facts.get("versions")
        known = _release(versions.get("trl") if isinstance(versions, Mapping) else None)
        return known >= _release(version) if known else None

    return Condition(f"TRL is {version} or newer", holds)


def either(*conditions: Condition) -> Condition:
    """Return the condition that at least one of these holds."""

    def holds(facts: Facts) -> bool | None:
        results = [condition.holds(facts) for condition in conditions]
        if any(results):
            return True
        return None if None in results else False

    return Condition(" or ".join(condition.text for condition in conditions), holds)


def algorithm_of(facts: Facts) -> str:
    """Return the algorithm in lower case, such as ``grpo``; empty if unknown."""
    found = next((facts[key] for key in ("algo", "algorithm", "trainer") if facts.get(key)), "")
    return found.lower().removesuffix("trainer") if isinstance(found, str) else ""


def steps_per_rollout(facts: Facts) -> int | None:
    """Return the number of optimizer steps that train on one rollout of TRL; None if unknown."""
    accumulation = count(facts, "gradient_accumulation_steps")
    micro_batches = count(facts, "steps_per_generation") or accumulation
    passes = count(facts, "num_iterations")
    if accumulation is None or micro_batches is None or passes is None:
        return None
    return math.ceil(passes * micro_batches / accumulation)


def count(facts: Facts, key: str) -> int | None:
    """Return a positive number of steps, batches or processes; None if there is none that makes sense."""
    found = facts.get(key)
    usable = isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MAX_COUNT
    return found if usable else None


def _whole_rollout(facts: Facts) -> bool | None:
    accumulation, micro_batches = (
        count(facts, key) for key in ("gradient_accumulation_steps", "steps_per_generation")
    )
    return None if accumulation is None or micro_batches is None else micro_batches == accumulation


def _release(version: Any) -> tuple[int, ...]:
    """Return the numbers of a version; empty if it is not a version."""
    return tuple(map(int, re.findall(r"\d{1,6}", version)[:2])) if isinstance(version, str) else ()


GRPO, RLOO, PPO = algorithm("grpo"), algorithm("rloo"), algorithm("ppo")
GRPO_OR_RLOO = algorithm("grpo", "rloo")
ONE_PROCESS = value("processes", 1, text="there is one process")
#: Until 1.8, TRL averaged the means of ranks, which differ in length.
POOLED_OVER_RANKS = either(ONE_PROCESS, trl_since("1.9"))
WHOLE_ROLLOUT = Condition("each optimizer step trains on one whole rollout", _whole_rollout)
ONE_MICRO_BATCH = value("gradient_accumulation_steps", 1, text="each optimizer step is one micro-batch")
TOKEN_RATIOS = value("importance_sampling_level", "token", text="ratios are per token")
K1 = value("kl_estimator", "k1", text="the KL estimator is k1")
K3 = value("kl_estimator", "k3", text="the KL estimator is k3")
NOT_WHITENED = value("whiten_rewards", False, text="rewards are not whitened")
# ``run.json`` says nothing about the following, so only the comparison itself decides.
NO_TOOLS = Condition("no tool wrote tokens", lambda _: None)
#: Since 0.6 verl leaves out samples without a response.
NO_EMPTY_RESPONSE = Condition("no response is empty", lambda _: None)


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
    TrainerScalar("reward", "reward", _BOTH, "0.14 (RLOO 0.22)", (GRPO_OR_RLOO,)),
    TrainerScalar("reward_std", "reward:std", _BOTH, "0.27", (GRPO_OR_RLOO, trl_since("0.27"))),
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
        (GRPO, WHOLE_ROLLOUT, POOLED_OVER_RANKS),
        "optimizer step",
    ),
    TrainerScalar("kl", "kl_k1_pooled", _RLOO, "0.22", (RLOO, POOLED_OVER_RANKS)),
    TrainerScalar(
        "entropy",
        "entropy_micro",
        _BOTH,
        "0.20 (RLOO 0.22)",
        (GRPO_OR_RLOO, WHOLE_ROLLOUT, POOLED_OVER_RANKS),
        "optimizer step",
        rounding=5e-5,
    ),
    TrainerScalar(
        "clip_ratio/region_mean",
        "clipfrac",
        _GRPO,
        "0.17",
        (
            GRPO,
            TOKEN_RATIOS,
            WHOLE_ROLLOUT,
            ONE_MICRO_BATCH,
            POOLED_OVER_RANKS,
        ),
        "optimizer step",
        last_pass=True,
    ),
    TrainerScalar("objective/scores", "reward", _PPO, "0.12"),
    TrainerScalar("objective/kl", "log_ratio_sum", _PPO, "0.12", (K1,)),
    TrainerScalar("objective/kl", "kl_k3_sum", _PPO, "0.17", (K3,)),
    TrainerScalar("objective/entropy", "surprisal_sum", _PPO, "1.10", (trl_since("1.10"),)),
    TrainerScalar("objective/non_score_reward", "non_score_reward", _PPO, "0.12", (NOT_WHITENED,)),
    TrainerScalar("objective/rlhf_reward", "rlhf_reward", _PPO, "0.12", (NOT_WHITENED,)),
    TrainerScalar("critic/score/mean", "reward", _VERL, "0.1", (NO_EMPTY_RESPONSE,)),
    TrainerScalar("critic/score/min", "reward:min", _VERL, "0.1", (NO_EMPTY_RESPONSE,)),
    TrainerScalar("critic/score/max", "reward:max", _VERL, "0.1", (NO_EMPTY_RESPONSE,)),
    *(
        row
        for statistic, ending in (("mean", ""), ("min", ":min"), ("max", ":max"))
        for row in (
            TrainerScalar(f"response_length/{statistic}", f"trajectory_tokens{ending}", _VERL, "0.1"),
            TrainerScalar(
                f"response_length/{statistic}", f"response_tokens{ending}", _VERL, "0.1", (NO_TOOLS,)
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
