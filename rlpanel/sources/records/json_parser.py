"""Parses one JSON line with simdjson, falling back to slower parsers for lines that simdjson refuses.

simdjson refuses values that real logs contain (NaN, Infinity, integers beyond 64 bits, lone surrogates).
jiter parses most of these lines and the standard library the rest. If simdjson has no wheel for this Python,
jiter comes first. All parsers give the same records.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jiter
import numpy as np

from rlpanel.errors import LineError, LineTooLarge

try:
    import simdjson
except ImportError:  # pragma: no cover - platforms without a wheel
    simdjson = None  # type: ignore[assignment]

#: Longer lines are not given to simdjson. It counts the items of an array in 24 bits and writes beyond the
#: end of its list if there are more. Its parser also keeps several times its longest line in memory.
_FAST_BYTES = 16 << 20

#: Shorter lines become Python objects at once, which is cheaper than lazy access.
_SHORT_BYTES = 1024

#: Most lists and objects in a line over `_FAST_BYTES`, because each takes some sixty bytes of memory.
#: Brackets in texts are counted, too.
MAX_LISTS = 1_000_000

#: Most keys of a sample, because each key may become a column.
MAX_KEYS = 10_000

#: Objects with more keys are not read lazily: simdjson searches each key from the start.
_MANY_KEYS = 1_000

#: Types of lists, and types of all values that are neither numbers nor texts.
LISTS = frozenset({list} if simdjson is None else {list, simdjson.Array})
NESTED = LISTS | {dict, type(None)} | ({simdjson.Object} if simdjson is not None else set())

_local = threading.local()


def parse(line: bytes, most_keys: int = MAX_KEYS) -> dict[str, Any]:
    """Return the object in ``line``; if a key is repeated, its last value counts.

    Arrays and objects in it may be lazy and must be dropped before this thread's next call: simdjson's
    parser cannot be reused while a part of its document is alive. `to_float_array` and `to_python`
    convert them.

    Raises
    ------
    LineError
        If the line is not a JSON object. The message gives the reason without file and line.
    LineTooLarge
        If it has more than ``most_keys`` keys. A document may have one for each sample.
    """
    if len(line) > _FAST_BYTES:
        _check_lists(line)
        return parse_slow(line, most_keys)
    document = _fast(line, most_keys) if simdjson is not None else None
    return document if document is not None else parse_slow(line, most_keys)


def parse_some(line: bytes, keys: Collection[str]) -> dict[str, Any]:
    """Return the object in ``line`` as `parse` does, with at least these keys: a few are faster than all."""
    if simdjson is None or not _SHORT_BYTES <= len(line) <= _FAST_BYTES:
        return parse(line)
    found = _lazy_fields(line, keys)
    return found if found is not None else parse_slow(line)


def parse_fast(line: bytes, *, lazy: bool) -> Any:
    """Parse a line with simdjson only: a lazy simdjson object if ``lazy``, else a dict.

    Returns None if another parser must be used. The result must be dropped before this thread's next call.
    """
    if len(line) > _FAST_BYTES or simdjson is None:
        return None
    try:
        parsed = _parser().parse(line, not lazy)
    except (ValueError, RuntimeError, KeyError):
        return None
    return parsed if type(parsed) is (simdjson.Object if lazy else dict) else None


#: Stands between lines that are parsed in one call. It is random, so that no log can contain it.
_MARK = secrets.randbits(62)
_BETWEEN_LINES = b",\n%d,\n" % _MARK


def parse_lines(lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """Parse lines as `parse` does, in one call; None if they must be parsed one by one.

    Nothing in the result is lazy, and integers may have more than 64 bits.
    """
    if sum(map(len, lines)) > _FAST_BYTES:
        return None
    try:
        values = jiter.from_json(b"[%b]" % _BETWEEN_LINES.join(lines), cache_mode="keys", allow_inf_nan=True)
    except ValueError:
        return None
    # A value that began in one line and ended in another one would contain the mark between the two.
    objects, marks = values[::2], values[1::2]
    if len(values) != 2 * len(lines) - 1 or marks.count(_MARK) != len(marks):
        return None
    return objects if set(map(type, objects)) == {dict} else None


def _check_lists(line: bytes) -> None:
    """Raise LineError if the parsed line could take many times its length in memory."""
    count = line.count(b"[") + line.count(b"{")
    if count > MAX_LISTS:
        raise LineTooLarge(f"the line holds {count:,} lists and objects; the limit is {MAX_LISTS:,}")


def _check_keys(document: Any, most: int) -> None:
    """Raise LineTooLarge for too many keys, before each key becomes a Python object."""
    if len(document) > most:
        raise LineTooLarge(f"the line has {len(document):,} keys; the limit is {most:,}")


def _fast(line: bytes, most_keys: int) -> dict[str, Any] | None:
    """Parse a line with simdjson; None if another parser must be used."""
    try:
        if len(line) < _SHORT_BYTES:
            document = _parser().parse(line, True)
            return document if type(document) is dict else None
    except (ValueError, RuntimeError, KeyError):
        return None
    return _lazy_fields(line, most_keys=most_keys)


def _lazy_fields(
    line: bytes, wanted: Collection[str] | None = None, most_keys: int = MAX_KEYS
) -> dict[str, Any] | None:
    """Parse a line with simdjson and return the values of all or some keys; None as `_fast`."""
    try:
        document = _parser().parse(line)
    except (ValueError, RuntimeError, KeyError):
        return None
    if type(document) is not simdjson.Object:
        return None
    _check_keys(document, most_keys)
    if len(document) > _MANY_KEYS:
        return None
    try:
        keys = list(document)
        # simdjson gives the first value of a repeated key, and a key cut at NUL may equal another key.
        if len(set(keys)) != len(document) or "\0" in "".join(keys):
            return None
        return {key: document[key] for key in keys if wanted is None or key in wanted}
    except (ValueError, RuntimeError, KeyError):  # KeyError: simdjson cuts a key at NUL and then misses it
        return None


def _parser() -> Any:
    try:
        return _local.parser
    except AttributeError:
        _local.parser = simdjson.Parser()
        return _local.parser


def parse_slow(line: bytes, most_keys: int = MAX_KEYS) -> dict[str, Any]:
    """Parse a line as `parse` does, but without simdjson: nothing in the result is lazy."""
    document = _parse_any(line)
    if not isinstance(document, dict):
        raise LineError(f"a JSON {_kind(document)} where an object was expected")
    _check_keys(document, most_keys)
    return document


def parse_value(text: str) -> Any:
    """Return the value of a text in a line that is JSON itself; LineError if it is not JSON."""
    return _parse_any(text.encode())


def is_whole(line: bytes) -> bool:
    """Return True if a line is a whole JSON value; what was cut off is not."""
    try:
        _check_lists(line)
        _parse_any(line)
    except LineError:
        return False
    return True


def _parse_any(text: bytes) -> Any:
    try:
        return jiter.from_json(text, cache_mode="none", allow_inf_nan=True)
    except ValueError as refused:
        return _standard(text, str(refused))


def _standard(line: bytes, reason: str) -> Any:
    """Parse a line with the standard library; ``reason`` is the error of the parser before it."""
    try:
        return _replace_surrogates(json.loads(line.decode("utf-8-sig"), parse_int=_integer))
    except UnicodeDecodeError as error:
        raise LineError(f"invalid UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise LineError("not valid JSON: nested too deeply") from error
    except ValueError as error:
        raise LineError(f"not valid JSON: {reason.replace('at line 1 column', 'at column')}") from error


def _integer(digits: str) -> int | str:
    """Return an integer; its digits if there are more than Python converts."""
    try:
        return int(digits)
    except ValueError:
        return digits


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates (half an escaped emoji) by U+FFFD, since they cannot be sent to a browser."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value


def _kind(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), "array")


def to_float_array(value: Any) -> np.ndarray:
    """Convert a JSON array of numbers to float64, with null as NaN.

    A nested array is accepted if it holds as many numbers as items, as shape (T, 1) does.

    Raises
    ------
    ValueError
        If the value is not an array, is nested in another way or holds something other than numbers.
    """
    if hasattr(value, "as_buffer"):
        try:
            array = np.frombuffer(value.as_buffer(of_type="d"))  # silently flattens nested arrays
        except (TypeError, RuntimeError):  # it holds a null, a boolean, a text or an object
            return to_float_array(value.as_list())
        if len(array) != len(value):
            raise ValueError("contains nested arrays")
        return array
    if not isinstance(value, list):
        raise ValueError("is not an array")
    try:
        numbers = [np.nan if item is None else to_float(item) for item in _flat(value)]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"holds a value that is not a number ({error})") from error
    if len(numbers) != len(value):
        raise ValueError("contains nested arrays")
    return np.array(numbers, dtype=np.float64)


def to_float(value: Any) -> float:
    """Convert a number, or a text of one; Python's float would take "1_2" and other scripts' digits, too."""
    number = float(value)
    if isinstance(value, str):
        is_too_large = number in (np.inf, -np.inf) and value.strip()[-1].isdigit()
        if "_" in value or is_too_large or not value.isascii():
            raise ValueError(f"could not convert string to float: {value[:42]!r}")
    return number


def _flat(items: list[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


def to_python(value: Any) -> Any:
    """Convert a lazy value to plain Python objects."""
    if hasattr(value, "as_list"):
        return value.as_list()
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return value
