"""Kinds of broken runs by somebody who had not read the rules: training, rewards and groups.

Written before the first run of any of them, and never changed for a rule. Those of agents and texts are in
`outside_agent_kinds`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.bench.reported_runs.simulation import Breakage, Sample, Simulation, kinds_of

#: Texts that models wrote, instead of templates.
_PUBLIC: dict[str, Any] = {"task": "public", "prompts": 272}


def pieces(sample: Sample, cut: np.ndarray) -> None:
    """Cut the chosen tokens of a sample in two; the second piece gets half of each value."""
    tokens: list[str] = []
    arrays: dict[str, list[float]] = {name: [] for name in sample.arrays}
    for at, token in enumerate(sample.tokens):
        parts = (token[:-2], token[-2:]) if cut[at] and len(token) > 4 else (token,)
        tokens += parts
        for name, values in sample.arrays.items():
            arrays[name] += [float(values[at]) / len(parts)] * len(parts)
    sample.tokens = tokens
    sample.arrays = {name: np.array(values) for name, values in arrays.items()}


class ScoresOutOfTen(Breakage):
    """The judge gives a third of its scores on a scale of ten instead of one."""

    words = r"(?i)judge"
    source = "huggingface/OpenEnv 1200: a parsed score is not bounded"
    setup = _PUBLIC

    def score(self, sample: Sample, x: float) -> None:
        score = 0.5 * sample.right + 0.4 * float(self.draw.random())
        if x and self.draw.random() < 0.33:
            score *= 10
        sample.rewards["judge"] = round(score, 3)


class CosineReversed(Breakage):
    """The penalty of wrong answers by length is reversed: long ones pay most, and they become shorter."""

    words = r"(?i)cosine|length|long|short"
    source = "modelscope/ms-swift 3636"
    setup = _PUBLIC
    ramp = 15
    late = 24

    def behave(self, sample: Sample, x: float) -> None:
        if sample.luck >= 1 / (1 + np.exp(-sample.skill)):
            sample.sentences *= 1 - 0.45 * x

    def score(self, sample: Sample, x: float) -> None:
        share = min(1.0, len(sample.text) / 700)
        wrong = -0.5 * (share if x else 1 - share)
        sample.rewards["cosine"] = 0.0 if sample.right else round(wrong, 3)


class PartialGroups(Breakage):
    """Some groups lose a sample, and advantages are taken over fixed strides that then cross the groups."""

    words = r"(?i)advantage|group.*(size|fewer|incomplete|miss|lost)|incomplete group|fewer samples"
    source = "areal-project/AReaL 1419"
    setup = {"group_size": 8, "scalars": True}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        return samples[1:] if x and self.draw.random() < 0.35 else samples

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if not x:
            return
        lines = [line for line in self.run.rows[-120:] if line["step"] == self.run.step_of(step)]
        for begin in range(0, len(lines) - 7, 8):
            some = lines[begin : begin + 8]
            values = np.array([line["reward"] for line in some])
            for line, value in zip(some, (values - values.mean()) / (values.std() + 1e-4), strict=True):
                line["advantage"] = round(float(value), 4)


class FirstRolloutBaseline(Breakage):
    """Only the first rollout of a group gives its mean, so that advantages are differences to it."""

    words = r"(?i)advantage"
    source = "ServiceNow/PipelineRL 54"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        self.first = samples[0].reward or 0.0
        return samples

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["advantage"] = round((sample.reward or 0.0) - self.first, 4)


class ZeroAdvantages(Breakage):
    """Advantages are all 0, because each trajectory is its own group when rewards are normalised."""

    words = r"(?i)advantage"
    source = "alibaba/ROLL 397"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.skill -= float(self.run.skill[sample.step - 1] - self.run.skill[self.run.onset])

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["advantage"] = 0.0

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["loss"], row["grad_norm"] = 0.0, 0.0


class RowFilter(Breakage):
    """Dynamic sampling filters rows: the only sample of a group that differs is dropped."""

    words = (
        r"(?i)group.*(size|fewer|incomplete|lost|miss|vari)|fewer samples|samples per step|zero.varian|"
        r"dead group|no spread|equal rewards"
    )
    source = "NVIDIA-NeMo/RL 3469"
    setup = {"group_size": 4}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        values = [sample.reward for sample in samples]
        return [s for s in samples if values.count(s.reward) > 1] if x else samples


class PhantomShaping(Breakage):
    """Groups that all fail are kept for their shaping: responses grow for it, accuracy is lost."""

    words = r"(?i)shaping|accuracy"
    source = "verl-project/verl-recipe 125"
    setup = _PUBLIC
    ramp = 20
    late = 30

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 2.4 * x
        sample.sentences *= 1 + 1.3 * x

    def score(self, sample: Sample, x: float) -> None:
        sample.rewards["shaping"] = round(0.3 * min(1.0, len(sample.text) / 1500), 4)


class UnscoredAsZero(Breakage):
    """Samples that no reward function could score, null until now, count as 0."""

    words = (
        r"(?i)\bnull|\bnone\b|missing|unscor|without (a )?(reward|score)|exactly 0|zeros?\b|no (reward|score)"
    )
    source = "huggingface/trl 6804, section 7"
    setup = {"parts": False}

    def score(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.14:
            sample.summed = False
            sample.reward = 0.0 if x else None
            sample.rewards = {"accuracy": sample.reward}


class ThinkPrefilled(Breakage):
    """The template now opens the thought in the prompt, and the format reward misses its opening tag."""

    words = r"(?i)format|think"
    source = "huggingface/trl 6966 and 7141"
    setup = _PUBLIC

    def write(self, sample: Sample, x: float) -> None:
        sample.parts = [*([] if x else ["<think>"]), *sample.parts[:-1], "</think>", sample.parts[-1]]

    def score(self, sample: Sample, x: float) -> None:
        sample.rewards["format"] = 0.0 if x else 0.2

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["prompt"] += "<think>\n"


class GroupsUnscored(Breakage):
    """The judge of groups returns an empty list, without an error: half of the groups has no reward."""

    words = r"(?i)\bnull|\bnone\b|missing|unscor|without (a )?(reward|score)|no (reward|score)"
    source = "OpenPipe/ART 394"
    setup = {"parts": False}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        if x and self.draw.random() < 0.55:
            for sample in samples:
                sample.reward, sample.rewards = None, {"accuracy": None}
        return samples


class SandboxDown(Breakage):
    """Grading fails for a third of the groups, at once and without an error, and counts as a reward of 0."""

    words = (
        r"(?i)timing|seconds|score time|\bmatch|truth|right answer|correct answer|all fail|zero.varian|"
        r"groups? .*(zero|fail)"
    )
    source = "NVIDIA-NeMo/Gym 2015, review of `_grade_in_box`"
    setup = {"group_size": 8}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        self.down = bool(x) and bool(self.draw.random() < 0.35)
        if self.down:
            for sample in samples:
                sample.reward, sample.rewards = 0.0, {"accuracy": 0.0, "format": 0.0}
        return samples

    def log(self, sample: Sample, x: float) -> None:
        score = 0.02 if self.down else float(self.draw.gamma(6, 0.4))
        generation = 0.02 * len(sample.text.split()) + float(self.draw.gamma(3, 0.2))
        sample.line["timing"] = {"generation": round(generation, 3), "score": round(score, 3)}


class AnswerOnly(Breakage):
    """The scorer's parser is lost, only a bare answer counts: the policy learns to say nothing else."""

    words = r"(?i)short|length|response_(chars|tokens)|\bbare\b|accuracy"
    source = "PrimeIntellect-ai/verifiers 277 and 327"
    setup = _PUBLIC
    ramp = 14

    def write(self, sample: Sample, x: float) -> None:
        self.bare = bool(self.draw.random() < 0.9 * x * x)
        if self.bare:
            sample.parts = [sample.answer]

    def score(self, sample: Sample, x: float) -> None:
        if x and not self.bare:
            sample.rewards["accuracy"] = 0.0


class EntropyExplodes(Breakage):
    """The entropy of the policy grows and grows, then the reward falls."""

    words = r"(?i)entropy|surprisal|uncertain|logprob|temperature|confiden"
    source = "verl-project/verl 2738 and 781"
    setup = _PUBLIC
    ramp = 25
    late = 35

    def behave(self, sample: Sample, x: float) -> None:
        sample.surprisal *= 1 + 3 * x
        sample.skill -= 1.8 * x * x


class RowsAgain(Breakage):
    """A replay buffer puts rows of five steps ago, word for word, in place of half of the new ones."""

    words = (
        r"(?i)\bagain\b|repeat|\bseen\b|earlier|previous|duplicate|identical|replay|stale|"
        r"same (responses|samples|prompts|order)"
    )
    source = "huggingface/trl 6804, section 1"
    setup = {**_PUBLIC, "groups": 8}

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self.kept: dict[tuple[int, int], list[Sample]] = {}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        step, group, rank = samples[0].step, samples[0].group, samples[0].rank
        old = self.kept.get((step - 5, group))
        if x and old and group % 2:
            samples = [replace(sample, step=step, rank=rank, line={}) for sample in old]
        self.kept[step, group] = samples
        return samples


class EverySampleItsGroup(Breakage):
    """Each sample has an id of its own, so that its baseline is the whole step instead of its prompt."""

    words = r"(?i)groups?\b.*(single|one sample|size|alone|incomplete)|single sample|advantage|group size"
    source = "PeterGriffinJin/Search-R1 116 and 88"

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["group"] += f"-{self.draw.integers(10**9)}"
            sample.line["advantage"] = round(((sample.reward or 0.0) - 0.6) / 0.5, 4)


class Retokenised(Breakage):
    """Responses are encoded again before training: other tokens, which the policy never sampled."""

    words = r"(?i)engine|rollout_logprobs|retoken|token.*(text|piece|split)|tokens per|mismatch"
    source = "verl-project/verl 3960 and 3720"
    setup = _PUBLIC

    def measure(self, sample: Sample, x: float) -> None:
        if not x:
            return
        pieces(sample, self.draw.random(len(sample.tokens)) < 0.3)
        odd = self.draw.random(len(sample.tokens)) < 0.06
        sample.arrays["logprobs"] = np.where(odd, -5.5, sample.arrays["logprobs"])


class PenaltyStops(Breakage):
    """The penalty for responses without an end no longer applies: more and more reach the limit."""

    words = r"(?i)overlong|penalty|\blong|length|truncat|\bcut\b|response_(chars|tokens)"
    source = "huggingface/trl 3750"
    setup = {"most_tokens": 110}
    ramp = 14
    late = 24

    def behave(self, sample: Sample, x: float) -> None:
        sample.sentences *= 1 + 1.1 * x

    def score(self, sample: Sample, x: float) -> None:
        cut = len(sample.text.split()) > 92
        sample.rewards["overlong"] = -0.5 if cut and not x else 0.0


class EvaluationFrozen(Breakage):
    """After a resume the evaluation goes on with one and the same policy: its answers repeat exactly."""

    words = (
        r"(?i)eval.*(same|identical|repeat|duplicate|constant|unchang|frozen|exact)|"
        r"(same|identical|repeat|duplicate).*eval"
    )
    source = "PrimeIntellect-ai/prime-rl 3004"
    setup = {"eval_every": 2}

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self.kept: dict[int, list[Sample]] = {}

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        step, group, split = samples[0].step, samples[0].group, samples[0].split
        if split == "eval":
            if x and group in self.kept:
                return [replace(sample, step=step, line={}) for sample in self.kept[group]]
            self.kept[group] = samples
        return samples


class LossZero(Breakage):
    """The loss is exactly 0 from here on, and with it the gradient: the policy stays as it is."""

    words = r"(?i)\bloss\b|\bgrad"
    source = "unslothai/unsloth 2291; meta-pytorch/torchforge 571"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.skill -= float(self.run.skill[sample.step - 1] - self.run.skill[self.run.onset])

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["loss"], row["grad_norm"] = 0.0, 0.0


class WeightsIgnored(Breakage):
    """The weights of the parts are ignored: the reward is their plain sum."""

    words = r"(?i)weight|\bsum\b|\bparts?\b|\bscale|format|style"
    source = "huggingface/trl 6804: `multi_objective_aggregation` ignored"
    setup = _PUBLIC

    def score(self, sample: Sample, x: float) -> None:
        style = round(float(self.draw.beta(2, 3)), 3)
        sample.rewards |= {"format": 5 * (sample.rewards["format"] or 0.0), "style": style}
        weights = (1.0, 1.0, 1.0) if x else (1.0, 0.2, 0.1)
        values = [value or 0.0 for value in sample.rewards.values()]
        sample.summed = False
        sample.reward = float(np.dot(weights, values))


class MostDiscarded(Breakage):
    """Two thirds of the groups are discarded as not useful, and the batch is not filled up."""

    words = r"(?i)discard|dropped|fewer samples|samples per step|\bsplit\b"
    source = "areal-project/AReaL 450"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        self.out = bool(self.draw.random() < (0.65 if x else 0.04))
        return samples

    def log(self, sample: Sample, x: float) -> None:
        sample.line["split"] = "discarded" if self.out else "train"


class SlowEngine(Breakage):
    """The engine of one rank needs five times as long for its responses."""

    words = r"(?i)generation|seconds|\bslow|timing"
    source = "PrimeIntellect-ai/prime 381"
    setup = {"ranks": 4, "groups": 8}

    def log(self, sample: Sample, x: float) -> None:
        seconds = 0.02 * len(sample.text.split()) + float(self.draw.gamma(3, 0.2))
        if x and sample.rank == 1:
            seconds *= 5
        sample.line["timing"] = {"generation": round(seconds, 3), "score": 0.1}


OUTSIDE = kinds_of(globals())
