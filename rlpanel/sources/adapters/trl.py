"""TRL's GRPOTrainer with ``log_completions``: ``completions/completions_{step:05d}.parquet``, a file a step.

Columns in their order: step, prompt, completion, a float for each reward function, what reward functions
logged with ``log_extra``, advantage. There is no total: the reward is the sum of the functions' scores, each
with its weight where weights are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import Record

NAME = re.compile(r"completions_\d+\.parquet")
_KEYS = ("step", "prompt", "completion")
#: What reward functions log as the expected answer; the first of them is taken.
_TRUTHS = ("ground_truth", "golden_answer", "answer", "solution")


@dataclass(frozen=True)
class Trl:
    """TRL's logged completions.

    Attributes
    ----------
    weights : tuple of (str, float)
        Of reward functions by name; 1 for those that are not named.
    """

    weights: tuple[tuple[str, float], ...] = ()
    looks = "completions_{step}.parquet with 'step', 'prompt' and 'completion' (TRL, log_completions=True)"

    @property
    def name(self) -> str:
        """Tells one weighting from another."""
        told = ",".join(f"{name}={weight:g}" for name, weight in self.weights)
        return f"TRL, weights {told}" if told else "TRL"

    def weighted(self, weights: tuple[tuple[str, float], ...]) -> Trl:
        """The same with these weights."""
        return Trl(weights)

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the row has TRL's three first columns, and no total."""
        return all(key in document for key in _KEYS) and document.keys().isdisjoint({"reward", "response"})

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The row's one sample."""
        for key in _KEYS:
            if key not in document:
                raise LineError(f"no {key!r}")
        row = {key: plain(value) for key, value in document.items()}
        return [record_of(row["step"], _fields(row, dict(self.weights)), path, full=full)]


def _fields(row: dict[str, Any], weights: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    scores = _scores(row)
    truth = next((key for key in _TRUTHS if key in row), None)
    for key, value in row.items():
        if key == "completion":
            yield "response", _said(value)
        elif key in scores:
            yield f"rewards/{key}", value
        else:
            yield "ground_truth" if key == truth else key, value
    known = [
        score * weights.get(name, 1.0)
        for name, score in scores.items()
        if score is not None and not math.isnan(score)
    ]
    if scores:
        yield "reward", sum(known) if known else None


def _scores(row: dict[str, Any]) -> dict[str, float | None]:
    """The reward functions' columns: the floats that follow the completion; None where one had no score."""
    scores = {}
    keys = list(row)
    for key in keys[keys.index("completion") + 1 :]:
        value = row[key]
        if key == "advantage" or not (value is None or isinstance(value, float)):
            break
        scores[key] = value
    return scores


def _said(completion: Any) -> Any:
    """What the policy said: the text of its one message, or all messages of several turns."""
    if isinstance(completion, list) and len(completion) == 1 and isinstance(completion[0], dict):
        return completion[0].get("content", "")
    return completion
