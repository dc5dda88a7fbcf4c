"""Broken runs whose cause is seen in logprobs: KL, entropy, ratio, engine, and invalid numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.breakage import Breakage, Shape
from tests.bench.broken_runs.sample_table import SampleTable

_FREE_TEXT: dict[str, Any] = {"text": ["words", "code"]}
_KL_RULES = ("sustained_change~kl", "sustained_change~log_ratio", "kl_spike")
_ENTROPY = ("sustained_change~entropy", "sustained_change~surprisal", "sustained_change~logprob")


class EntropyCollapse(Breakage):
    """Entropy falls to a tenth, and the responses of a group become the same."""

    rules = ("collapse",)
    shape: ClassVar[Shape] = "slide"
    limits = _FREE_TEXT | {"algorithm": ["grpo", "rloo"], "languages": ("en",), "entropy": True}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.surprisal = table.surprisal * (1 - 0.9 * strength)
        same = table.chance(0.85 * strength)
        table.template = np.where(same, table.prompt, table.template)
        table.length = np.where(same, 8 + table.prompt % 9, table.length)


class EntropyExplosion(Breakage):
    """Entropy grows fourfold, then rewards fall."""

    rules = (*_ENTROPY, "collapse")
    shape: ClassVar[Shape] = "slide"
    limits = _FREE_TEXT | {"surprisal": (0.4, 0.8)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.surprisal = table.surprisal * (1 + 3 * strength)
        table.solve -= 2.0 * strength


class KlExplosion(Breakage):
    """The policy leaves the reference: KL grows to twenty times its level."""

    rules = _KL_RULES
    shape: ClassVar[Shape] = "slide"
    limits = _FREE_TEXT | {"ref": True, "kl": (0.02, 0.1)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.kl = table.kl * (1 + 19 * strength**2)
        table.solve -= 1.5 * strength


class KlSpike(Breakage):
    """Three samples of one step have a far larger KL than all others."""

    rules = ("kl_spike", "outlier~kl")
    shape: ClassVar[Shape] = "spike"
    severity = "warning"
    limits = _FREE_TEXT | {"ref": True, "kl": (0.01, 0.1)}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = self.draw.choice(np.flatnonzero((strength > 0) & (table.length >= 4)), 3, replace=False)
        begin = table.bounds[rows]
        for shift in range(2):
            unlikely = -9.0 - self.draw.random(3)
            for name in {"logprobs", "rollout_logprobs", "new_logprobs"} & set(table.arrays):
                table.arrays[name][begin + shift] = unlikely
            table.arrays["ref_logprobs"][begin + shift] = -0.05 * self.draw.random(3)


class NegativeKl(Breakage):
    """Logprobs are of another temperature than the reference's, from the first step on: KL is negative."""

    rules = ("negative_kl",)
    shape: ClassVar[Shape] = "always"
    severity = "warning"
    limits = _FREE_TEXT | {"ref": True, "kl": (0.005, 0.05)}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        for name in {"logprobs", "rollout_logprobs", "new_logprobs"} & set(table.arrays):
            table.arrays[name] = 1.3 * table.arrays[name]


class RatioExplodes(Breakage):
    """An update is so large that most sampled tokens become far less likely."""

    rules = ("ratio", "sustained_change~ratio", "sustained_change~clip", "sustained_change~approxkl")
    limits = _FREE_TEXT | {"step_size": 0.03}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        fall = 2.0 * strength[table.owner] * np.abs(self.draw.normal(size=len(table.ids)))
        table.arrays["new_logprobs"] = table.arrays["new_logprobs"] - fall


class EngineMismatch(Breakage):
    """The engine of one rank samples with other weights than those in training."""

    rules = ("engine",)
    place = "rank"
    limits = _FREE_TEXT | {"engine": [0.01, 0.03]}
    factor: ClassVar[float] = 0.35

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        noise = self.factor * strength[table.owner] * self.draw.normal(size=len(table.ids))
        table.arrays["rollout_logprobs"] = np.minimum(table.arrays["rollout_logprobs"] + noise, 0.0)


class EngineDrift(EngineMismatch):
    """The engine's weights are no longer updated: its logprobs move away from the trainer's."""

    shape: ClassVar[Shape] = "slide"
    place = "run"


class EngineTemperature(Breakage):
    """The engine logs logprobs before the temperature is applied, from the first step on."""

    rules = ("engine",)
    shape: ClassVar[Shape] = "always"
    limits = _FREE_TEXT | {"engine": [0.01, 0.03]}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        table.arrays["rollout_logprobs"] = 0.6 * table.arrays["rollout_logprobs"]


class EnginePadded(Breakage):
    """The engine reports too few logprobs, and the missing ones are filled with 0."""

    rules = ("engine",)
    limits = _FREE_TEXT | {"engine": [0.01, 0.03], "surprisal": (0.7, 1.3), "surprisal_fall": (0.8, 1.0)}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        late = table.position >= 0.6 * np.repeat(table.length, table.length)
        filled = late & (strength > 0)[table.owner]
        engine = table.arrays["rollout_logprobs"]
        table.arrays["rollout_logprobs"] = np.where(filled, 0.0, engine)


def _shifted(table: SampleTable, name: str, rows: np.ndarray) -> np.ndarray:
    """Return a token array that is shifted by one token within some responses."""
    values = table.arrays[name]
    shifted = np.roll(values, 1)
    first = table.position == 0
    shifted[first] = values[first]
    return np.where(rows[table.owner], shifted, values)


class ShiftedEngine(Breakage):
    """The engine's logprobs are shifted by one token."""

    rules = ("shifted_logprobs",)
    limits = _FREE_TEXT | {"engine": [0.01, 0.03], "growth": (0.9, 1.9), "length": (12, 24)}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        table.arrays["rollout_logprobs"] = _shifted(table, "rollout_logprobs", strength > 0)


class ShiftedEngineAlways(ShiftedEngine):
    """The engine's logprobs are shifted by one token from the first step on."""

    shape: ClassVar[Shape] = "always"


class ShiftedReference(Breakage):
    """The reference's logprobs are shifted by one token."""

    rules = ("shifted_logprobs",)
    limits = _FREE_TEXT | {"ref": True, "growth": (0.9, 1.9), "length": (12, 24), "kl": (0.005, 0.1)}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        table.arrays["ref_logprobs"] = _shifted(table, "ref_logprobs", strength > 0)


class NanLogprobs(Breakage):
    """Some logprobs are NaN, infinite or null."""

    rules = ("not_finite",)
    limits = _FREE_TEXT

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        hit = (strength > 0) & table.chance(float(self.draw.uniform(0.05, 0.5)))
        name = "logprobs"
        if self.draw.random() < 0.3:
            table.null[name] = hit & (table.length > 0)
            return
        value = np.nan if self.draw.random() < 0.6 else -np.inf
        tokens = hit[table.owner] & (self.draw.random(len(table.ids)) < 0.2)
        tokens[table.bounds[:-1][hit & (table.length > 0)]] = True
        table.arrays[name] = np.where(tokens, value, table.arrays[name])


class NanLogprobsOnRank(NanLogprobs):
    """Some logprobs of one rank are NaN, infinite or null."""

    place = "rank"


class NanAdvantages(Breakage):
    """A reward that is missing makes the advantages of its whole group NaN."""

    rules = ("not_finite", "missing_rewards")
    limits: ClassVar[dict[str, Any]] = {"algorithm": ["grpo", "rloo"]}

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        gone = (strength > 0) & table.chance(float(self.draw.uniform(0.05, 0.2)))
        table.null["reward"] = gone
        spoiled = np.bincount(table.group_key, gone)[table.group_key] > 0
        table.numbers["advantage"] = np.where(spoiled, np.nan, table.numbers["advantage"])


class ShortLogprobs(Breakage):
    """On one rank, the logprobs of the responses lack the last token."""

    rules = ("odd_fields",)
    place = "rank"
    severity = "warning"
    limits = _FREE_TEXT | {"tokens": True}

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        table.short["logprobs"] = (strength > 0) & (table.length > 1)
