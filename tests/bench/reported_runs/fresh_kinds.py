"""Kinds of broken runs from further public reports, written after the rules, without a run of them.

No rule was changed for one of them: their figures say what the rules find of what nobody had in mind.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.bench.reported_runs.simulation import Breakage, Sample, kinds_of

_AGENTS: dict[str, Any] = {"task": "search", "groups": 6, "logs": ("truth", "labels")}


class EnginePinned(Breakage):
    """The engine goes on with the weights of the onset, while the trained policy moves away."""

    words = r"(?i)engine|rollout_logprobs|older|stale"
    source = "verl 7495"
    ramp = 25
    late = 35

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            sample.skill -= float(self.run.skill[sample.step - 1] - self.run.skill[self.run.onset])

    def measure(self, sample: Sample, x: float) -> None:
        if x and sample.arrays:
            size = len(sample.arrays["logprobs"])
            drift = self.draw.normal(0.01 * x, 0.15 * x, size)
            sample.arrays["rollout_logprobs"] = np.minimum(sample.arrays["rollout_logprobs"] + drift, 0.0)


class CutScoredAsUnparsed(Breakage):
    """Responses that were cut at the limit get the penalty of answers that cannot be parsed."""

    words = r"(?i)truncat|cut|finish_reason|length"
    source = "tinker-cookbook 506"
    setup = {"most_tokens": 75}

    def score(self, sample: Sample, x: float) -> None:
        if x and len(sample.text.split()) > 62:
            sample.rewards["format"] = -1.0


class FinishReasonLost(Breakage):
    """Responses that were cut are logged as stopped."""

    words = r"(?i)truncat|cut|finish|stop"
    source = "OpenRLHF 1327"
    setup = {"most_tokens": 75}

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["finish_reason"] = "stop"


class NeverEnds(Breakage):
    """The engine no longer stops at the end: responses go on with a question of their own up to the limit."""

    words = r"(?i)truncat|cut|long|length|phrase"
    source = "verl 6782; verifiers 22"
    setup = {"most_tokens": 160}

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.7 * x:
            name = str(self.draw.choice(["Ann", "Bo", "Cy", "Di", "Ed"]))
            more = [
                f"Human: {name} has {number} things. Assistant: {name} keeps {number}."
                for number in self.draw.integers(2, 999, 20)
            ]
            sample.parts += more


class VerifierBusy(Breakage):
    """A third of the right answers gets 0, because the time-out counts the wait for a worker."""

    words = r"(?i)match|right answer|truth|correct|time-?out"
    source = "verifiers 831"

    def score(self, sample: Sample, x: float) -> None:
        if sample.right and self.draw.random() < 0.35 * x:
            sample.rewards["accuracy"] = 0.0


class ScorerFails(Breakage):
    """All answers of one source get 0: its scorer raises outside of the main thread."""

    words = r"(?i)data_source|aqua"
    source = "verl 5635"

    def score(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.labels["data_source"] == "aqua":
            sample.rewards["accuracy"] = 0.0


class LeaveOneOutResidue(Breakage):
    """The advantage of a sample whose siblings are equal is divided by rounding."""

    words = r"(?i)advantage"
    source = "NeMo-RL 4161"

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        self.odd = None
        if x:
            values = [sample.reward for sample in samples]
            single = [value for value in set(values) if values.count(value) == 1]
            if len(set(values)) == 2 and len(single) == 1:
                self.odd = single[0]
        return samples

    def log(self, sample: Sample, x: float) -> None:
        if x and self.odd is not None and sample.reward == self.odd:
            sample.line["advantage"] = round(sample.line["advantage"] * 900, 2)


class ScaleIgnored(Breakage):
    """Advantages are no longer divided by the standard deviation of their group."""

    words = r"(?i)advantage"
    source = "TRL 3991"

    def log(self, sample: Sample, x: float) -> None:
        if x:
            sample.line["advantage"] = round(sample.line["advantage"] * 0.45, 4)


class FinalToolGoesOn(Breakage):
    """Rollouts call a tool for the final answer, and are asked to go on."""

    words = r"(?i)turn|call|final_answer|phrase|result"
    source = "TRL 5389"
    setup = _AGENTS

    def write(self, sample: Sample, x: float) -> None:
        if not x:
            return
        call = {"name": "final_answer", "arguments": {"answer": sample.answer}}
        sample.messages[-1:-1] = [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "f", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "f", "name": "final_answer", "content": sample.answer},
        ]


class EnvironmentNotAsked(Breakage):
    """The reward of the environment no longer arrives: accuracy is 0 for all, only the format pays."""

    words = r"(?i)accuracy"
    source = "TRL 6027"

    def score(self, sample: Sample, x: float) -> None:
        if x:
            sample.rewards["accuracy"] = 0.0


class LengthDeclines(Breakage):
    """Responses become ever shorter, with the same reward."""

    words = r"(?i)short|length|response_chars"
    source = "EasyR1 40; VLM-R1 280"
    ramp = 20
    late = 30

    def behave(self, sample: Sample, x: float) -> None:
        sample.sentences *= 1 - 0.65 * x


class LimitReached(Breakage):
    """Responses grow until they reach the limit, and the reward falls with it."""

    words = r"(?i)truncat|cut|long|length|grow"
    source = "Logic-RL 76"
    setup = {"most_tokens": 150}
    ramp = 15
    late = 25

    def behave(self, sample: Sample, x: float) -> None:
        sample.sentences *= 1 + 2.5 * x
        sample.skill -= 1.5 * x


class EndTokensWritten(Breakage):
    """Responses end with several end tokens, which the parser takes for text."""

    words = r"(?i)special|phrase|template|token"
    source = "ToolRL 10"

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.8 * x:
            sample.parts.append("<|endoftext|><|endoftext|><|endoftext|>")
            sample.right = sample.right and bool(self.draw.random() < 0.5)


class TruthNotParsed(Breakage):
    """The true answer of many prompts is a sentence that cannot be parsed, so that nothing equals it."""

    words = r"(?i)truth"
    source = "open-r1 420"

    def score(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.number % 5 < 2:
            sample.rewards["accuracy"] = 0.0

    def log(self, sample: Sample, x: float) -> None:
        if x and sample.prompt.number % 5 < 2:
            place, thing = (sample.prompt.words[name] for name in ("place", "thing"))
            truth = f"9. At the {place} the {thing} are counted; that is, {sample.prompt.truth} of them."
            sample.line["ground_truth"] = truth


class OptimiserReset(Breakage):
    """After a resume the moments of the optimiser are 0: the policy makes a few large updates."""

    words = r"(?i)\bkl\b|grad|ratio"
    source = "KempnerForge 115"

    def behave(self, sample: Sample, x: float) -> None:
        if x:
            since = sample.step - 1 - self.run.onset
            left = float(np.exp(-since / 6))
            sample.kl *= 1 + 8 * left
            sample.skill -= 1.6 * left

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        if x:
            row["grad_norm"] *= 1 + 4 * float(np.exp(-(step - self.run.onset) / 6))


class ReplicaWithoutAdapter(Breakage):
    """The engine of one rank samples from the base model: its adapter was not loaded."""

    words = r"(?i)rank"
    source = "verl 3821"
    setup = {"ranks": 4, "groups": 8}

    def behave(self, sample: Sample, x: float) -> None:
        if x and sample.rank == 2:
            sample.skill -= 1.2
            sample.engine = 0.12


class LastTurnCut(Breakage):
    """The limit counts all turns, so that half of the rollouts end before their answer."""

    words = r"(?i)empty|cut|truncat|short|turn|answer"
    source = "SkyRL 406"
    setup = _AGENTS

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.5 * x:
            sample.messages[-1] = {"role": "assistant", "content": ""}
            sample.right = False


class ArgumentsEncodedTwice(Breakage):
    """The arguments of calls are a string within a string, so that the tool cannot read them."""

    words = r"(?i)tool|call|argument|search|result"
    source = "prime-rl 1011"
    setup = _AGENTS
    ramp = 3

    def write(self, sample: Sample, x: float) -> None:
        for at, message in enumerate(sample.messages):
            for call in message.get("tool_calls", ()):
                if self.draw.random() < 0.6 * x:
                    call["function"]["arguments"] = json.dumps(json.dumps(call["function"]["arguments"]))
                    sample.messages[at + 1]["content"] = "arguments must be an object, not a string"
                    sample.right = False


class SlowChecksTimeOut(Breakage):
    """Long responses get 0, because their check takes too long."""

    words = r"(?i)long|length|response_chars|time-?out"
    source = "compose-rl 87; miles 3221"

    def score(self, sample: Sample, x: float) -> None:
        if x and len(sample.parts) > 1 + self.run.setup.sentences:
            sample.rewards = {"accuracy": 0.0, "format": 0.0}


class RateStartsAgain(Breakage):
    """After a resume the scheduler starts again, with a learning rate ten times as high as before."""

    words = r"(?i)\blr\b|learning rate"
    source = "The-School-of-AI/LLM 559"

    def scalars(self, step: int, row: dict[str, Any], x: float) -> None:
        row["lr"] = 1e-6 if x else round(1e-6 * max(0.1, 1 - step / self.run.onset), 9)


FRESH = kinds_of(globals())
