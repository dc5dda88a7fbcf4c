"""Reads ``completions/completions_{step:05d}.parquet`` of TRL's GRPOTrainer, one file per step.

TRL writes these files with ``log_completions``. The columns are, in this order: step, prompt, completion, one
float column per reward function, values that reward functions logged with ``log_extra``, advantage. TRL logs
no total. The reward is the sum of the functions' scores, weighted if the weights are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record

NAME = re.compile(r"completions_\d+\.parquet")
_KEYS = ("step", "prompt", "completion")
#: Columns in which reward functions log the expected answer; the first one present is used.
_TRUTHS = ("ground_truth", "golden_answer", "answer", "solution")


@dataclass(frozen=True)
class Trl:
    """Adapter for TRL's logged completions.

    Attributes
    ----------
    weights : tuple of (str, float)
        Weights of reward functions by name; 1 for functions that are not listed.
    """

    weights: tuple[tuple[str, float], ...] = ()
    shares_evaluation = "TRL replaces the file of a step when it evaluates at that step"
    looks = "completions_{step}.parquet with 'step', 'prompt' and 'completion' (TRL, log_completions=True)"

    @property
    def name(self) -> str:
        """Name that is unique for these weights."""
        weights = ",".join(f"{name}={weight:g}" for name, weight in self.weights)
        return f"TRL, weights {weights}" if weights else "TRL"

    def weighted(self, weights: tuple[tuple[str, float], ...]) -> Trl:
        """Return an adapter with these weights."""
        return Trl(weights)

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the row has TRL's first three columns but no total reward."""
        return all(key in document for key in _KEYS) and document.keys().isdisjoint({"reward", "response"})

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the row's only sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        row = {key: to_python(value) for key, value in document.items()}
        return [build_record(row["step"], _fields(row, dict(self.weights)), path, full=full)]


def _fields(row: dict[str, Any], weights: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    scores = _scores(row)
    truth = next((key for key in _TRUTHS if key in row), None)
    for key, value in row.items():
        if key == "completion":
            yield "response", value
        elif key == "judge" and isinstance(value, str):
            yield "judge_text", value
        elif key in scores:
            yield f"rewards/{key}", value
        else:
            yield "ground_truth" if key == truth else key, value
    weighted = [
        score * weights.get(name, 1.0)
        for name, score in scores.items()
        if score is not None and not math.isnan(score)
    ]
    if scores:
        yield "reward", sum(weighted) if weighted else None


def _scores(row: dict[str, Any]) -> dict[str, float | None]:
    """Return the scores: the float columns after the completion; None if a function gave no score."""
    scores = {}
    keys = list(row)
    for key in keys[keys.index("completion") + 1 :]:
        value = row[key]
        if key == "advantage" or not (value is None or isinstance(value, float)):
            break
        scores[key] = value
    return scores
