"""Broken runs in which one rank, or one category, differs from the others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.breakage import Breakage
from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.broken_runs.vocabulary import special

_FREE_TEXT: dict[str, Any] = {"text": ["words", "code"]}


class RankRewardDiffers(Breakage):
    """The rewards of one rank are lower, because its reward model is another version."""

    rules = ("rank_differs",)
    place = "rank"
    limits = {"reward": ["binary", "graded", "model"], "start": (0.2, 1.0)}

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        reward = table.numbers["reward"]
        if self.setup.reward == "binary":
            lower = reward * table.chance(0.35)
        else:
            lower = reward - 1.2 * reward.std()
        table.numbers["reward"] = np.where(strength > 0, lower, reward)


class RankLengthDiffers(Breakage):
    """Responses of one rank are much longer or shorter than those of the others."""

    rules = ("rank_differs",)
    place = "rank"
    severity = "warning"
    limits = _FREE_TEXT | {"limit_factor": (4.0, 5.0)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        factor = 2.0 if self.draw.random() < 0.5 else 0.45
        table.length = np.where(strength > 0, np.rint(table.length * factor), table.length).astype(int)
        table.length = np.maximum(table.length, 1)


class RankRepeats(Breakage):
    """One rank works on the same samples as another, because both have the same seed."""

    rules = ("rank_repeats",)
    place = "rank"
    severity = "warning"
    limits = _FREE_TEXT

    def __init__(self, draw: np.random.Generator) -> None:
        super().__init__(draw)
        self.source = (self.rank + 1) % self.setup.ranks
        self.ranks = self.rank, self.source

    def strength(self, table: SampleTable) -> np.ndarray:
        return super().strength(table) * (table.rank == self.rank)

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        shift = int(np.count_nonzero((table.at == 0) & (table.rank == 0)))
        rows = np.flatnonzero(strength > 0)
        table.copy_of[rows] = rows + shift * (self.source - self.rank)


class RankStale(Breakage):
    """One rank logs the samples of its last good step again at each step."""

    rules = ("rank_stale",)
    place = "rank"
    limits = _FREE_TEXT

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = np.flatnonzero(strength > 0)
        table.copy_of[rows] = rows - self.setup.samples * (table.at[rows] - self.first + 1)


class MissingRank(Breakage):
    """One rank writes no samples any more."""

    rules = ("missing_rank",)
    place = "rank"

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        table.written &= strength == 0


class CategoryBroken(Breakage):
    """Everything is broken in one category: responses are invalid, truncated and never right."""

    rules = ("sustained_change", "invalid_text", "truncated", "special_tokens", "zero_variance")
    place = "category"
    limits: ClassVar[dict[str, Any]] = _FREE_TEXT | {
        "start": (0.0, 0.8),
        "reward": ["binary", "graded", "parts"],
    }

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        bad = (strength > 0) & table.chance(0.9)
        table.solve = np.where(bad, -6.0, table.solve)
        table.length = np.where(bad & table.chance(0.7), self.setup.limit + 1, table.length)

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        table.ids = np.where(table.token_chance(0.2 * (strength > 0)), special("�"), table.ids)
