"""Healthy but odd runs: nothing is wrong with them, though one number or another looks unusual."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.bench.reported_runs.simulation import Breakage, Sample, kinds_of
from tests.bench.reported_runs.task_texts import Prompt


class Plain(Breakage):
    """Nothing unusual."""

    words = ""


class WanderingSkill(Breakage):
    """The skill wanders up and down."""

    words = ""
    setup = {"walk": 0.25, "gain": 0.8}


class SmallSteps(Breakage):
    """Steps have 16 samples."""

    words = ""
    setup = {"groups": 4, "group_size": 4, "steps": 90}


class OwnSources(Breakage):
    """Each rank has its own source, and one is harder."""

    words = ""
    setup = {"ranks": 3, "groups": 9}

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        third = max(1, len(prompts) // 3)
        return [
            self.run.pool[min(p.number - p.number % 3 + at // third, 399)] for at, p in enumerate(prompts)
        ]

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 0.9 * (sample.prompt.labels["data_source"] == "web_math")


class PlannedPenalty(Breakage):
    """A penalty for length starts as planned."""

    words = ""

    def score(self, sample: Sample, x: float) -> None:
        long = max(0.0, len(sample.text) - 300) / 2000
        sample.rewards["length_penalty"] = -round(float(long), 4) if x else 0.0


class Curriculum(Breakage):
    """Labels say that prompts become harder step by step."""

    words = ""
    setup = {"groups": 12}

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        share = step / max(1, self.run.setup.steps - 1)
        for prompt in prompts:
            hard = self.draw.random() < share
            prompt.labels = {**prompt.labels, "level": "hard" if hard else "easy"}
            prompt.hardness = abs(prompt.hardness) * (1 if hard else -1)
        return prompts


class LongerThoughts(Breakage):
    """Responses become twice as long, with more reward."""

    words = ""
    setup = {"growth": 2.2, "gain": 2.4}


class Epochs(Breakage):
    """The same prompts come again in a new order."""

    words = ""
    setup = {"prompts": 80}


class SteadyEvaluation(Breakage):
    """An evaluation of 24 prompts every second step."""

    words = ""
    setup = {"eval_every": 2}


class Agents(Breakage):
    """Rollouts with a search tool."""

    words = ""
    setup = {"task": "search", "groups": 6, "logs": ("truth", "labels")}


class Polling(Breakage):
    """A tool is polled with equal calls from the first step on."""

    words = ""
    setup = {"task": "search", "groups": 6, "logs": ("truth",)}
    always = True

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.4:
            sample.messages[3:3] = [dict(message) for message in sample.messages[1:3] * 3]


class SkippedUpdates(Breakage):
    """Mixed precision skips single steps with an infinite gradient."""

    words = ""
    always = True

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if self.draw.random() < 0.04:
            row["grad_norm"] = float("inf")


class WarmUp(Breakage):
    """The learning rate grows from 0 in the first steps."""

    words = ""
    always = True

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        row["lr"] = round(1e-6 * min(1.0, step / 8), 9)


class KlRelaxes(Breakage):
    """KL falls slowly as the penalty grows as planned."""

    words = ""
    ramp = 30

    def behave(self, sample: Sample, x: float) -> None:
        sample.kl *= 1 - 0.5 * x


class EasyEnd(Breakage):
    """Nearly all prompts are solved at the end."""

    words = ""
    setup = {"gain": 5.0}


class TenSteps(Breakage):
    """Ten logged steps of a rising run."""

    words = ""
    setup = {"steps": 10, "every": 10, "first": 10}


class HeavyReward(Breakage):
    """A reward with heavy tails."""

    words = ""
    setup = {"parts": False}

    def score(self, sample: Sample, x: float) -> None:
        score = float(np.exp(0.5 * (sample.skill + self.draw.normal(0, 0.8))))
        sample.rewards = {"score": round(score, 4)}


class Bilingual(Breakage):
    """A third of the prompts and of the answers is Chinese."""

    words = ""
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        if sample.prompt.number % 3 == 0:
            sample.prompt_text = f"请用中文回答：{sample.prompt.text}"

    def write(self, sample: Sample, x: float) -> None:
        if sample.prompt.number % 3 == 0:
            sample.parts[:-1] = ["我们先把题目中的数字写下来，然后一步一步地计算。"] * max(
                1, len(sample.parts) // 3
            )


HEALTHY = kinds_of(globals())
