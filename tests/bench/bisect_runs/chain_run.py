"""`ChainRun`: draws a run step by step; a `ChainKind` sets in at one step, and its effects some steps later.

Samples of a group share a prompt and a common effect; skill is a learning curve with an autoregressive walk.
Decoys change a number or a label for good, at steps near the cause, and have no effect on anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENTS, TOOLS = ("sql", "web", "code", "math"), ("search", "python", "browser")
SOURCES, WORKERS = ("gsm8k", "aqua", "web_math"), ("node1", "node2", "node3", "node4", "node5")
_WORDS = "so we first add the two numbers then divide by three and check that result again".split()  # noqa: SIM905


@dataclass
class StepSamples:
    """Columns of the samples of a step while they are drawn; ``hit`` marks those that carry the cause."""

    draw: np.random.Generator
    at: int
    count: int
    columns: dict[str, Any]
    scalars: dict[str, float]
    hit: np.ndarray
    #: What is added to the logit of a right answer.
    logit: np.ndarray
    opening: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __setitem__(self, name: str, values: Any) -> None:
        self.columns[name] = values

    def choose(self, share: float, among: np.ndarray | None = None) -> np.ndarray:
        """Return the mask of a random share of some samples."""
        chosen = self.draw.random(self.count) < share
        return chosen if among is None else chosen & among


Stage = Callable[[StepSamples], None]


@dataclass(frozen=True)
class ChainKind:
    """A cause and its effects.

    Attributes
    ----------
    cause : str
        Regular expression for the first link's name and place.
    first, then, last : callable
        Set the cause, its effect, and that on the target, from their steps on.
    target : str
        The number that is asked about.
    touches : tuple of str
        Numbers and labels of the chain: no decoy changes them as well.
    """

    cause: str
    first: Stage
    then: Stage
    last: Stage
    target: str = "reward"
    touches: tuple[str, ...] = ()


@dataclass
class ChainRun:
    """A drawn run.

    Attributes
    ----------
    sized : (int, int, int), optional
        Steps, groups and samples of a group; drawn by default.
    onset, second, third : int
        Steps of the cause and of its effects.
    decoys : list of (int, str)
        Steps and names of the changes without an effect.
    """

    kind: ChainKind | None
    seed: list[int]
    decoying: bool = True
    sized: tuple[int, int, int] | None = None
    steps: int = 0
    onset: int = 0
    second: int = 0
    third: int = 0
    decoys: list[tuple[int, str]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    scalar_rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = self._draw = np.random.default_rng(self.seed)
        self.steps = int(draw.integers(50, 91))
        self._groups, self._size = int(draw.choice([8, 10, 12])), int(draw.choice([4, 8]))
        if self.sized is not None:
            self.steps, self._groups, self._size = self.sized
        self.onset = int(draw.integers(int(0.45 * self.steps), int(0.7 * self.steps)))
        self.second = self.onset + int(draw.integers(0, 4))
        self.third = self.second + int(draw.integers(1, 5))
        noise, skill = 0.0, np.linspace(0, 1, self.steps)
        skill = draw.uniform(0.2, 1.2) + draw.uniform(0.3, 1.0) * (1 - np.exp(-3 * skill))
        for at in range(self.steps):
            noise = 0.85 * noise + float(draw.normal(0, 0.06))
            skill[at] += noise
        self._skill = skill
        if self.decoying:
            free = sorted(set(DECOYS) - set(self.kind.touches if self.kind is not None else ()))
            names = draw.choice(free, size=int(draw.integers(2, 4)), replace=False).tolist()
            self.decoys = [(self.onset + int(draw.integers(-10, 4)), name) for name in names]
        for at in range(self.steps):
            self._step(at)

    def write(self, folder: Path) -> Path:
        """Write the logs; return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{json.dumps(row)}\n" for row in self.rows)
        (folder / "rollout_data_rank_0.jsonl").write_text(lines, encoding="utf-8")
        lines = "".join(f"{json.dumps(row)}\n" for row in self.scalar_rows)
        (folder / "scalars.jsonl").write_text(lines, encoding="utf-8")
        return folder

    def step_rows(self, at: int) -> list[dict[str, Any]]:
        """Return the samples of the step at a position."""
        count = self._groups * self._size
        return self.rows[at * count : (at + 1) * count]

    def _step(self, at: int) -> None:
        made = self._drawn(at)
        draw, count = made.draw, made.count
        kind = self.kind
        if kind is not None and at >= self.onset:
            kind.first(made)
            if at >= self.second:
                kind.then(made)
            if at >= self.third:
                kind.last(made)
        for begin, name in self.decoys:
            if at >= begin:
                DECOYS[name](made)
        made["response_length"] = np.round(made["response_length"])
        cut = made["response_length"] > 900
        made["truncated"] = np.maximum(made["truncated"], cut)
        right = draw.random(count) < 1 / (1 + np.exp(-(made.logit - 2.0 * made["truncated"])))
        made["rewards/accuracy"] = right.astype(float)
        made["rewards/format"] = 0.3 * (
            made["format_ok"] * (1 - 0.8 * made["truncated"]) > draw.random(count)
        )
        made["reward"] = np.round(made["rewards/accuracy"] + made["rewards/format"] + made["bonus"], 4)
        self._log(at, made)

    def _drawn(self, at: int) -> StepSamples:
        draw, groups, size = self._draw, self._groups, self._size
        count = groups * size

        def by_group(values: np.ndarray) -> np.ndarray:
            return np.repeat(values, size)

        difficulty = by_group(draw.normal(0, 1, groups))
        effect = by_group(draw.normal(0, 0.4, groups))
        turns = 1 + draw.poisson(4, count)
        columns = {
            "rank": by_group(np.arange(groups) * 4 // groups),
            "env": np.array(ENVIRONMENTS)[by_group(draw.integers(0, 4, groups))],
            "tool": np.array(TOOLS)[draw.integers(0, 3, count)],
            "source": np.array(SOURCES)[by_group(draw.integers(0, 3, groups))],
            "worker": np.array(WORKERS)[draw.integers(0, 5, count)],
            "judge_version": np.full(count, "v1"),
            "language": np.where(draw.random(count) < 0.04, "zh", "en"),
            "difficulty": np.round(difficulty, 3),
            "prompt_length": np.round(by_group(np.exp(draw.normal(5, 0.3, groups)))),
            "failed_calls": (draw.random(count) < 0.05).astype(float),
            "turns_taken": turns.astype(float),
            "retries": draw.poisson(0.5, count).astype(float),
            "timed_out": (draw.random(count) < 0.03).astype(float),
            "response_length": np.exp(draw.normal(5.6 + 0.1 * at / self.steps, 0.3, count))
            * (turns / 5) ** 0.3,
            "kl": np.exp(draw.normal(-3, 0.4, count)),
            "entropy": draw.normal(0.8, 0.1, count),
            "staleness": draw.poisson(1, count).astype(float),
            "latency": np.exp(draw.normal(1, 0.3, count)),
            "cache_hits": draw.normal(20, 4, count),
            "format_ok": np.full(count, 0.95),
            "truncated": np.zeros(count),
            "bonus": np.zeros(count),
        }
        scalars = {
            "loss": float(draw.normal(0, 0.02)),
            "grad_norm": float(np.exp(draw.normal(-1, 0.15))),
            "lr": 1e-6,
            "kl_coef": 0.01,
            "throughput": float(draw.normal(4000, 90)),
        }
        logit = self._skill[at] + effect - 0.5 * difficulty + draw.normal(0, 0.3, count)
        return StepSamples(draw, at, count, columns, scalars, np.zeros(count, bool), logit)

    def _log(self, at: int, made: StepSamples) -> None:
        skipped = ("format_ok", "bonus", "rewards/accuracy", "rewards/format")
        columns = {name: np.asarray(each) for name, each in made.columns.items() if name not in skipped}
        missing = made.columns.get("no_format", np.zeros(made.count, bool))
        columns.pop("no_format", None)
        parts = made["rewards/accuracy"], made["rewards/format"]
        for row in range(made.count):
            line: dict[str, Any] = {"step": at + 1, "group": f"g{at}-{row // self._size}"}
            for name, values in columns.items():
                value = values[row]
                line[name] = value.item() if hasattr(value, "item") else value
                if isinstance(line[name], float):
                    line[name] = round(line[name], 4)
            accuracy, form = (round(float(part[row]), 4) for part in parts)
            line["rewards"] = {"accuracy": accuracy, "format": None if missing[row] else form}
            line["prompt"] = f"Task {at}-{row // self._size}: " + "x" * int(line["prompt_length"] // 10)
            words = [_WORDS[int(each)] for each in made.draw.integers(0, len(_WORDS), 4 + row % 7)]
            opening = f"{made.opening} " if made.opening and made.hit[row] else ""
            line["response"] = opening + " ".join(words)
            self.rows.append(line)
        self.scalar_rows.append({"step": at + 1} | {k: round(v, 8) for k, v in made.scalars.items()})


def _more(name: str, factor: float) -> Stage:
    def apply(made: StepSamples) -> None:
        made[name] = made[name] * factor

    return apply


def _mix(name: str, value: str, share: float) -> Stage:
    def apply(made: StepSamples) -> None:
        size = made.count // len(np.unique(made["rank"]))
        chosen = np.repeat(made.draw.random(made.count // 4 + 1) < share, 4)[: made.count]
        made[name] = np.where(chosen & (size > 0), value, made[name])

    return apply


def _throughput(made: StepSamples) -> None:
    made.scalars["throughput"] *= 0.7


#: Changes without an effect.
DECOYS: dict[str, Stage] = {
    "latency": _more("latency", 1.6),
    "cache_hits": _more("cache_hits", 1.3),
    "prompt_length": _more("prompt_length", 1.5),
    "source": _mix("source", "aqua", 0.45),
    "worker": _mix("worker", "node2", 0.4),
    "throughput": _throughput,
    "retries": lambda made: made.columns.__setitem__("retries", made["retries"] + 0.6 * made.choose(0.8)),
}
