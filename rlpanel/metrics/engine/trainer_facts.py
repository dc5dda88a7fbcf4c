"""Facts about a training that decide which number a trainer's scalar is, read from ``run.json``.

A condition holds, does not hold, or is unknown (None), because ``run.json`` is missing or lacks the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: Content of a ``run.json``.
Facts = Mapping[str, Any]
#: Larger counts in a ``run.json`` are errors.
_MOST = 10**6


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
    usable = isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MOST
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
