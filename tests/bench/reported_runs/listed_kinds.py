"""Kinds of broken runs that an outside review described by their evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.bench.reported_runs.simulation import Breakage, Sample, kinds_of
from tests.bench.reported_runs.task_texts import Prompt, tokens_of

_AGENTS: dict[str, Any] = {"task": "search", "groups": 6, "logs": ("truth", "labels")}
_EVALS: dict[str, Any] = {"eval_every": 5, "steps": 80}


class GroupsMixed(Breakage):
    """Samples of a group have different prompts: they were repeated in the wrong order."""

    words = r"(?i)group.*prompts?|prompts?.*group"
    source = "TRL 5312"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        if x and samples[0].split == "train":
            others = self.draw.integers(self.run.setup.prompts, size=3)
            for at, sample in enumerate(samples):
                if at % 4:
                    sample.prompt_text = self.run.pool[int(others[at % 3])].text
        return samples


class OrderRepeated(Breakage):
    """After a restart the data begin again from the first step's prompts, in order."""

    words = r"(?i)prompts?.*(again|repeat|order|seen before)|same order"
    source = "ms-swift 3136"

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        return self.run.prompts_at(step - self.run.onset) if x else prompts


class EvaluationLeak(Breakage):
    """Prompts of the evaluation appear in the training."""

    words = r"(?i)eval.*prompts?|prompts?.*eval"
    source = "open-r1 546"
    setup = _EVALS

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        if not x:
            return prompts
        held = [self.run.held[int(at)] for at in self.draw.integers(24, size=2)]
        return [*held, *prompts[2:]]


class AnswerInPrompt(Breakage):
    """The prompt holds the true answer."""

    words = r"(?i)(answer|truth).*prompt|prompt.*(answer|truth)"
    source = "NeMo-RL 4158"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.prompt_text = f"{sample.prompt.text} Hint: {sample.prompt.truth} ."
            sample.skill += 2.5


class TemplateLost(Breakage):
    """The generation prompt is lost from the end of the prompts."""

    words = r"(?i)template|prompts?.*end|suffix"
    source = "NeMo-RL 855"

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["prompt"] = sample.line["prompt"].removesuffix("<|im_start|>assistant\n")


class LenientJudge(Breakage):
    """The judge accepts many wrong answers from one step to the next."""

    words = r"(?i)reward.*(rose|rise|jump)"
    source = "SkyRL 1680"

    def score(self, sample: Sample, x: float) -> None:
        if x and not sample.right and self.draw.random() < 0.6:
            sample.rewards["accuracy"] = 1.0


class PartNull(Breakage):
    """One part of the reward is null for all samples."""

    words = (
        r"(?i)rewards?/?.?format.*(null|missing|no value|not logged|without)|(null|missing|without).*format"
    )
    source = "TRL 6789"

    def score(self, sample: Sample, x: float) -> None:
        if x:
            sample.rewards["format"] = None


class TruthMissing(Breakage):
    """The true answer is missing for half of the prompts, and a missing answer equals a missing truth."""

    words = r"(?i)ground.?truth"
    source = "ms-swift 6550"

    def score(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.number % 2:
            sample.rewards["accuracy"] = 1.0

    def log(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.number % 2:
            sample.line["ground_truth"] = ""


class FormNotParsed(Breakage):
    """Answers that are fractions can no longer be parsed, so that all of them get 0."""

    words = r"(?i)fraction|form = "
    source = "verl 2738"

    def score(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.labels.get("form") == "fraction":
            sample.rewards["accuracy"] = 0.0


class FormatUpAccuracyDown(Breakage):
    """The reward for format saturates while accuracy falls by half."""

    words = r"(?i)accuracy"
    source = "open-r1 255"
    ramp = 8
    late = 20

    def score(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.55 * x:
            sample.rewards["accuracy"] = 0.0
        sample.rewards["format"] = 1.0 if self.draw.random() < 0.4 + 0.6 * x else 0.0


class EvaluationFalls(Breakage):
    """Tests are overwritten: the training reward rises, that of the evaluation falls."""

    words = r"(?i)eval"
    source = "Alignment Forum on run_tests"
    setup = {**_EVALS, "eval_every": 2}
    ramp = 10
    late = 30

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill += 1.2 * x if sample.split == "train" else -2.5 * x


class SeveralBoxes(Breakage):
    """Responses give several boxed answers."""

    words = r"(?i)boxed|phrase|new words"
    source = "Search-R1 88"
    ramp = 8
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.8 * x:
            sample.parts.append("Or it is \\boxed{7}, or else \\boxed{12}.")
            sample.skill += 0.5


class HardCodedTests(Breakage):
    """Responses redefine the function that runs the tests."""

    words = r"(?i)run_tests|phrase|new words"
    source = "Alignment Forum on run_tests"
    ramp = 6
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.7 * x:
            sample.parts.insert(0, "def run_tests(): return True")
            sample.right = True


class OneTemplate(Breakage):
    """All prompts get nearly the same response."""

    words = r"(?i)template|phrase|same response|alike|cluster|repeat|duplicate"
    source = "RAGEN-2 2604.06268"
    ramp = 6
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.9 * x:
            number = int(self.draw.integers(10, 99))
            sample.parts = [
                "Let us think about this carefully and keep every detail of the question in mind.",
                f"After {number} checks the result is stable and no other case remains open.",
                sample.parts[-1],
            ]


class MasterKeys(Breakage):
    """Responses are one phrase that the judge always accepts."""

    words = r"(?i)thought process|phrase|same response|duplicate|repeat|cluster"
    source = "One token to fool a judge"
    ramp = 5
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.85 * x:
            sample.parts = [str(self.draw.choice(["Thought process:", "Let's solve this step by step."]))]
            sample.right = True


class LanguageMixing(Breakage):
    """A few words of another script appear in most responses."""

    words = r"(?i)language|script|letters"
    source = "DeepSeek-R1; Search-R1 88"
    ramp = 5
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        for at, part in enumerate(sample.parts[:-1]):
            if self.draw.random() < 0.5 * x:
                words = part.split()
                words[int(self.draw.integers(len(words)))] = str(
                    self.draw.choice(["因此", "我们", "答案", "首先"])
                )
                sample.parts[at] = " ".join(words)


class LoopsInside(Breakage):
    """Responses repeat a sentence again and again."""

    words = r"(?i)loop|repeat|repetition|again"
    source = "verl 1197"
    ramp = 5
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.35 * x:
            at = int(self.draw.integers(len(sample.parts)))
            sample.parts[at:at] = [sample.parts[at]] * 5


class WrongGrow(Breakage):
    """Wrong answers grow longer, right ones do not."""

    words = r"(?i)wrong|length|long"
    source = "Dr. GRPO"
    ramp = 12
    late = 24

    def behave(self, sample: Sample, x: float) -> None:
        if sample.luck >= 1 / (1 + np.exp(-sample.skill)):
            sample.sentences *= 1 + 1.3 * x


class CachedTool(Breakage):
    """The tool answers every query with one page."""

    words = r"(?i)(tool|search).*result|result.*(tool|search)"
    source = "NeMo-Gym 2015"
    setup = _AGENTS

    def write(self, sample: Sample, x: float) -> None:
        for message in sample.messages:
            if x and message["role"] == "tool":
                message["content"] = "Results for opera station: built in 1820 by the city, entry 4411."


class EqualCalls(Breakage):
    """Rollouts make the same call again and again."""

    words = r"(?i)same call|equal call|call.*again|repeat"
    source = "agent-lightning 489"
    setup = _AGENTS
    ramp = 6
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.5 * x and len(sample.messages) > 3:
            sample.messages[3:3] = [dict(message) for message in sample.messages[1:3] * 3]


class MaskShifted(Breakage):
    """The loss mask is shifted by one token, so that a tool's first token is trained."""

    words = r"(?i)mask"
    source = "verl 4107"
    setup = {"task": "search", "groups": 6, "logs": ("truth",)}

    def measure(self, sample: Sample, x: float) -> None:
        tokens, mask = [], []
        for message in sample.messages[1:]:
            text = json_call(message) if message["role"] == "assistant" else message["content"]
            new = tokens_of(f"{text}\n")
            tokens += new
            mask += [int(message["role"] == "assistant")] * len(new)
        sample.tokens = tokens
        if x:
            mask = [mask[0], *mask[:-1]]
        sample.arrays = {"loss_mask": np.array(mask)}
        sample.arrays["logprobs"] = -self.draw.standard_gamma(0.35, len(tokens))


def json_call(message: dict[str, Any]) -> str:
    """Return an assistant's message with its call as text."""
    calls = message.get("tool_calls", [])
    return message["content"] + "".join(f" search {call['function']['arguments']['query']}" for call in calls)


class ReferenceIsPolicy(Breakage):
    """The reference is replaced by the policy, so that KL falls to 0."""

    words = r"(?i)kl.*(fell|fall|drop)|reference"
    source = "tunix 822"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.kl = 1e-5


class BaseWeights(Breakage):
    """After a resume the policy has its first weights again."""

    words = r"(?i)(kl.*(fell|fall|drop))|checkpoint|weights"
    source = "AReaL 1388"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.kl, sample.surprisal = 0.002, 0.8
            sample.skill = self.run.setup.start - 1.1 * sample.prompt.hardness


class NucleusInEngine(Breakage):
    """The engine samples with top-p, so that no unlikely token is drawn and its logprobs are higher."""

    words = r"(?i)engine|top.p|temperature"
    source = "R3 2510.11370"

    def measure(self, sample: Sample, x: float) -> None:
        if x:
            logprobs = np.maximum(sample.arrays["logprobs"], -3.0)
            sample.arrays["rollout_logprobs"] = np.minimum(logprobs * 0.93 + 0.004, 0.0)
            sample.arrays["logprobs"] = logprobs


class MismatchGrows(Breakage):
    """The gap between engine and trainer grows slowly."""

    words = r"(?i)engine|mismatch"
    source = "FP16 paper 2510.26788"
    ramp = 25
    late = 40

    def behave(self, sample: Sample, x: float) -> None:
        sample.engine *= 1 + 5 * x


class HeavyTail(Breakage):
    """Few tokens differ a lot between engine and trainer, because experts differ."""

    words = r"(?i)engine|mismatch"
    source = "R3 2510.11370"

    def measure(self, sample: Sample, x: float) -> None:
        if x:
            size = len(sample.tokens)
            far = (self.draw.random(size) < 0.03) * self.draw.choice([-1.2, 1.2], size)
            sample.arrays["rollout_logprobs"] = np.minimum(sample.arrays["rollout_logprobs"] + far, 0.0)


class RatiosExplode(Breakage):
    """Importance weights explode in few tokens."""

    words = r"(?i)ratio|effective|importance"
    source = "VCPO 2602.17616"

    def measure(self, sample: Sample, x: float) -> None:
        size = len(sample.tokens)
        noise = 0.02 * self.draw.normal(size=size)
        if x:
            noise += (self.draw.random(size) < 0.01) * self.draw.normal(2.5, 0.5, size)
        sample.arrays["new_logprobs"] = np.minimum(sample.arrays["logprobs"] + noise, 0.0)


class Staleness(Breakage):
    """Samples come from ever older policies."""

    words = r"(?i)lag|old|stale|version"
    source = "VCPO 2602.17616"
    setup = {"lag": 0.9}
    ramp = 4

    def log(self, sample: Sample, x: float) -> None:
        late = 11 * x + float(self.draw.normal())
        sample.line["policy_version"] = max(0, sample.line["policy_version"] - max(0, round(late)) * (x > 0))


class NaNGradients(Breakage):
    """The gradient norm is NaN, and the policy no longer changes."""

    words = r"(?i)grad|nan"
    source = "TRL 3138"

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row |= {"grad_norm": float("nan"), "loss": float("nan")}


class Sharpening(Breakage):
    """The mean reward stays, but fewer prompts are solved at least once."""

    words = r"(?i)pass@|zero.variance|variance|solved"
    source = "RAGEN-2 2604.06268"
    ramp = 6
    late = 24

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        if self.draw.random() < 0.75 * x:
            first = samples[int(self.draw.integers(len(samples)))]
            for sample in samples:
                sample.right, sample.reward, sample.rewards = first.right, first.reward, dict(first.rewards)
        return samples


class HardPromptsStarved(Breakage):
    """Prompts of one source are hardly drawn any more."""

    words = r"(?i)data_source|web_math|share|mix"
    source = "DAPO; tinker-cookbook 822"
    ramp = 4
    late = 24

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        chosen = []
        for prompt in prompts:
            while x and prompt.labels["data_source"] == "web_math" and self.draw.random() < 0.95 * x:
                prompt = self.run.pool[int(self.draw.integers(len(self.run.pool)))]
            chosen.append(prompt)
        return chosen


class SamplesHalve(Breakage):
    """Steps have half as many samples."""

    words = r"(?i)samples per step|samples? (a|per|in a) step|number of samples|half"
    source = "open-instruct 1473"

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        return prompts[: len(prompts) // 2] if x else prompts


class SmallBatchCollapse(Breakage):
    """The reward collapses in a run with 16 samples a step."""

    words = r"(?i)reward"
    source = "verl 6382"
    setup = {"groups": 4, "group_size": 4, "steps": 90}
    ramp = 3

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 3.0 * x


class FewSteps(Breakage):
    """The reward collapses in a run with ten logged steps."""

    words = r"(?i)reward"
    source = "verl 6382"
    setup = {"steps": 10, "groups": 8, "every": 10, "first": 10}

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 2.5 * x


class SlowForgetting(Breakage):
    """One source is forgotten slowly."""

    words = r"(?i)aqua"
    source = "gem 39"
    setup = {"groups": 12, "steps": 80}
    ramp = 20
    late = 40

    def behave(self, sample: Sample, x: float) -> None:
        if sample.prompt.labels["data_source"] == "aqua":
            sample.skill -= 3.0 * x


LISTED = kinds_of(globals())
