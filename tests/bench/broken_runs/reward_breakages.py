"""Broken runs whose cause is the reward: it falls, is missing, is hacked, or no longer differs in groups."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.breakage import Breakage, Shape
from tests.bench.broken_runs.sample_table import SampleTable

_HIGH = {"curve": ["plateau", "stationary"], "start": (1.5, 2.0), "gain": (0.5, 1.0), "difficulty": 0.8}
_OFTEN_RIGHT = {"start": (0.0, 0.6), "gain": (0.8, 1.8), "curve": ["rise", "plateau", "stationary"]}


class RewardCliff(Breakage):
    """The share of right answers falls from one step to the next, as from 0.97 to 0.17."""

    rules = ("sustained_change~reward",)
    limits = _HIGH | {"reward": "binary"}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve -= strength * 4.0


class ScoreCliff(Breakage):
    """A noisy score of a reward model falls by one standard deviation of the samples."""

    rules = ("sustained_change~reward",)
    limits = {"reward": "model", "curve": ["plateau", "stationary"]}

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        table.numbers["reward"] = table.numbers["reward"] - strength * table.numbers["reward"].std()


class RewardSlide(Breakage):
    """Right answers become rare over several steps."""

    rules = ("sustained_change~reward",)
    shape: ClassVar[Shape] = "slide"
    limits = _OFTEN_RIGHT | {"reward": ["binary", "graded", "parts"]}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve -= strength * 4.0


class ComponentFalls(Breakage):
    """The format reward falls while accuracy rises by more, so that the total does not show it."""

    rules = ("sustained_change~rewards/format", "held_out")
    limits = _OFTEN_RIGHT | {"reward": "parts", "start": (-1.0, -0.5)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve += strength * 2.5

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        well_formed = table.numbers["rewards/format"]
        spoiled = well_formed * table.chance(strength * 0.8)
        table.numbers["reward"] = table.numbers["reward"] - 0.5 * spoiled
        table.numbers["rewards/format"] = well_formed - spoiled


class VerifierDead(Breakage):
    """The reward is 0 for every sample, because the verifier fails."""

    rules = ("sustained_change~reward", "zero_variance")
    limits = _OFTEN_RIGHT | {"reward": ["binary", "graded"]}

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        table.numbers["reward"] = np.where(strength > 0, 0.0, table.numbers["reward"])


class VerifierDeadInCategory(VerifierDead):
    """The reward is 0 for every sample of one category."""

    place = "category"


class RewardsMissing(Breakage):
    """A share of the samples has no reward: null, NaN, or no such key."""

    rules = ("missing_rewards",)
    low = 0.3

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        share = float(self.draw.uniform(self.low, 1.0))
        self.gone = (strength > 0) & table.chance(share)
        names = [name for name in table.numbers if name.startswith("reward")]
        for name in names:
            table.numbers[name] = np.where(self.gone, np.nan, table.numbers[name])
        way = self.draw.integers(3)
        if way < 2:
            where = table.absent if way else table.null
            where.update(dict.fromkeys(names, self.gone))


class RewardsMissingInCategory(RewardsMissing):
    """Samples of one category have no reward."""

    place = "category"
    low = 0.6


class HeldOutFalls(Breakage):
    """The reward rises while the held-out reward falls: the reward is hacked."""

    rules = ("held_out", "sustained_change~valid_reward")
    shape: ClassVar[Shape] = "slide"
    limits = _OFTEN_RIGHT | {"reward": ["binary", "graded"], "valid": True, "start": (-1.0, 0.0)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve += strength * 1.5

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        table.numbers["valid_reward"] = table.numbers["valid_reward"] * (1 - 0.7 * strength)


class ZeroVarianceGroups(Breakage):
    """All samples of a group get the same reward, while the mean reward stays."""

    rules = ("zero_variance",)
    severity = "warning"
    limits = {"algorithm": ["grpo", "dr_grpo", "rloo"], "reward": "binary", "text": ["words", "code"]}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        first = np.unique(table.group_key, return_index=True)[1][table.group_key]
        affected = strength > 0
        table.luck = np.where(affected, table.luck[first], table.luck)
        table.solve = np.where(affected, table.solve[first], table.solve)

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        first = np.unique(table.group_key, return_index=True)[1][table.group_key]
        table.right = np.where(strength > 0, table.right[first], table.right)


class AlwaysSolved(Breakage):
    """All samples of all prompts get the full reward from one step on, so that there is no signal left."""

    rules = ("zero_variance", "sustained_change~reward")
    severity = "warning"
    ends = False
    limits: ClassVar[dict[str, Any]] = ZeroVarianceGroups.limits | {"start": (-0.5, 0.5)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve += strength * 8


class LengthHacking(Breakage):
    """Longer responses get higher rewards, and the policy follows."""

    rules = ("length_reward",)
    shape: ClassVar[Shape] = "slide"
    severity = "warning"
    limits = {
        "reward": ["graded", "model"],
        "text": ["words", "code"],
        "growth": (0.9, 1.2),
        "limit_factor": (4.0, 5.0),
    }

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        spread = np.exp(self.draw.normal(0, 0.4, len(table)) * strength)
        table.length = np.maximum(1, np.rint(table.length * spread * (1 + 0.6 * strength))).astype(int)

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        reward = table.numbers["reward"]
        relative = np.clip(table.length / self.setup.length - 1, -1, 2)
        table.numbers["reward"] = reward + strength * 2 * reward.std() * relative
