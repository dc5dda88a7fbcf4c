"""Broken runs whose cause is the computation of advantages, or the critic."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.advantages import add_gae, group_statistics
from tests.bench.broken_runs.breakage import Breakage, Shape
from tests.bench.broken_runs.sample_table import SampleTable

_GROUPED: dict[str, Any] = {"algorithm": ["grpo", "dr_grpo", "rloo"]}
_CRITIC: dict[str, Any] = {
    "algorithm": "ppo",
    "reward": ["binary", "graded", "model"],
    "text": ["words", "code"],
}


class AdvantageSign(Breakage):
    """Advantages have the wrong sign."""

    rules = ("advantage_sign",)
    limits = _GROUPED

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        table.numbers["advantage"] = table.numbers["advantage"] * np.where(strength > 0, -1, 1)


class AdvantageSignAlways(AdvantageSign):
    """Advantages have the wrong sign from the first step on."""

    shape: ClassVar[Shape] = "always"


class AdvantageSignPpo(Breakage):
    """PPO's advantages have the wrong sign."""

    rules = ("advantage_sign",)
    limits = _CRITIC

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        sign = np.where(strength > 0, -1, 1)[table.owner]
        table.arrays["advantages"] = table.arrays["advantages"] * sign


class AdvantageCentre(Breakage):
    """The mean of the group is not subtracted from the rewards."""

    rules = ("advantage_centre",)
    limits = _GROUPED | {"reward": ["binary", "graded", "parts", "heavy"], "start": (-0.5, 0.5)}

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        reward = table.numbers["reward"]
        _, std = group_statistics(table, reward)
        wrong = reward / (std + 1e-4) if self.setup.algorithm == "grpo" else reward
        wrong = np.where(std < 1e-6, reward, wrong)
        table.numbers["advantage"] = np.where(strength > 0, wrong, table.numbers["advantage"])


class AdvantageScale(Breakage):
    """Advantages are not divided by the group's standard deviation, though the run's GRPO is set to do so."""

    rules = ("advantage_scale",)
    severity = "warning"
    limits = {"algorithm": "grpo", "run_json": True, "reward": ["binary", "graded", "parts"]}

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        mean, _ = group_statistics(table, table.numbers["reward"])
        centred = table.numbers["reward"] - mean
        table.numbers["advantage"] = np.where(strength > 0, centred, table.numbers["advantage"])


class AdvantageScaleAlways(AdvantageScale):
    """Advantages are not divided by the group's standard deviation from the first step on."""

    shape: ClassVar[Shape] = "always"


class AdvantageExplodes(Breakage):
    """A penalty is added after the group's standard deviation is computed, which is 0 in some groups."""

    rules = ("advantage_explodes",)
    limits = {"algorithm": "grpo", "reward": "binary", "start": (0.0, 0.8)}

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        reward = table.numbers["reward"]
        mean, std = group_statistics(table, reward)
        penalty = 0.02 * np.abs(self.draw.normal(size=len(table)))
        wrong = (reward - penalty - mean) / (std + 1e-4)
        table.numbers["advantage"] = np.where(strength > 0, wrong, table.numbers["advantage"])


class CriticUseless(Breakage):
    """The critic's values are noise: they explain less than nothing of the returns."""

    rules = ("critic_variance", "critic_error")
    limits = _CRITIC

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        self.scale = 2.5 * float(table.numbers["reward"].std())

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        offset = self.scale * self.draw.normal(size=len(table))[table.owner]
        noise = offset + 0.5 * self.scale * self.draw.normal(size=len(table.owner))
        table.arrays["values"] = np.where((strength > 0)[table.owner], noise, table.arrays["values"])
        add_gae(table)


class CriticErrorGrows(Breakage):
    """The critic's values drift away from the returns, all by the same amount."""

    rules = ("critic_error",)
    shape: ClassVar[Shape] = "slide"
    limits = _CRITIC

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        drift = 4.0 * float(table.numbers["reward"].std()) * strength
        table.arrays["values"] = table.arrays["values"] + drift[table.owner]
        add_gae(table)
