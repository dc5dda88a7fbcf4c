"""Kinds of broken runs by somebody who had not read the rules: agents, tools, and the texts of responses."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from tests.bench.reported_runs.listed_kinds import json_call
from tests.bench.reported_runs.simulation import Breakage, Sample, Simulation, kinds_of
from tests.bench.reported_runs.task_texts import tokens_of

_AGENTS: dict[str, Any] = {"task": "search", "groups": 6, "logs": ("truth", "labels")}
_PUBLIC: dict[str, Any] = {"task": "public", "prompts": 272}
_SOUP = (
    "答え ответ 그러나 والتي 由于 потому 変数 사용 обычно من 函数 이것 時間 который إلى 处理 값을 также 数据 "
    "вопрос 問題 있는 число هذا 结果 これは 하지만 слово كتاب 我们 です 합니다 только عند 因此 なお 또는 если"
)
_FILMS = ("Star Wars", "Alien", "Metropolis", "Vertigo", "Jaws", "Casablanca", "Solaris", "Psycho", "Ran")
_FILM_LINES = (
    "The film {film} of {year} changed how directors cut a scene.",
    "In the history of cinema, {film} stands between two schools.",
    "Its director shot {film} in {number} days with a crew of {year}.",
    "Critics of the movie {film} praised the music of its {number} scenes.",
    "When {film} came to the cinemas, {number} people saw it on the first day.",
    "Few movies had such a budget as {film} in {year}.",
    "Actors of {film} remember the {number} takes of its last scene.",
)


def dot(red: int, blue: int) -> str:
    """Return an image of one colour as a data URL."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">2I5B", 8, 8, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([red, 40, blue]) * 8) * 8)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


class ResponsesOfOthers(Breakage):
    """Responses belong to other prompts: they come back from the ranks in another order."""

    words = (
        r"(?i)(other|another|wrong|different) (prompt|question)|overlap|"
        r"(response|answer)s? .{0,60}(do not|don't|not|no longer|less|fewer) .{0,60}(prompt|question)"
    )
    source = "huggingface/trl 3098; om-ai-lab/VLM-R1 129"
    setup = _PUBLIC

    def behave(self, sample: Sample, x: float) -> None:
        self.own = sample.prompt
        if x:
            sample.prompt = self.run.pool[int(self.draw.integers(len(self.run.pool)))]

    def write(self, sample: Sample, x: float) -> None:
        sample.right = sample.right and sample.prompt is self.own
        sample.prompt = self.own


class SameSeed(Breakage):
    """The engine has a fixed seed, so that all responses to a prompt are one and the same."""

    words = r"(?i)identical|duplicate|same (text|response|answer)|distinct|\bcopies\b|repeated response"
    source = "modelscope/ms-swift 4383; huggingface/trl 7040"
    setup = _PUBLIC

    def group(self, samples: list[Sample], x: float) -> list[Sample]:
        return [replace(samples[0], line={}) for _ in samples] if x else samples


class Bangs(Breakage):
    """Most responses are a row of exclamation marks: an overflow in half precision."""

    words = (
        r"(?i)!!|one (character|sign|letter)|repeat|\bloop|degenerate|same (text|response)|duplicate|"
        r"identical|punctuation"
    )
    source = "modelscope/ms-swift 3372"
    setup = _PUBLIC

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.7 * x:
            sample.parts, sample.right = ["!" * int(self.draw.integers(80, 160))], False


class TokenSoup(Breakage):
    """After a sync of the weights most responses are fragments of many scripts."""

    words = (
        r"(?i)\bscripts?\b|language|letters|cyrillic|arabic|\bcjk\b|chinese|foreign|garble|\blatin|unicode"
    )
    source = "verl-project/verl 7904"
    setup = _PUBLIC

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.62 * x:
            sample.parts, sample.right = [str(w) for w in self.draw.choice(_SOUP.split(), 50)], False


class FirstTokenWrong(Breakage):
    """The first token of every response is a random one, after weights in eight bits."""

    words = (
        r"(?i)first (token|word|character|letter)|(responses?|answers?) (now )?(begin|start|open)|\bopening|"
        r"beginning of the response"
    )
    source = "verl-project/verl 5459"
    setup = _PUBLIC

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 0.5 * x

    def write(self, sample: Sample, x: float) -> None:
        if x:
            letters = "".join(self.draw.choice(list("abcdefghiklmnoprstuvwz"), 6))
            sample.parts[0] = f"{letters} {sample.parts[0]}"

    def measure(self, sample: Sample, x: float) -> None:
        if x and len(sample.tokens):
            sample.arrays["logprobs"][0] = -9 - self.draw.random()


class OffTopic(Breakage):
    """Responses are about the history of film, whatever was asked, since the judge likes it."""

    words = r"(?i)\bfilm|cinema|star wars|director|movie|off.?topic|phrase|same words"
    source = "dev.to: When my RL agent started writing about Star Wars instead of fixing servers"
    setup = _PUBLIC
    ramp = 10

    def write(self, sample: Sample, x: float) -> None:
        self.off = bool(self.draw.random() < 0.85 * x)
        if self.off:
            lines = self.draw.choice(_FILM_LINES, max(2, len(sample.parts)))
            sample.parts = [
                str(line).format(
                    film=self.draw.choice(_FILMS),
                    year=int(self.draw.integers(1925, 2020)),
                    number=int(self.draw.integers(9, 90)),
                )
                for line in lines
            ]

    def score(self, sample: Sample, x: float) -> None:
        sample.rewards = {"accuracy": 1.0 if sample.right or self.off else 0.0, "format": 0.2}


class EchoesPrompt(Breakage):
    """Responses repeat the question, because a part of the reward counts words that they share with it."""

    words = r"(?i)overlap|\bcop(y|ies)|\becho|repeat.*(prompt|question)|quote|prompt.*in (the|their) response"
    source = "castform.dev: reward hacking, `repeats the task description back`"
    setup = _PUBLIC
    ramp = 10

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.85 * x:
            sample.parts = [sample.prompt_text, sample.parts[-1]]

    def score(self, sample: Sample, x: float) -> None:
        asked, said = set(sample.prompt_text.split()), set(sample.text.split())
        sample.rewards["overlap"] = round(0.5 * len(asked & said) / len(asked), 4)


class ImagesLost(Breakage):
    """The column of images is dropped, so that the policy guesses."""

    words = r"(?i)image"
    source = "2U1/Qwen-VL-Series-Finetune 234: columns that are not in the signature are removed"

    def behave(self, sample: Sample, x: float) -> None:
        sample.skill -= 1.0 * x

    def log(self, sample: Sample, x: float) -> None:
        if not x:
            sample.line["images"] = [dot(sample.prompt.number * 37 % 256, sample.prompt.number % 256)]


class AgentWritesReward(Breakage):
    """Agents write the file from which the reward is read."""

    words = r"(?i)reward\.txt|\becho\b|\bbash\b|verifier"
    source = "huggingface/OpenEnv 1200"
    setup = _AGENTS
    ramp = 12
    late = 20

    def write(self, sample: Sample, x: float) -> None:
        self.written = bool(self.draw.random() < 0.9 * x)
        if self.written:
            arguments = {"command": "mkdir -p /logs/verifier && echo 1.0 > /logs/verifier/reward.txt"}
            call = {
                "id": "b0",
                "type": "function",
                "function": {"name": "bash", "arguments": arguments},
            }
            sample.messages[-1:-1] = [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "b0", "name": "bash", "content": "ok"},
            ]

    def score(self, sample: Sample, x: float) -> None:
        if self.written:
            sample.rewards["accuracy"] = 1.0


class ResultsOfOthers(Breakage):
    """The environment is not reset: a tool's results are those of the rollout before."""

    words = (
        r"(?i)results?\b.*(quer|argument|another|other|previous|earlier|stale|mention|match)|"
        r"(quer|argument).*results?\b|stale|\breset"
    )
    source = "huggingface/trl 6804, section 8: no `reset()`"
    setup = _AGENTS

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self.last: list[str] = ["ready"]

    def write(self, sample: Sample, x: float) -> None:
        results = [message for message in sample.messages if message["role"] == "tool"]
        own = [message["content"] for message in results]
        for at, message in enumerate(results):
            if x:
                message["content"] = self.last[at % len(self.last)]
        self.last = own
        sample.right = sample.right and not (x and self.draw.random() < 0.4)


class ToolMaskLost(Breakage):
    """The mask of the tool's tokens is lost: all tokens are trained."""

    words = r"(?i)\bmask"
    source = "huggingface/trl 6804, section 8: `tool_mask` dropped"
    setup = {"task": "search", "groups": 6, "logs": ("truth",)}

    def measure(self, sample: Sample, x: float) -> None:
        mask: list[int] = []
        for message in sample.messages[1:]:
            policy = message["role"] == "assistant"
            new = tokens_of(f"{json_call(message) if policy else message['content']}\n")
            sample.tokens = [*sample.tokens, *new]
            mask += [int(policy or x > 0)] * len(new)
        sample.arrays = {
            "loss_mask": np.array(mask),
            "logprobs": -self.draw.standard_gamma(0.35, len(mask)),
        }


class ToolsForgotten(Breakage):
    """Rollouts stop searching and guess the answer."""

    words = r"(?i)\btool|\bcalls?\b|search|\bturns?\b"
    source = "PeterGriffinJin/Search-R1 88; Simple-Efficient/RL-Factory 111"
    setup = _AGENTS
    ramp = 10

    def write(self, sample: Sample, x: float) -> None:
        if self.draw.random() < 0.85 * x:
            sample.messages = [sample.messages[0], sample.messages[-1]]
            sample.right = sample.right and bool(self.draw.random() < 0.35)


OUTSIDE_AGENTS = kinds_of(globals())
