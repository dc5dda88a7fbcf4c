"""Reads SkyRL's evaluations: ``dumped_evals/global_step_{N}_evals/{dataset}.jsonl``, written in one go.

An evaluation outside of training is in ``dumped_evals/eval_only`` and has no step. ``score`` is a number, or
one number per token of the response, whose sum is the reward. ``aggregated_results.jsonl`` beside the samples
holds metrics only.

With step-wise trajectories each step is a line, and only the last has the reward. No trajectory is logged: a
line continues the line before if its prompt begins with that line's prompt, and goes on with its response.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_float_array, to_python
from rlpanel.sources.records.record_types import Adapter, Record

_STEP = re.compile(r"global_step_(\d{1,15})_evals/")
_NAMES = {"input_prompt": "prompt", "output_response": "response", "stop_reason": "finish_reason"}
#: Objects of ``env_extras`` that hold the expected answer.
_TRUTHS = ("reward_spec", "reward_model")
#: Longest line that may be a step.
_LINE_BYTES = 64 << 20


class SkyRL:
    """Adapter for SkyRL's dumped evaluations."""

    name = "SkyRL"
    looks = "global_step_{N}_evals/{dataset}.jsonl with 'input_prompt' and 'output_response' (SkyRL)"
    path_in_run = re.compile(r"(?<![^/])(?:dumped_evals/)?(?:global_step_\d+_evals|eval_only)/[^/]+\.jsonl$")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has the keys of an evaluated sample."""
        return {"input_prompt", "output_response", "score"} <= document.keys()

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        for key in ("input_prompt", "output_response"):
            if key not in document:
                raise LineError(f"no {key!r}")
        match = _STEP.search(path)
        return [build_record(match[1] if match else 0, _fields(document), path, full=full)]


def _fields(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "split", "eval"
    for key, value in document.items():
        if key == "score":
            yield from _score(value)
        else:
            yield _NAMES.get(key, key), value
    reason = document.get("stop_reason")
    if reason is not None:
        yield "truncated", int(reason == "length")
    if reason == "length":
        yield "status", "truncated"
    extras = to_python(document.get("env_extras")) or {}
    specs = [extras.get(key) for key in _TRUTHS] if isinstance(extras, dict) else []
    truths = [spec.get("ground_truth") for spec in specs if isinstance(spec, dict)]
    if truths and truths[0] is not None:
        yield "ground_truth", str(truths[0])


def _score(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) or hasattr(value, "as_list"):
        rewards = to_float_array(value)
        yield "token_rewards", rewards.tolist()
        yield "reward", float(rewards.sum())
    else:
        yield "reward", value


@dataclass(frozen=True)
class SkyRLSteps(SkyRL):
    """Adapter for a file whose lines are steps of trajectories.

    Attributes
    ----------
    file : str
        Path of the file.
    stamp : int
        Its modification time, which identifies its version.
    """

    file: str
    stamp: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name that is unique for this version of the file."""
        return f"{SkyRL.name}, steps of {self.file} of {self.stamp}"

    def place(self, records: Iterable[Record], offset: int) -> None:
        """Name the trajectory of the line at an offset."""
        start = _trajectories(self.file, self.stamp).get(offset, offset)
        for record in records:
            record.labels["episode"] = f"{self.file.rsplit('/', 1)[-1].partition('.')[0]}:{start}"


def join_steps(path: AnyPath) -> Adapter:
    """Return the adapter of a file of evaluated samples, by whether some lines continue others."""
    try:
        stamp = path.stat().st_mtime_ns
        starts = _trajectories(str(path), stamp)
    except OSError:
        return SkyRL()
    return SkyRLSteps(str(path), stamp) if len(set(starts.values())) < len(starts) else SkyRL()


@lru_cache(maxsize=64)
def _trajectories(path: str, stamp: int) -> dict[int, int]:
    """Return the offset of the trajectory's first line for the offset of each line."""
    starts: dict[int, int] = {}
    offset = start = 0
    before = "", ""
    with open_plain(path) as file:
        while (line := file.readline(_LINE_BYTES)).endswith(b"\n"):
            texts = _texts(line)
            if not _continues(before, texts):
                start = offset
            starts[offset], before = start, texts
            offset += len(line)
    return starts


def _texts(line: bytes) -> tuple[str, str]:
    """Return prompt and response of a line; empty if it cannot be read."""
    try:
        document = parse(line)
    except LineError:
        return "", ""
    texts = document.get("input_prompt"), document.get("output_response")
    return (str(texts[0]), str(texts[1])) if all(isinstance(text, str) for text in texts) else ("", "")


def _continues(before: tuple[str, str], now: tuple[str, str]) -> bool:
    prompt, response = before
    return bool(prompt and response) and now[0].startswith(prompt) and response in now[0][len(prompt) :]
