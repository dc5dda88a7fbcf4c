"""Columnar lines: one object a step whose values are lists of equal length, one item a sample.

ms-swift appends such a line to ``completions.jsonl`` at each logging step; ROLL writes
``rollout_dump_data.step_{N}.jsonl`` with one. ms-swift logs no total reward: the columns between
``completion`` and ``advantages`` are its reward functions, and their sum is the reward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import record_of
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import MOST_SAMPLES, Record

_STEPS = ("step", "global_step")
_PROMPTS = ("prompt", "prompts")
_RESPONSES = ("completion", "completions", "response", "responses")
#: A mean over the response's tokens, where ``entropy`` means one value a token.
_NAMES = {
    **dict.fromkeys(_PROMPTS, "prompt"),
    **dict.fromkeys(_RESPONSES, "response"),
    "scores": "reward",
    "advantages": "advantage",
    "entropy": "logged_entropy",
}
#: Samples times columns; each becomes an object of some hundred bytes.
MOST_VALUES = 1_000_000


class Columnar:
    """A line that holds a step's samples as columns."""

    name = "columnar"
    looks = "*.jsonl with lists of equal length under 'step' or 'global_step', 'prompt' and 'completion' or "
    looks += "'responses' (ms-swift, ROLL)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether steps and texts are lists."""
        steps, prompts, responses = (_first(document, keys) for keys in (_STEPS, _PROMPTS, _RESPONSES))
        return _is_list(steps) and (_is_list(prompts) or _is_list(responses))

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """The line's samples."""
        step_key = next((key for key in _STEPS if key in document), None)
        if step_key is None:
            raise LineError("no 'step' or 'global_step'")
        columns = {key: plain(value) for key, value in document.items()}
        count = _samples(columns)
        summed = _reward_columns(columns)
        steps = columns.pop(step_key)
        return [record_of(steps[at], _fields(columns, summed, at), path, full=full) for at in range(count)]


def _first(document: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((document[key] for key in keys if key in document), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or hasattr(value, "as_list")


def _samples(columns: dict[str, Any]) -> int:
    """How many samples there are; LineError where the columns do not agree."""
    single = [key for key, value in columns.items() if not isinstance(value, list)]
    if single:
        raise LineError(f"{single[0]!r} is no list, as the line's other values are")
    lengths = {key: len(value) for key, value in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key!r} {length}" for key, length in list(lengths.items())[:6])
        raise LineError(f"lists of unequal length: {told}")
    count = next(iter(lengths.values()), 0)
    if count > MOST_SAMPLES:
        raise LineError(f"{count:,} samples in one line; at most {MOST_SAMPLES:,} are read")
    if count * len(columns) > MOST_VALUES:
        raise LineError(f"{count * len(columns):,} values in one line; at most {MOST_VALUES:,} are read")
    return count


def _reward_columns(columns: dict[str, Any]) -> list[str]:
    """The reward functions' columns; none where the total was logged."""
    keys = list(columns)
    response = next((key for key in _RESPONSES if key in columns), None)
    if {"scores", "reward"} & columns.keys() or response is None or "advantages" not in columns:
        return []
    between = keys[keys.index(response) + 1 : keys.index("advantages")]
    return [key for key in between if all(item is None or _is_number(item) for item in columns[key])]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fields(columns: dict[str, Any], summed: list[str], at: int) -> Iterator[tuple[str, Any]]:
    for key, values in columns.items():
        yield f"rewards/{key}" if key in summed else _NAMES.get(key, key), values[at]
    scores = [columns[key][at] for key in summed]
    known = [score for score in scores if score is not None and not math.isnan(score)]
    if summed:
        yield "reward", sum(known) if known else None
