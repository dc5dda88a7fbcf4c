"""Reads SkyRL's evaluations: ``dumped_evals/global_step_{N}_evals/{dataset}.jsonl``, written in one go.

An evaluation outside of training is in ``dumped_evals/eval_only`` and has no step. ``score`` is a number, or
one number per token of the response, whose sum is the reward. ``aggregated_results.jsonl`` beside the samples
holds metrics only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_float_array, to_python
from rlpanel.sources.records.record_types import Record

_STEP = re.compile(r"global_step_(\d{1,15})_evals/")
_NAMES = {"input_prompt": "prompt", "output_response": "response", "stop_reason": "finish_reason"}
#: Objects of ``env_extras`` that hold the expected answer.
_TRUTHS = ("reward_spec", "reward_model")


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
