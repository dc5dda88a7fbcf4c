"""`Breakage`: base of all kinds of broken runs, with the truth about a run that was made by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from tests.bench.broken_runs.advantages import add_advantages
from tests.bench.broken_runs.realistic_run import draw_rewards, draw_samples, draw_tokens
from tests.bench.broken_runs.run_setup import Setup, draw_setup
from tests.bench.broken_runs.sample_table import SampleTable

Shape = Literal["cliff", "slide", "spike", "always"]

#: All kinds by name.
KINDS: dict[str, type[Breakage]] = {}
#: Steps before the onset of a breakage, after it, and after its end, at least.
_BEFORE, _AFTER, _RECOVERED = 5, 5, 5
#: Share of the runs in which a breakage ends, if its kind can end.
_ENDING = 0.3


@dataclass(frozen=True)
class Truth:
    """What is wrong with a run.

    Attributes
    ----------
    kind : str
    shape : str
        cliff, slide, spike (few steps) or always (from the first step on).
    rules : tuple of str
        Rules that name the cause; ``rule~kl`` also asks for a column that begins with kl.
    onset, last : int
        First and last affected step.
    ongoing : bool
    ranks : tuple of int
        Ranks of which a finding must name one; empty if all ranks are affected.
    category : str
        Affected category, such as ``lang = zh``; empty if all are affected.
    severity : str
        Least severity expected while the breakage goes on.
    """

    kind: str
    shape: Shape
    rules: tuple[str, ...]
    onset: int
    last: int
    ongoing: bool
    ranks: tuple[int, ...]
    category: str
    severity: str


class Breakage:
    """A kind of broken run: each hook changes the samples where `strength` is above 0.

    Attributes
    ----------
    rules, shape, severity
        See `Truth`.
    place : str
        run, rank or category.
    ends : bool
        Whether the breakage may end before the run does.
    limits : dict
        Settings of the run, see `draw_setup`.
    ramp : tuple of int
        Least and most steps from the onset of a slide until it is complete.
    """

    rules: ClassVar[tuple[str, ...]]
    shape: ClassVar[Shape] = "cliff"
    place: ClassVar[str] = "run"
    severity: ClassVar[str] = "alarm"
    ends: ClassVar[bool] = True
    limits: ClassVar[dict[str, Any]] = {}
    ramp: ClassVar[tuple[int, int]] = (6, 14)

    def __init_subclass__(cls) -> None:
        KINDS[_name(cls)] = cls

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw = draw
        self.setup = self.draw_setup()
        self.first, self.end = self.draw_steps(len(self.setup.steps))
        self.rank = int(draw.integers(self.setup.ranks))
        self.ranks: tuple[int, ...] = (self.rank,) if self.place == "rank" else ()
        self.category: tuple[str, str] | None = None

    # -- what a kind may override ------------------------------------------------------------------

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        """Change what the policy does: chances, lengths, scripts, expected surprisal and KL."""

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        """Change tokens and logprobs."""

    def score(self, table: SampleTable, strength: np.ndarray) -> None:
        """Change rewards, before advantages are computed from them."""

    def log(self, table: SampleTable, strength: np.ndarray) -> None:
        """Change what is logged, after advantages are computed."""

    def draw_setup(self) -> Setup:
        """Draw the settings of the run."""
        limits: dict[str, Any] = {"steps": (20, 90), "samples": (48, 192)}
        if self.place == "rank":
            limits |= {"ranks": [2, 4], "samples": (96, 224)}
        if self.place == "category":
            limits |= {"languages": ("en", "zh"), "labels": [("lang",), ("lang", "data_source")]}
            limits |= {"samples": (96, 224)}
        return draw_setup(self.draw, **(limits | self.limits))

    def draw_steps(self, count: int) -> tuple[int, int]:
        """Draw the position of the first affected step, and of the first step after the last one."""
        if self.shape == "always":
            return 0, count
        low, high = max(_BEFORE, count // 4), max(_BEFORE + 1, min(3 * count // 4, count - _AFTER))
        if self.shape == "slide":
            high = max(low + 1, min(high, count - self.ramp[0] - 2))
        first = int(self.draw.integers(low, high))
        if self.shape == "spike":
            return first, first + 1
        room = count - first - _AFTER - _RECOVERED
        if self.ends and self.shape == "cliff" and room > 0 and self.draw.random() < _ENDING:
            return first, first + _AFTER + int(self.draw.integers(room))
        return first, count

    # -- making a run ------------------------------------------------------------------------------

    def make(self, data: np.random.Generator | None = None) -> tuple[SampleTable, Truth]:
        """Draw the run and break it; ``data`` draws its prompts, by default the run's own generator."""
        table = draw_samples(self.setup, self.draw, data)
        strength = self.strength(table)
        self.behave(table, strength)
        draw_tokens(table)
        self.tokens(table, strength)
        draw_rewards(table)
        self.score(table, strength)
        add_advantages(table)
        self.log(table, strength)
        return table, self.truth()

    def strength(self, table: SampleTable) -> np.ndarray:
        """Return how much each sample is affected, from 0 to 1; shape (N,)."""
        inside = (table.at >= self.first) & (table.at < self.end)
        if self.place == "rank":
            inside &= np.isin(table.rank, self.ranks)
        elif self.place == "category":
            label, value = self.category = self.pick_category()
            inside &= table.labels[label] == value
        ramp = int(self.draw.integers(self.ramp[0], self.ramp[1] + 1)) if self.shape == "slide" else 1
        return inside * np.clip((table.at - self.first + 1) / ramp, 0, 1)

    def pick_category(self) -> tuple[str, str]:
        """Draw the label and the value that a breakage of a category is limited to."""
        if "data_source" in self.setup.labels and self.draw.random() < 0.5:
            return "data_source", ("gsm8k", "synthetic", "web")[int(self.draw.integers(3))]
        return "lang", "zh"

    def truth(self) -> Truth:
        """Return what is wrong with the run."""
        steps = self.setup.steps
        return Truth(
            kind=_name(type(self)),
            shape=self.shape,
            rules=self.rules,
            onset=steps[self.first],
            last=steps[self.end - 1],
            ongoing=self.end == len(steps),
            ranks=self.ranks,
            category=" = ".join(self.category) if self.category else "",
            severity=self.severity,
        )


def _name(kind: type[Breakage]) -> str:
    """Return a kind's name: that of its class, in lower case with underscores."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


def broken_run(kind: str, seed: int) -> tuple[SampleTable, Truth]:
    """Return a broken run of a kind; the same for the same seed."""
    draw = np.random.default_rng([seed, *kind.encode()])
    return KINDS[kind](draw).make()
