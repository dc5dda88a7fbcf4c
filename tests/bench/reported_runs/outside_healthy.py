"""Healthy but odd runs by somebody who had not read the rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.bench.reported_runs.outside_agent_kinds import dot
from tests.bench.reported_runs.outside_kinds import pieces
from tests.bench.reported_runs.simulation import Breakage, Sample, Simulation, kinds_of
from tests.bench.reported_runs.task_texts import Prompt

_PUBLIC: dict[str, Any] = {"task": "public", "prompts": 272}


class PublicTexts(Breakage):
    """Nothing unusual, with texts that models wrote."""

    words = ""
    setup = _PUBLIC


class BatchDoubles(Breakage):
    """Steps have twice as many prompts from a planned step on."""

    words = ""
    setup = {"prompts": 1200, "groups": 6}

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        more = self.run.order[600 + 6 * step : 606 + 6 * step]
        return [*prompts, *(self.run.pool[number] for number in more)] if x else prompts


class ResumedOtherSeed(Breakage):
    """After a resume the prompts come in the order of another seed."""

    words = ""

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self.other = np.random.default_rng(11).permutation(len(run.pool))

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        begin = (step - self.run.onset) * len(prompts)
        numbers = self.other[begin : begin + len(prompts)]
        return [self.run.pool[number] for number in numbers] if x and len(numbers) else prompts


class TaskMix(Breakage):
    """Two tasks from the first step on: one has longer responses and partial rewards."""

    words = ""
    setup = {"groups": 12}
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        if sample.prompt.number % 3 == 0:
            sample.sentences *= 2

    def write(self, sample: Sample, x: float) -> None:
        if sample.prompt.number % 3 == 0:
            lines = [f"    total_{at} = {at} * count" for at in range(4)]
            sample.parts.insert(0, "\n".join(["```python", "def solve(count):", *lines, "```"]))

    def score(self, sample: Sample, x: float) -> None:
        if sample.prompt.number % 3 == 0:
            passed = self.draw.binomial(5, 0.85 if sample.right else 0.3)
            sample.rewards = {"accuracy": float(passed) / 5, "format": 0.2}

    def log(self, sample: Sample, x: float) -> None:
        sample.line["task"] = "code" if sample.prompt.number % 3 == 0 else "math"


class HarderEvaluation(Breakage):
    """An evaluation at every step, on prompts that are harder than those of the training."""

    words = ""
    setup = {**_PUBLIC, "eval_every": 1}

    def behave(self, sample: Sample, x: float) -> None:
        if sample.split == "eval":
            sample.skill -= 1.0


class LongWarmUp(Breakage):
    """The learning rate grows for half of the run, so that the reward starts to rise late."""

    words = ""
    setup = _PUBLIC
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        share = sample.step / self.run.setup.steps
        sample.skill += 1.2 * max(0.0, share - 0.4) - 0.4

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        row["lr"] = round(1e-6 * min(1.0, 2 * (step + 1) / self.run.setup.steps), 10)


class DecayToZero(Breakage):
    """The learning rate decays as a cosine to exactly 0 at the last step."""

    words = ""
    always = True

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        share = step / (self.run.setup.steps - 1)
        row["lr"] = round(0.5e-6 * (1 + float(np.cos(np.pi * share))), 12)
        row["grad_norm"] *= 1 - 0.5 * share


class PenaltyAnneals(Breakage):
    """A penalty for length grows slowly from the first step on, and responses become shorter."""

    words = ""
    setup = _PUBLIC
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        sample.sentences *= 1 - 0.35 * sample.step / self.run.setup.steps

    def score(self, sample: Sample, x: float) -> None:
        weight = 0.3 * sample.step / self.run.setup.steps
        sample.rewards["length_penalty"] = -round(weight * min(1.0, len(sample.text) / 900), 4)


class OtherTokenizer(Breakage):
    """A resume with another tokenizer: the same texts have more tokens."""

    words = ""
    setup = _PUBLIC

    def measure(self, sample: Sample, x: float) -> None:
        if x:
            pieces(sample, np.ones(len(sample.tokens), bool))


class WithImages(Breakage):
    """Each prompt has an image."""

    words = ""

    def log(self, sample: Sample, x: float) -> None:
        sample.line["images"] = [dot(sample.prompt.number * 37 % 256, sample.prompt.number % 256)]


class SparseLogging(Breakage):
    """Every 25th step is logged."""

    words = ""
    setup = {**_PUBLIC, "steps": 16, "every": 25, "first": 25}


class LargeSteps(Breakage):
    """Steps have 2,048 samples."""

    words = ""
    setup = {"steps": 12, "groups": 256, "group_size": 8, "prompts": 3072, "logs": ("truth", "labels")}


class UnevenRanks(Breakage):
    """The second of two ranks has a quarter of the samples."""

    words = ""
    setup = {"groups": 8, "ranks": 2}

    def behave(self, sample: Sample, x: float) -> None:
        sample.rank = int(sample.group >= 6)


class SecondEpoch(Breakage):
    """Prompts are seen three times, and those of an epoch before are solved more often."""

    words = ""
    setup = {"prompts": 160, "groups": 8}
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill += 0.3 * ((sample.step - 1) * 8 // 160)


class RewardModel(Breakage):
    """Scores of a reward model: negative at first, with wide noise."""

    words = ""
    setup = {**_PUBLIC, "parts": False}

    def score(self, sample: Sample, x: float) -> None:
        sample.rewards = {"score": round(2.2 * sample.skill - 1.5 + float(self.draw.normal(0, 1.2)), 4)}


class SteadyNulls(Breakage):
    """From the first step on 3 % of the samples have no reward, since their check takes too long."""

    words = ""
    setup = {"parts": False}

    def score(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.03:
            sample.summed, sample.reward, sample.rewards = False, None, {"accuracy": None}


class ReferenceReset(Breakage):
    """The reference becomes the policy every 20 steps, as set: KL is a saw."""

    words = ""
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        sample.kl = 0.002 + 0.002 * ((sample.step - 1) % 20)


class SlowCheckpoints(Breakage):
    """Responses of every tenth step wait for a checkpoint."""

    words = ""

    def log(self, sample: Sample, x: float) -> None:
        queue = 40.0 if sample.step % 10 == 0 else 0.5
        seconds = 0.02 * len(sample.text.split()) + float(self.draw.gamma(3, 0.2))
        sample.line["timing"] = {"generation": round(seconds, 3), "queue": queue}


class EntropyFalls(Breakage):
    """The policy becomes sure of itself, slowly and from the start, while the reward rises."""

    words = ""
    setup = _PUBLIC
    always = True

    def behave(self, sample: Sample, x: float) -> None:
        sample.surprisal = 0.9 - 0.6 * sample.step / self.run.setup.steps


OUTSIDE_HEALTHY = kinds_of(globals())
