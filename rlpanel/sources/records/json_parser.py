"""One JSON line to a mapping, at the parser's speed, falling back line by line.

simdjson refuses what real logs hold (NaN, Infinity, integers beyond 64 bits, lone surrogates); jiter
takes most of these, the standard library the rest. Without simdjson (no wheel for this Python) jiter
comes first. Both ways give the same records.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import jiter
import numpy as np

from rlpanel.errors import LineError

try:
    import simdjson
except ImportError:  # pragma: no cover - platforms without a wheel
    simdjson = None  # type: ignore[assignment]

#: A longer line is not given to simdjson. It counts the items of an array in 24 bits, and where there are
#: more it writes beyond the list that it makes; and its parser keeps several times its longest line.
_FAST_BYTES = 16 << 20

#: A line shorter than this is made into Python objects at once, which costs less than being lazy.
_SHORT_BYTES = 1024

#: Lists and objects in a longer line, brackets in its texts included: each costs Python some sixty bytes.
MOST_LISTS = 1_000_000

#: A line with more keys is not taken for a sample; each key may become a column.
MOST_KEYS = 10_000

#: Types of lists, and of all values that are neither a number nor a text.
LISTS = frozenset({list} if simdjson is None else {list, simdjson.Array})
NESTED = LISTS | {dict, type(None)} | ({simdjson.Object} if simdjson is not None else set())

_local = threading.local()


def parse(line: bytes) -> dict[str, Any]:
    """The object in ``line``; of a repeated key the last value counts.

    Arrays and objects in it may be lazy and must be dropped before this thread's next call: simdjson's
    parser cannot be reused while a part of its document lives. `floats` and `plain` free them.

    Raises
    ------
    LineError
        If the line is no JSON object; the message is the reason, without the place.
    """
    if len(line) > _FAST_BYTES:
        _check_lists(line)
        return parse_slow(line)
    document = _fast(line) if simdjson is not None else None
    return document if document is not None else parse_slow(line)


def document(line: bytes, *, lazy: bool) -> Any:
    """What simdjson sees in a line, as it gives it: an object of its own where ``lazy``, else a dict.

    It must be dropped before this thread's next call. None where another parser must look.
    """
    if len(line) > _FAST_BYTES or simdjson is None:
        return None
    try:
        found = _parser().parse(line, not lazy)
    except (ValueError, RuntimeError, KeyError):
        return None
    return found if type(found) is (simdjson.Object if lazy else dict) else None


def _check_lists(line: bytes) -> None:
    """Refuse what may come to many times its length in memory."""
    count = line.count(b"[") + line.count(b"{")
    if count > MOST_LISTS:
        raise LineError(f"the line holds {count:,} lists and objects; at most {MOST_LISTS:,} are read")


def _check_keys(document: Any) -> None:
    """Refuse before every key is made into an object of Python's."""
    if len(document) > MOST_KEYS:
        raise LineError(f"the line has {len(document):,} keys; at most {MOST_KEYS:,} are read")


def _fast(line: bytes) -> dict[str, Any] | None:
    """What simdjson sees, or None where another parser must look."""
    try:
        if len(line) < _SHORT_BYTES:
            document = _parser().parse(line, True)
            return document if type(document) is dict else None
        document = _parser().parse(line)
    except (ValueError, RuntimeError, KeyError):
        return None
    if type(document) is not simdjson.Object:
        return None
    _check_keys(document)
    try:
        fields = {key: document[key] for key in document}
    except (ValueError, RuntimeError, KeyError):  # KeyError: it cuts a key at its NUL, then misses it
        return None
    # Of two values of one key simdjson gives the first, and a key cut at its NUL may be another's.
    if len(fields) != len(document) or "\0" in "".join(fields):
        return None
    return fields


def _parser() -> Any:
    try:
        return _local.parser
    except AttributeError:
        _local.parser = simdjson.Parser()
        return _local.parser


def parse_slow(line: bytes) -> dict[str, Any]:
    """`parse` without simdjson: nothing in the result is lazy."""
    try:
        document = jiter.from_json(line, cache_mode="none", allow_inf_nan=True)
    except ValueError as refused:
        document = _standard(line, str(refused))
    if not isinstance(document, dict):
        raise LineError(f"a JSON {_kind(document)} where an object was expected")
    _check_keys(document)
    return document


def _standard(line: bytes, reason: str) -> Any:
    """What the standard library sees; ``reason`` is why the parser before it refused."""
    try:
        return _whole_characters(json.loads(line.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise LineError(f"invalid UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise LineError("not valid JSON: nested too deeply") from error
    except ValueError as error:
        raise LineError(f"not valid JSON: {reason.replace('at line 1 column', 'at column')}") from error


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _whole_characters(value: Any) -> Any:
    """Lone surrogates (an escaped half emoji in a log) cannot be sent to a browser: U+FFFD instead."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value


def _kind(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), "array")


def floats(value: Any) -> np.ndarray:
    """A JSON array of numbers as float64, null as NaN.

    An array of arrays counts where it holds as many numbers as items, as (T, 1) does.

    Raises
    ------
    ValueError
        If the value is no array, is nested otherwise or holds something that is no number.
    """
    if hasattr(value, "as_buffer"):
        try:
            array = np.frombuffer(value.as_buffer(of_type="d"))  # flattens nested arrays without a word
        except (TypeError, RuntimeError):  # a null, a boolean, a text or an object among the numbers
            return floats(value.as_list())
        if len(array) != len(value):
            raise ValueError("is nested")
        return array
    if not isinstance(value, list):
        raise ValueError("is no array")
    try:
        numbers = [np.nan if item is None else float(item) for item in _flat(value)]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"holds something that is no number ({error})") from error
    if len(numbers) != len(value):
        raise ValueError("is nested")
    return np.array(numbers, dtype=np.float64)


def _flat(items: list[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


def plain(value: Any) -> Any:
    """A lazy value as plain Python objects."""
    if hasattr(value, "as_list"):
        return value.as_list()
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return value
