"""Checks and converts the values of a sample's fields; a wrong type raises an error with its reason.

Also what a log says about an agent's rollout: rewards of turns, versions, times, judges, media.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.errors import LineError
from rlpanel.sources.records.embedded_media import (
    Image,
    Medium,
    count_media,
    read_image,
    read_medium,
    without_embedded,
)
from rlpanel.sources.records.json_parser import LISTS, to_float, to_float_array, to_python
from rlpanel.sources.records.judge_calls import judge_calls, judge_columns
from rlpanel.sources.records.tool_calls import plain_text

#: In remarks on values of another shape that were read: they are not faults.
READ_FROM = " is read from "
#: So many lists of equal length are not the turns of a conversation.
_MANY_TURNS = 8
#: From 2^53 on, a float cannot distinguish neighbouring integers.
STEP_LIMIT = 2**53


def step_number(value: Any) -> int:
    """Return the step as an integer; 12, 12.0 and "12" are the same step. Raise LineError for others."""
    if type(value) is int and abs(value) < STEP_LIMIT:
        return value
    try:
        number = math.nan if isinstance(value, bool) else to_float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number.is_integer() and abs(number) < STEP_LIMIT:
        return int(number)
    raise LineError(f"'step' is not an integer: {short_repr(value)}")


def as_number(value: Any) -> float:
    """Return a number or that of a text, and NaN for null; raise ValueError for any other value."""
    if value is None:
        return math.nan
    try:
        return text_number(value) if type(value) is str else float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"is not a number: {short_repr(value)}") from None


#: Values as Python writes them: verl, for one, logs what JSON lacks as ``str(value)``.
_WORDS = dict.fromkeys(("True", "true", "np.True_"), 1.0) | dict.fromkeys(
    ("False", "false", "np.False_"), 0.0
)
_WORDS["None"] = math.nan
_CALL = re.compile(
    r"(?:tensor|array|(?:np\.|numpy\.)?(?:array|float|int|uint|bool)_?\d*)"
    r"\(\[?([^\[\](),]+)\]?(?:, *\w+=[\w.:'<>]+)*\)",
    re.ASCII,
)


def text_number(text: str) -> float:
    """Return the number in a text such as "0.5", "True" or "tensor(0.5)"; raise ValueError for others."""
    call = _CALL.fullmatch(text)
    text = call[1] if call else text
    return _WORDS[text] if text in _WORDS else to_float(text)


def column_name(name: str) -> str:
    """Return the name if it is short enough for a column, else raise ValueError."""
    if len(name) > schema.LABEL_MAX:
        raise ValueError(f"has a name of {len(name):,} characters; the limit is {schema.LABEL_MAX}")
    return name


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 200


def short_repr(value: Any) -> str:
    """Return a value as it is shown in a message: shortened, text in quotes."""
    text = _repr.repr(to_python(value))
    return text if len(text) <= 42 else f"{text[:40]}…"


def item_count(value: Any) -> int:
    """Return the number of items of an array, or of the arrays in it: tokens may be one array per turn.

    Raises
    ------
    ValueError
        If the value is neither.
    """
    if type(value) not in LISTS:
        raise ValueError("is not an array")
    return len(flat_turns(to_python(value)) if is_by_turn(value) else value)


def is_by_turn(values: Any) -> bool:
    """Return True if a list holds lists, as tokens of several turns do."""
    return len(values) > 0 and type(values[0]) in LISTS


def flat_turns(turns: list[Any]) -> list[Any]:
    """Return the values of all turns as one list; raise ValueError if some are not in a list.

    Many lists of equal length are not turns, but several values for each token.
    """
    lengths = {len(turn) if isinstance(turn, list) else -1 for turn in turns}
    if -1 in lengths or (len(lengths) == 1 and len(turns) >= _MANY_TURNS and lengths != {1}):
        raise ValueError("contains nested arrays")
    return list(chain.from_iterable(turns))


def whole_numbers(value: Any) -> list[int]:
    """Return an array of integers, such as token ids; raise ValueError for another value."""
    numbers = to_float_array(value)
    if not (np.abs(numbers) < STEP_LIMIT).all():
        raise ValueError("holds a value that is not an integer")
    return numbers.astype(int).tolist()


def as_text(value: Any) -> str:
    """Return a text as it is, chat messages joined to one text, and other values as JSON."""
    if isinstance(value, str):
        return value
    value = to_python(value)
    if isinstance(value, list):
        return "\n".join(_message(item) for item in value)
    return _message(value)


def _message(item: Any) -> str:
    if isinstance(item, dict) and "content" in item:
        return f"[{item.get('role', '?')}] {plain_text(item['content'])}"
    return plain_text(item)


#: Phases of a rollout whose seconds are columns.
PHASES = ("generation", "tool", "environment", "queue", "score")
#: Most spans and versions that are kept of a sample.
_MAX_SPANS = 100_000
#: Times from here on are Unix seconds, smaller ones count from the rollout's start.
_UNIX = 1e8
#: A larger number is a time in milliseconds: in seconds, it is in the year 5138.
_MILLISECONDS = 1e11

Span = tuple[str, float, float]
#: Version of the policy, and the number of tokens that it sampled; -1 if unknown.
Version = tuple[int, int]


@dataclass(slots=True)
class AgentFields:
    """Fields of an agent's rollout; see `rlpanel.schema.Sample`."""

    turn_rewards: np.ndarray | None = None
    policy_versions: tuple[Version, ...] = ()
    timing: dict[str, float] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    judge: dict[str, str] = field(default_factory=dict)
    judge_calls: tuple[schema.JudgeCall, ...] = ()
    verifier: dict[str, str] = field(default_factory=dict)
    images: list[Image] = field(default_factory=list)
    media: list[Medium] = field(default_factory=list)

    def columns(self) -> dict[str, float]:
        """Return the numbers that become sample columns, apart from those that messages give."""
        numbers: dict[str, float] = {}
        if self.turn_rewards is not None:
            numbers["turns"] = float(len(self.turn_rewards))
        if self.policy_versions:
            versions = [version for version, _ in self.policy_versions]
            numbers["policy_version_min"] = float(min(versions))
            numbers["policy_version_max"] = float(max(versions))
        if self.timing:
            numbers |= {f"{phase}_seconds": self.timing[phase] for phase in PHASES if phase in self.timing}
            numbers |= {"start_time": self.timing["start"]} if "start" in self.timing else {}
            seconds = total_seconds(self.timing, self.spans)
            numbers |= {"seconds": seconds} if math.isfinite(seconds) else {}
        if self.judge_calls:
            numbers |= judge_columns(self.judge_calls)
        if self.verifier:
            numbers["verifier_outputs"] = float(len(self.verifier))
        return numbers | count_media(self.images, self.media)


def read_turn_rewards(fields: AgentFields, value: Any) -> None:
    """Store one reward per turn; null becomes NaN."""
    fields.turn_rewards = to_float_array(value)


def read_versions(fields: AgentFields, value: Any) -> None:
    """Store policy versions: a number, ``[first, last]``, ``[[version, tokens], …]``, or one per token.

    Two numbers are the first and the last version; more are those of the tokens.

    Raises
    ------
    ValueError
        If a version is not a whole number.
    """
    value = to_python(value)
    if not isinstance(value, list):
        fields.policy_versions = ((_version(value), -1),)
    elif value and isinstance(value[0], list):
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
            raise ValueError("is not a list of [version, tokens]")
        fields.policy_versions = tuple((_version(v), _version(tokens)) for v, tokens in value[:_MAX_SPANS])
    elif len(value) <= 2:
        fields.policy_versions = tuple((version, -1) for version in dict.fromkeys(map(_version, value)))
    else:
        runs = ((version, len(list(run))) for version, run in groupby(map(_version, value)))
        fields.policy_versions = tuple(runs)


def read_timing(fields: AgentFields, value: Any) -> None:
    """Store an object of seconds by phase, with ``start``, ``total`` and ``spans`` where they are logged.

    A span is ``[phase, start, end]`` or an object with these keys, in Unix seconds or in seconds since the
    rollout's start. The seconds of a phase that are not logged are the sum of its spans.

    Raises
    ------
    ValueError
        If the value is not an object, or one of its numbers is none.
    """
    value = to_python(value)
    if not isinstance(value, Mapping):
        raise ValueError("is not a JSON object")
    spans = [_span(item) for item in (value.get("spans") or ())[:_MAX_SPANS]]
    timing = {str(name): _number(seconds) for name, seconds in value.items() if name != "spans"}
    timing = {name: seconds for name, seconds in timing.items() if math.isfinite(seconds)}
    if spans and min(start for _, start, _ in spans) >= _UNIX:
        begin = timing.setdefault("start", min(start for _, start, _ in spans))
        spans = [(phase, start - begin, end - begin) for phase, start, end in spans]
    fields.spans = tuple(sorted(spans, key=lambda span: span[1]))
    sums: dict[str, float] = {}
    for phase, start, end in fields.spans:
        sums[phase] = sums.get(phase, 0.0) + end - start
    fields.timing = sums | timing


def read_judge(fields: AgentFields, value: Any) -> None:
    """Store the texts of judges by name; a single text is that of ``judge``."""
    fields.judge = _named_texts(value, "judge")


def read_judge_calls(fields: AgentFields, value: Any) -> None:
    """Store the calls of judges, see `judge_calls.judge_calls`."""
    fields.judge_calls = judge_calls(to_python(value))


def read_verifier(fields: AgentFields, value: Any) -> None:
    """Store the output of the verifier by name; a single text is that of ``verifier``."""
    fields.verifier = _named_texts(value, "verifier")


def _named_texts(value: Any, only: str) -> dict[str, str]:
    value = to_python(value)
    texts = value if isinstance(value, Mapping) else {only: value}
    return {str(name): without_embedded(plain_text(text)) for name, text in texts.items() if text is not None}


def read_images(fields: AgentFields, value: Any) -> None:
    """Store the images that were logged beside the messages."""
    fields.images = [read_image(item) for item in _media_items(value)]


def read_media(fields: AgentFields, value: Any, kind: str) -> None:
    """Store audio or video that was logged beside the messages."""
    fields.media += [read_medium(item, kind) for item in _media_items(value)]


def _media_items(value: Any) -> list[Any]:
    value = to_python(value)
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, (int, float)) for item in items):  # their number, for example
        raise ValueError("is a number where an image or a recording was expected")
    return items


def total_seconds(timing: Mapping[str, float], spans: Iterable[Span]) -> float:
    """Return the seconds of a rollout: as logged, else until the last span's end, else the phases' sum."""
    if "total" in timing:
        return timing["total"]
    if {"start", "end"} <= timing.keys():
        return timing["end"] - timing["start"]
    ends = [end for _, _, end in spans]
    phases = [timing[phase] for phase in PHASES if phase in timing]
    return max(ends) if ends else sum(phases) if phases else math.nan


def _span(item: Any) -> Span:
    parts = [item.get(key) for key in ("phase", "start", "end")] if isinstance(item, Mapping) else item
    if not isinstance(parts, list) or len(parts) != 3:
        raise ValueError("has a span that is not [phase, start, end]")
    return str(parts[0]), _number(parts[1]), _number(parts[2])


def _version(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError("holds a version that is not a whole number")
    return int(number)


def _number(value: Any) -> float:
    try:
        return math.nan if value is None else to_float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("holds something that is not a number") from None


def unix_seconds(text: Any) -> float | None:
    """Return a time in ISO 8601 as Unix seconds; None if it is not one."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (AttributeError, ValueError, OverflowError, OSError):
        return None


def unix_time(value: Any) -> float | None:
    """Return a time as Unix seconds: a number of seconds or milliseconds, or ISO 8601; None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return unix_seconds(value)
    seconds = value / 1000 if abs(value) > _MILLISECONDS else float(value)
    return seconds if math.isfinite(seconds) else None
