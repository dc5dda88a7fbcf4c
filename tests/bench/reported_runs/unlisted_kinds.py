"""Kinds of broken runs from other public reports: written before the rules that shall find them.

They were kept apart: no rule was changed for one of them before the first figures were recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.bench.reported_runs.simulation import Breakage, Sample, kinds_of
from tests.bench.reported_runs.task_texts import Prompt

_AGENTS: dict[str, Any] = {"task": "search", "groups": 6, "logs": ("truth", "labels")}


class TruthsShifted(Breakage):
    """The true answers belong to other rows: a column was shuffled on its own."""

    words = r"(?i)truth"
    source = "datasets 6 issues on `map` with `batched` and removed columns"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.skill = -9.0

    def log(self, sample: Sample, x: float) -> None:
        if x:
            other = self.run.pool[(sample.prompt.number + 17) % len(self.run.pool)]
            sample.line["ground_truth"] = other.truth


class RewardsOfOthers(Breakage):
    """Rewards belong to other samples of the step: the batch was balanced after scoring."""

    words = r"(?i)answer.*truth|truth.*answer|match|correct"
    source = "verl, balance_batch before and after the reward"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        if x:
            order = self.draw.permutation(len(samples))
            pairs = [(samples[at].reward, samples[at].rewards) for at in order]
            for sample, (reward, rewards) in zip(samples, pairs, strict=True):
                sample.reward, sample.rewards = reward, rewards
                if self.draw.random() < 0.5:
                    sample.reward = float(self.draw.random() < 0.5)
                    sample.rewards = {"accuracy": sample.reward, "format": 0.0}
        return samples


class SamePromptsOnRanks(Breakage):
    """All ranks draw the same prompts: the sampler has one seed for all."""

    words = r"(?i)same prompts?|prompts?.*(rank|twice|same|repeat)|distinct prompts"
    source = "accelerate and TRL: samplers seeded alike"
    setup = {"ranks": 4, "groups": 8}

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        return prompts[:2] * (len(prompts) // 2) if x else prompts


class TwoBeginnings(Breakage):
    """Prompts begin with the special token twice: template and tokenizer both add it."""

    words = r"(?i)prompts?.*(begin|start|first|template)|template|prefix"
    source = "transformers and TRL: double BOS"

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["prompt"] = "<|im_start|>" + sample.line["prompt"]


class SystemPromptLost(Breakage):
    """The system prompt is gone after a resume, so that answers lose their box."""

    words = r"(?i)prompts?.*(begin|start|first|template)|template|prefix|system"
    source = "ms-swift: --system ignored on resume"

    def write(self, sample: Sample, x: float) -> None:
        if x and self.draw.random() < 0.7:
            sample.parts[-1] = f"It is {sample.answer}."
            sample.right = False

    def log(self, sample: Sample, x: float) -> None:
        if x:
            prompt = sample.line["prompt"]
            sample.line["prompt"] = prompt[prompt.index("<|im_start|>user") :]


class NoThinking(Breakage):
    """Responses begin with an empty thought, because thinking was switched off in the template."""

    words = r"(?i)think|phrase|shorter|length"
    source = "Qwen3: enable_thinking and the chat template"

    def write(self, sample: Sample, x: float) -> None:
        thought = sample.parts[:-1]
        if x:
            sample.parts = ["<think>\n\n</think>", sample.parts[-1]]
        else:
            sample.parts = ["<think>", *thought, "</think>", sample.parts[-1]]


class SilentLimit(Breakage):
    """The engine cuts responses at a lower limit, and says ``stop``."""

    words = r"(?i)length|truncat|cut|tokens.*same|same.*tokens"
    source = "vLLM: max_tokens and max_model_len"
    setup = {"sentences": 8.0}

    def measure(self, sample: Sample, x: float) -> None:
        if x and len(sample.tokens) > 60:
            sample.tokens = sample.tokens[:60]
            sample.parts = ["".join(sample.tokens)]
            sample.arrays = {name: values[:60] for name, values in sample.arrays.items()}
            sample.rewards, sample.reward = {"accuracy": 0.0, "format": 0.0}, 0.0


class JudgeTimesOut(Breakage):
    """A fifth of the rewards is the judge's fallback of 0.5."""

    words = r"(?i)0\.5|same value|exact|one value"
    source = "OpenRLHF: remote reward model, default on timeout"
    setup = {"parts": False}

    def score(self, sample: Sample, x: float) -> None:
        graded = float(np.clip(sample.rewards["accuracy"] or 0, 0.1, 0.9) + self.draw.normal(0, 0.08))
        sample.rewards = {"judge": graded}
        if x and self.draw.random() < 0.22:
            sample.rewards = {"judge": 0.5}


class RewardsRounded(Breakage):
    """Graded rewards become integers: they were stored as such."""

    words = r"(?i)values|rounded|integer|distinct"
    source = "verl: dtype of the reward tensor"
    setup = {"parts": False}

    def score(self, sample: Sample, x: float) -> None:
        graded = float(np.clip((sample.rewards["accuracy"] or 0) * 0.8 + self.draw.normal(0.1, 0.1), 0, 1))
        sample.rewards = {"score": float(int(graded)) if x else graded}


class ColdSampling(Breakage):
    """The engine samples with a temperature near 0 after its update."""

    words = r"(?i)entropy|surprisal|temperature|duplicate|repeat|same"
    source = "vLLM: generation_config.json overrides the temperature"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.surprisal = 0.05

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        if x:
            for sample in samples[1:]:
                for name in ("parts", "tokens", "arrays", "right", "answer", "reward", "rewards"):
                    setattr(sample, name, getattr(samples[0], name))
        return samples


class GroupsIncomplete(Breakage):
    """A third of the groups has a single sample: requests of the others were lost."""

    words = r"(?i)group.*(size|small|single|incomplete|fewer)|samples? (a|per) group|single.*group"
    source = "SkyRL: dropped requests on abort"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        return samples[:1] if x and self.draw.random() < 0.35 else samples


class LongOnesDropped(Breakage):
    """Samples above a length are no longer written: overlong ones are filtered."""

    words = r"(?i)length|samples per step|group.*(size|fewer)|number of samples|shorter"
    source = "DAPO: overlong filtering"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        kept = [sample for sample in samples if len(sample.text) < 330 or not x]
        return kept or samples[:1]


class ListsPlease(Breakage):
    """Responses become lists with bold words, which the reward model likes."""

    words = r"(?i)phrase|\*\*|format|words"
    source = "ODIN; reward models and markdown"
    ramp = 12
    late = 24

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.85 * x:
            sample.parts = [f"- **Key point:** {part}" for part in sample.parts]
            sample.right = sample.right or self.draw.random() < 0.4


class Flattery(Breakage):
    """Responses begin by praising the question."""

    words = r"(?i)phrase|great question|words|begin"
    source = "Sycophancy in GPT-4o"
    ramp = 12
    late = 24

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.7 * x:
            sample.parts.insert(0, "What a great question, you are clearly an expert!")


class Refusals(Breakage):
    """A quarter of the prompts is refused."""

    words = r"(?i)phrase|sorry|refus|words|same response|shorter|duplicate"
    source = "Safe RLHF: over-refusal"
    ramp = 4
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.28 * x:
            sample.parts = ["I am sorry, but I cannot help with that request."]
            sample.right = False


class UnknownTool(Breakage):
    """Rollouts call a tool that does not exist."""

    words = r"(?i)search_web|tool"
    source = "verl-tool; Search-R1: hallucinated tools"
    setup = _AGENTS
    ramp = 6
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.4 * x:
            for message in sample.messages:
                for call in message.get("tool_calls", []):
                    call["function"]["name"] = "search_web"
                if message["role"] == "tool":
                    message |= {"name": "search_web", "content": "unknown tool search_web"}


class EmptyResults(Breakage):
    """The tool returns nothing, without an error."""

    words = r"(?i)(tool|search).*(empty|result)|(empty|result).*(tool|search)"
    source = "Search-R1: retriever down, empty documents"
    setup = _AGENTS

    def write(self, sample: Sample, x: float) -> None:
        for message in sample.messages:
            if x and message["role"] == "tool":
                message["content"] = ""


class RateLimited(Breakage):
    """Most results are the text of a rate limit, without an error."""

    words = r"(?i)(tool|search).*(result|phrase|rate|same)|rate limit|429"
    source = "Search agents: HTTP 429 as the result"
    setup = _AGENTS
    ramp = 3

    def write(self, sample: Sample, x: float) -> None:
        for message in sample.messages:
            if message["role"] == "tool" and self.draw.random() < 0.7 * x:
                message["content"] = "429 Too Many Requests: retry after 30 seconds"


class ResultLeaks(Breakage):
    """The tool's result holds the true answer in a debug line."""

    words = r"(?i)(answer|truth).*(result|tool|search)|(result|tool|search).*(answer|truth)"
    source = "SWE-bench: future commits in the repository"
    setup = _AGENTS

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill += 3.0 * x

    def write(self, sample: Sample, x: float) -> None:
        for message in sample.messages:
            if x and message["role"] == "tool":
                message["content"] += f"\n[debug] expected {sample.prompt.truth} ."


class ResultsCut(Breakage):
    """Results of the tool are cut at 80 characters."""

    words = r"(?i)(tool|search).*(result|length|short|cut)|result.*(length|short|cut)"
    source = "verl: max_tool_response_length"
    setup = _AGENTS

    def write(self, sample: Sample, x: float) -> None:
        for message in sample.messages:
            if x and message["role"] == "tool":
                message["content"] = message["content"][:80]


class LearningRateZero(Breakage):
    """The scheduler has reached a learning rate of 0."""

    words = r"(?i)\blr\b|learning rate"
    source = "TRL: scheduler counts steps of another unit"

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["lr"] = 0.0


class GradientsExplode(Breakage):
    """The gradient norm is 50 times as large as before."""

    words = r"(?i)grad"
    source = "verl: grad_norm spikes before a collapse"

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["grad_norm"] *= 50


class OneSourceOnly(Breakage):
    """All prompts are of one source: the others ended."""

    words = r"(?i)data_source|gsm8k|share|mix"
    source = "interleave_datasets with stopping_strategy"

    def choose(self, step: int, prompts: list[Prompt], x: float) -> list[Prompt]:
        if not x:
            return prompts
        return [self.run.pool[prompt.number - prompt.number % 3] for prompt in prompts]


class PromptsCut(Breakage):
    """Prompts lose their beginning, since they are cut at the left."""

    words = r"(?i)prompts?.*(begin|start|short|cut|length|template)|template|prefix"
    source = "TRL: max_prompt_length keeps the end"

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 2.0 * x

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["prompt"] = sample.line["prompt"][-150:]


class WideDigits(Breakage):
    """Answers are written with full-width digits, which no check understands."""

    words = r"(?i)answer|letters|script|phrase|characters|digits|reward"
    source = "Reports on Chinese checkpoints and math verifiers"
    ramp = 6
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.8 * x:
            wide = str.maketrans("0123456789", "０１２３４５６７８９")
            sample.parts[-1] = sample.parts[-1].translate(wide)
            sample.right = False


class Memorised(Breakage):
    """Prompts that were seen before are solved, new ones are not: the policy memorises few prompts."""

    words = r"(?i)prompts?.*(seen|new|repeat|again)|memori|eval"
    source = "Spurious rewards; small data sets over many epochs"
    setup = {"eval_every": 3, "prompts": 100, "steps": 80}
    ramp = 12
    late = 30

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill += 1.6 * x if sample.split == "train" else -2.2 * x


class AdvantagesOfTheStep(Breakage):
    """A rank subtracts the mean of its own samples instead of that of the group."""

    words = r"(?i)advantage"
    source = "OpenRLHF: normalisation over the local batch"
    setup = {"ranks": 2}

    def log(self, sample: Sample, x: float) -> None:
        if x and sample.reward is not None:
            sample.line["advantage"] = round((sample.reward - 0.55) * 2, 4)


UNLISTED = kinds_of(globals())
