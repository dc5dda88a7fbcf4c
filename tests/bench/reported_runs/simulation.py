"""`Simulation`: draws a run step by step; a `Breakage` changes it from some step on.

The latent skill is a learning curve with an autoregressive walk. Prompts differ in difficulty, groups have a
common effect, and token noise grows with surprisal, with Student tails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tests.bench.reported_runs.public_texts import public_prompt, public_solution, public_wrong_answer
from tests.bench.reported_runs.task_texts import (
    Prompt,
    math_prompt,
    search_prompt,
    search_result,
    solution,
    tokens_of,
    wrong_answer,
)

SYSTEM = "You are a careful assistant. Put the final answer in \\boxed{}."
_FORMS = ("integer", "integer", "integer", "fraction", "percent", "choice")
_SOURCES = ("gsm8k", "aqua", "web_math")


@dataclass(frozen=True)
class Setup:
    """Settings of a run; ``task`` is math, search or public, ``eval_every`` 0 for no evaluation.

    The texts of ``public`` were written by models, see `public_texts`.
    """

    task: str = "math"
    steps: int = 60
    groups: int = 8
    group_size: int = 8
    ranks: int = 1
    prompts: int = 400
    start: float = -0.6
    gain: float = 1.6
    walk: float = 0.08
    sentences: float = 6.0
    growth: float = 1.2
    most_tokens: int = 400
    logs: tuple[str, ...] = ("logprobs", "ref", "engine", "labels", "truth")
    eval_every: int = 0
    scalars: bool = True
    parts: bool = True
    lag: float = 0.0
    first: int = 1
    every: int = 1


@dataclass
class Sample:
    """A sample while it is drawn; with ``summed`` its reward is the sum of its parts."""

    step: int
    group: int
    rank: int
    prompt: Prompt
    prompt_text: str
    split: str
    skill: float
    sentences: float
    luck: float
    surprisal: float
    kl: float
    engine: float
    right: bool = False
    answer: str = ""
    parts: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    rewards: dict[str, float | None] = field(default_factory=dict)
    summed: bool = True
    reward: float | None = 0.0
    truncated: bool = False
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    line: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The response."""
        return " ".join(self.parts)


class Breakage:
    """A kind of broken run. Each hook gets the strength, 0 before the onset and up to 1 after it.

    Attributes
    ----------
    words : str
        Regular expression that a finding which names the cause matches: title, sentence, evidence, symptoms.
    source : str
        The public report.
    setup : dict
        Settings of the run that this kind needs.
    ramp : int
        Steps from the onset until the strength is 1.
    late : int
        Steps after the onset in which a finding may begin, so that it counts as found.
    """

    words: ClassVar[str]
    source: ClassVar[str] = ""
    setup: ClassVar[dict[str, Any]] = {}
    ramp: ClassVar[int] = 1
    late: ClassVar[int] = 16
    always: ClassVar[bool] = False

    def __init__(self, run: Simulation) -> None:
        self.run = run
        self.draw = run.draw

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        """Return the prompts of a step."""
        return prompts

    def behave(self, sample: Sample, x: float) -> None:
        """Change skill, length, surprisal, KL or the prompt's text, before the response is written."""

    def write(self, sample: Sample, x: float) -> None:
        """Change the response or the messages."""

    def score(self, sample: Sample, x: float) -> None:
        """Change the parts of the reward."""

    def measure(self, sample: Sample, x: float) -> None:
        """Change tokens and their arrays."""

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        """Change the samples of a group, before advantages are computed."""
        return samples

    def log(self, sample: Sample, x: float) -> None:
        """Change the line."""

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        """Change the trainer's scalars of a step."""


def kinds_of(names: dict[str, Any]) -> dict[str, type[Breakage]]:
    """Return the kinds of broken runs that a module defines, by name."""
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type) and issubclass(kind, Breakage) and kind is not Breakage
    }


class Simulation:
    """Draws the lines of a run.

    Parameters
    ----------
    setup : Setup
    seed : sequence of int
    kind : type of Breakage, optional
    """

    def __init__(self, setup: Setup, seed: list[int], kind: type[Breakage] | None = None) -> None:
        self.setup = setup
        self.draw = np.random.default_rng(seed)
        self.onset = 0
        if kind is not None and not kind.always:
            low, high = int(0.45 * setup.steps), int(0.7 * setup.steps)
            self.onset = int(self.draw.integers(low, max(high, low + 1)))
        self.kind = kind
        self.pool = [self._prompt(number) for number in range(setup.prompts)]
        self.held = [self._prompt(10**6 + number) for number in range(48)]
        self.order = np.concatenate([self.draw.permutation(setup.prompts) for _ in range(40)])
        self.skill = self._curve()
        self.breakage = kind(self) if kind is not None else None
        self.rows: list[dict[str, Any]] = []
        self.scalar_rows: list[dict[str, Any]] = []
        for at in range(setup.steps):
            self._step(at)

    # -- the run ---------------------------------------------------------------------------------

    def strength(self, at: int) -> float:
        """Return how far the breakage is at the step of a position, from 0 to 1."""
        if self.kind is None or at < self.onset:
            return 0.0
        return min(1.0, (at - self.onset + 1) / self.kind.ramp)

    def step_of(self, at: int) -> int:
        """Return the logged step of a position."""
        return self.setup.first + self.setup.every * at

    def write(self, folder: Path) -> None:
        """Write the log files of all ranks, and the scalars."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.setup.ranks):
            lines = [json.dumps(row, ensure_ascii=False) for row in self.rows if row["rank"] == rank]
            path = folder / f"rollout_data_rank_{rank}.jsonl"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if self.scalar_rows:
            lines = [json.dumps(row) for row in self.scalar_rows]
            (folder / "scalars.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def prompts_at(self, at: int) -> list[Prompt]:
        """Return the prompts of a step of a healthy run."""
        begin = at * self.setup.groups
        return [self.pool[number] for number in self.order[begin : begin + self.setup.groups]]

    def _curve(self) -> np.ndarray:
        setup, noise = self.setup, 0.0
        x = np.linspace(0, 1, setup.steps)
        curve = setup.start + setup.gain * (1 - np.exp(-3 * x))
        for at in range(setup.steps):
            noise = 0.85 * noise + float(self.draw.normal(0, setup.walk))
            curve[at] += noise
        return curve

    def _prompt(self, number: int) -> Prompt:
        if self.setup.task == "search":
            return search_prompt(number, self.draw)
        if self.setup.task == "public":
            return public_prompt(number, self.draw)
        source = _SOURCES[number % 3]
        form = _FORMS[int(self.draw.integers(len(_FORMS)))]
        return math_prompt(number, source, form, self.draw)

    def _step(self, at: int) -> None:
        setup, x, step = self.setup, self.strength(at), self.step_of(at)
        prompts = self.prompts_at(at)
        if self.breakage is not None:
            prompts = self.breakage.choose(at, prompts, x)
        rewards: list[float] = []
        for group, prompt in enumerate(prompts):
            rewards += self._group(at, step, group, len(prompts), prompt, "train", setup.group_size, x)
        if setup.eval_every and at % setup.eval_every == 0:
            for group, prompt in enumerate(self.held[:24]):
                self._group(at, step, group, 24, prompt, "eval", 2, x)
        if setup.scalars:
            row: dict[str, Any] = {
                "step": step,
                "loss": round(float(self.draw.normal(0, 0.02)), 5),
                "grad_norm": round(float(np.exp(self.draw.normal(-1, 0.2))), 5),
                "lr": 1e-6,
                "reward": round(float(np.mean(rewards)), 5) if rewards else None,
            }
            if self.breakage is not None:
                self.breakage.scalars(at, row, x)
            self.scalar_rows.append(row)

    def _group(
        self, at: int, step: int, group: int, groups: int, prompt: Prompt, split: str, size: int, x: float
    ) -> list[float]:
        setup, draw = self.setup, self.draw
        progress, effect = at / max(1, setup.steps - 1), float(draw.normal(0, 0.4))
        made = []
        for _ in range(size):
            sample = Sample(
                step=step,
                group=group,
                rank=group * setup.ranks // max(1, groups),
                prompt=prompt,
                prompt_text=prompt.text,
                split=split,
                skill=float(self.skill[at]) + effect - 1.1 * prompt.hardness + float(draw.normal(0, 0.3)),
                sentences=setup.sentences * setup.growth**progress * float(np.exp(draw.normal(0, 0.2))),
                luck=float(draw.random()),
                surprisal=0.8 - 0.25 * progress,
                kl=0.06 * (1 - float(np.exp(-3 * progress))) + 0.002,
                engine=0.015,
            )
            self._hook("behave", sample, x)
            self._respond(sample)
            self._hook("write", sample, x)
            self._score(sample)
            self._hook("score", sample, x)
            if sample.summed:
                sample.reward = sum(value for value in sample.rewards.values() if value is not None)
            self._measure(sample)
            self._hook("measure", sample, x)
            made.append(sample)
        if self.breakage is not None:
            made = self.breakage.group(made, x)
        known = [sample.reward for sample in made if sample.reward is not None]
        mean, std = (float(np.mean(known)), float(np.std(known))) if known else (0.0, 0.0)
        for sample in made:
            self._line(sample, mean, std)
            self._hook("log", sample, x)
            self.rows.append(sample.line)
        return known if split == "train" else []

    def _hook(self, name: str, sample: Sample, x: float) -> None:
        if self.breakage is not None:
            getattr(self.breakage, name)(sample, x)

    # -- one sample --------------------------------------------------------------------------------

    def _respond(self, sample: Sample) -> None:
        draw, prompt = self.draw, sample.prompt
        sample.right = sample.luck < 1 / (1 + np.exp(-sample.skill))
        public = self.setup.task == "public"
        wrong = public_wrong_answer if public else wrong_answer
        sample.answer = prompt.truth if sample.right else wrong(prompt, draw)
        if self.setup.task == "search":
            self._search(sample)
            return
        count = max(1, round(sample.sentences))
        sample.parts = (public_solution if public else solution)(prompt, count, sample.answer, draw)

    def _search(self, sample: Sample) -> None:
        """Draw a rollout of one to four searches and an answer."""
        draw, prompt = self.draw, sample.prompt
        messages: list[dict[str, Any]] = [{"role": "user", "content": sample.prompt_text}]
        for turn in range(int(draw.integers(1, 5))):
            query = f"{prompt.words['topic']} {prompt.words['place']} {prompt.number} part {turn}"
            call = {"name": "search", "arguments": {"query": query}}
            messages += [
                {
                    "role": "assistant",
                    "content": f"I look for the {prompt.words['topic']}.",
                    "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
                },
                {
                    "role": "tool",
                    "tool_call_id": f"c{turn}",
                    "name": "search",
                    "content": search_result(query, turn, draw),
                },
            ]
        final = f"It was opened in \\boxed{{{sample.answer}}}."
        sample.messages = [*messages, {"role": "assistant", "content": final}]
        sample.parts = [final]

    def _score(self, sample: Sample) -> None:
        sample.rewards = {"accuracy": 1.0 if sample.right else 0.0}
        if self.setup.parts and self.setup.task != "search":
            sample.rewards["format"] = 0.2 if "\\boxed{" in sample.text else 0.0

    def _measure(self, sample: Sample) -> None:
        """Draw tokens and logprobs of a response without tools."""
        if sample.messages or "logprobs" not in self.setup.logs:
            return
        draw = self.draw
        sample.tokens = tokens_of(sample.text)[: self.setup.most_tokens]
        sample.truncated = len(tokens_of(sample.text)) > self.setup.most_tokens
        size = len(sample.tokens)
        surprisal = np.minimum(sample.surprisal * draw.standard_gamma(0.35, size) / 0.35, 14.0)
        sway = np.sqrt(np.minimum(surprisal, 2.0) + 0.01)
        sample.arrays = {"logprobs": -surprisal}
        if "ref" in self.setup.logs:
            variance = 2 * max(sample.kl, 0.0) * np.exp(draw.normal(0, 0.4)) * (surprisal + 0.02)
            variance /= max(float(np.mean(surprisal + 0.02)), 1e-9) if size else 1.0
            ratio = variance / 2 + np.sqrt(variance) * draw.normal(size=size)
            sample.arrays["ref_logprobs"] = np.minimum(-surprisal - ratio, -1e-6)
        if "engine" in self.setup.logs:
            noise = sample.engine * sway * draw.standard_t(5, size)
            sample.arrays["rollout_logprobs"] = np.minimum(-surprisal + noise, 0.0)

    def _line(self, sample: Sample, mean: float, std: float) -> None:
        setup, reward = self.setup, sample.reward
        line: dict[str, Any] = {
            "step": sample.step,
            "rank": sample.rank,
            "group": f"{sample.split}-{sample.step}-{sample.group}",
            "reward": None if reward is None else round(reward, 4),
            "advantage": 0.0 if reward is None or std < 1e-6 else round((reward - mean) / (std + 1e-4), 4),
        }
        if sample.messages:
            line["messages"] = sample.messages
        else:
            line |= {"prompt": _chat(SYSTEM, sample.prompt_text), "response": sample.text}
            line["finish_reason"] = "length" if sample.truncated else "stop"
        if setup.eval_every:
            line["split"] = sample.split
        if len(sample.rewards) > 1:
            line["rewards"] = dict(sample.rewards)
        if "truth" in setup.logs:
            line["ground_truth"] = sample.prompt.truth
        if "labels" in setup.logs:
            line |= sample.prompt.labels
        if sample.tokens:
            line["response_tokens"] = sample.tokens
            line |= {name: np.round(values, 5).tolist() for name, values in sample.arrays.items()}
        if setup.lag:
            line["policy_version"] = max(0, sample.step - int(self.draw.poisson(setup.lag)))
            line["trainer_version"] = sample.step
        sample.line = line


def draw_setup(kind: type[Breakage], draw: np.random.Generator) -> Setup:
    """Return the settings of a run of a kind: those that it needs, and the others drawn."""
    drawn: dict[str, Any] = {
        "steps": int(draw.integers(45, 91)),
        "groups": int(draw.choice([6, 8, 12])),
        "group_size": int(draw.choice([4, 8])),
        "ranks": int(draw.choice([1, 1, 2])),
        "start": float(draw.uniform(-0.9, 0.1)),
        "gain": float(draw.uniform(0.9, 2.0)),
        "walk": float(draw.uniform(0.03, 0.1)),
        "sentences": float(draw.uniform(4, 7)),
        "growth": float(draw.uniform(0.9, 1.4)),
    }
    return Setup(**{**drawn, **kind.setup})


def made_run(kind: type[Breakage], seed: int) -> Simulation:
    """Return a run of a kind; the same for the same seed."""
    draw = np.random.default_rng([seed, *kind.__name__.encode()])
    return Simulation(draw_setup(kind, draw), [seed, 7, *kind.__name__.encode()], kind)


def _chat(system: str, user: str) -> str:
    return (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
    )
