"""rlpanel's own line, which is also the predecessor's: one sample an object, one file a rank.

Its keys are the names of `rlpanel.schema` with their aliases. Any further scalar becomes a sample
column of its own; ``rewards`` (an object) becomes one column an entry, ``rewards/<name>``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rlpanel import schema
from rlpanel.errors import LineError
from rlpanel.sources.base import Record, rank_of
from rlpanel.sources.parse import floats, plain

#: Columns that the store fills itself; a logged key of the same name is kept beside them.
RESERVED = frozenset({"uid", "file", "line", "offset", "prompt_chars", "response_chars"})


_TEXT_KEYS = frozenset({"prompt", "response", "messages"})


class Native:
    """The native dialect."""

    name = "native"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether the line has a step and a prompt or a response."""
        keys = set(document.keys())
        return "step" in keys and not _TEXT_KEYS.isdisjoint(keys)

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """The line's one sample; see `rlpanel.sources.base.Adapter.read`."""
        keys = list(document.keys())
        if "step" not in keys:
            raise LineError("no 'step'")
        if _TEXT_KEYS.isdisjoint(keys):
            raise LineError("neither 'prompt' nor 'response'")
        record = Record(step=_step(document["step"]))
        for key in keys:
            if key != "step":
                _take(record, key, document[key], full)
        if record.rank < 0:
            record.rank = rank_of(path)
        _count_tokens(record)
        return [record]


def _count_tokens(record: Record) -> None:
    """Where no tokens were logged, their logprobs tell how many there were; unequal counts are noted."""
    counts = {name: len(array) for name, array in record.arrays.items() if name != "response_token_ids"}
    if "response_tokens" not in record.numbers:
        if "logprobs" in counts:
            record.numbers["response_tokens"] = float(counts["logprobs"])
        return
    tokens = int(record.numbers["response_tokens"])
    record.notes += [
        f"'{name}' has {count} values for {tokens} tokens" for name, count in counts.items() if count != tokens
    ]


def _take(record: Record, key: str, value: Any, full: bool) -> None:
    """Put one key's value where it belongs."""
    if value is None:
        if schema.CANONICAL.get(key) in schema.NUMBERS:
            record.numbers[schema.CANONICAL[key]] = math.nan
        return
    name = schema.CANONICAL.get(key, key)
    if key in ("advantage", "advantages"):
        name = "advantage" if isinstance(value, (int, float)) else "advantages"
    kind = schema.BY_NAME[name].kind if name in schema.BY_NAME else "unknown"
    try:
        _TAKERS[kind](record, name, value, full)
    except ValueError as error:
        record.notes.append(f"{key!r} {error}; the sample is kept without it")


def _text(record: Record, name: str, value: Any, full: bool) -> None:
    if full or name in ("prompt", "response"):
        text = _as_text(value)
        record.texts[name] = text
        if not full:
            record.numbers[f"{name}_chars"] = float(len(text))


def _tokens(record: Record, name: str, value: Any, full: bool) -> None:
    if isinstance(value, (str, bool, int, float)) or hasattr(value, "keys"):
        raise ValueError("is no array")
    record.numbers["response_tokens"] = float(len(value))
    if full:
        record.tokens = [_clean(str(token)) for token in plain(value)]


def _array(record: Record, name: str, value: Any, full: bool) -> None:
    if name == "response_token_ids" and not full:
        record.numbers.setdefault("response_tokens", float(len(value)))
        return
    record.arrays[name] = floats(value)


def _number(record: Record, name: str, value: Any, full: bool) -> None:
    record.numbers[name] = _as_number(value)


def _label(record: Record, name: str, value: Any, full: bool) -> None:
    if not isinstance(value, (str, int, float)):
        raise ValueError("is no text")
    record.labels[name] = _clean(str(value))


def _key(record: Record, name: str, value: Any, full: bool) -> None:
    number = _as_number(value)
    if number.is_integer():
        record.rank = int(number)


def _unknown(record: Record, name: str, value: Any, full: bool) -> None:
    """A scalar becomes a column; ``rewards`` one column an entry; the rest stays in the file."""
    if name == "messages":
        record.texts.setdefault("prompt", _as_text(value))
        return
    column = f"logged_{name}" if name in RESERVED else name
    if isinstance(value, (bool, int, float)):
        record.numbers[column] = float(value)
    elif isinstance(value, str) and len(value) <= schema.LABEL_MAX:
        record.labels[column] = _clean(value)
    elif name == "rewards" and hasattr(value, "items"):
        for part, score in value.items():
            record.numbers[f"rewards/{part}"] = _as_number(score)
    if full:
        record.extra[name] = plain(value)


_TAKERS: dict[str, Callable[[Record, str, Any, bool], None]] = {
    "text": _text,
    "tokens": _tokens,
    "array": _array,
    "number": _number,
    "label": _label,
    "key": _key,
    "unknown": _unknown,
}


#: Beyond 2^53 a float no longer tells neighbouring integers apart.
_STEP_LIMIT = 2**53


def _step(value: Any) -> int:
    """12, 12.0 and "12" are the same step."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number.is_integer() and abs(number) < _STEP_LIMIT:
        return int(number)
    raise LineError(f"'step' is no whole number: {str(value)[:40]!r}")


def _as_number(value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"is no number: {str(value)[:40]!r}") from None


def _as_text(value: Any) -> str:
    """A text, or the messages of a chat as text."""
    value = plain(value)
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return "\n".join(_message(item) for item in value)
    if isinstance(value, dict):
        return _message(value)
    return str(value)


def _message(item: Any) -> str:
    if isinstance(item, dict) and "content" in item:
        return _clean(f"[{item.get('role', '?')}] {item['content']}")
    return _clean(str(item))


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _clean(text: str) -> str:
    """Lone surrogates (an escaped half emoji in a log) cannot be sent to a browser: they become U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
