"""One JSON line to a mapping, at the parser's speed, falling back line by line.

simdjson refuses what real logs hold (NaN, Infinity, integers beyond 64 bits, lone surrogates); jiter
takes most of these, the standard library the rest. Without simdjson (no wheel for this Python) jiter
comes first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import jiter
import numpy as np

from rlpanel.errors import LineError

try:
    import simdjson
except ImportError:  # pragma: no cover - platforms without a wheel
    simdjson = None

_local = threading.local()


def parse(line: bytes) -> Mapping[str, Any]:
    """The object in ``line``.

    The result may be lazy and must be dropped before this thread's next call: simdjson's parser cannot
    be reused while a document of its lives.

    Raises
    ------
    LineError
        If the line is no JSON object; the message is the reason, without the place.
    """
    document = _simd(line) if simdjson is not None else None
    if document is None:
        document = _slow(line)
    if not hasattr(document, "keys"):
        raise LineError(f"a JSON {_kind(document)} where an object was expected")
    return document


def _simd(line: bytes) -> Any:
    try:
        parser = _local.parser
    except AttributeError:
        parser = _local.parser = simdjson.Parser()
    try:
        return parser.parse(line)
    except (ValueError, RuntimeError, UnicodeDecodeError):
        return None


def _slow(line: bytes) -> Any:
    try:
        return jiter.from_json(line, cache_mode="none", allow_inf_nan=True)
    except ValueError as refused:
        reason = str(refused)
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:
        raise LineError(f"invalid UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise LineError(f"not valid JSON: {reason}") from error


def _kind(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), "array")


def floats(value: Any) -> np.ndarray:
    """A JSON array of numbers as float64, null as NaN.

    Raises
    ------
    ValueError
        If the value is no array, is nested or holds something that is no number.
    """
    if hasattr(value, "as_buffer"):
        try:
            array = np.frombuffer(value.as_buffer(of_type="d"), dtype=np.float64)
        except (TypeError, ValueError, RuntimeError):
            value = value.as_list()
        else:
            # as_buffer flattens a nested array without a word
            if len(array) != len(value):
                raise ValueError("is nested")
            return array
    if not isinstance(value, list):
        raise ValueError("is no array")
    if any(isinstance(item, (list, dict)) for item in value):
        raise ValueError("is nested")
    try:
        return np.array([np.nan if item is None else float(item) for item in value], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"holds something that is no number ({error})") from error


def plain(value: Any) -> Any:
    """A lazy value as plain Python objects."""
    if hasattr(value, "as_list"):
        return value.as_list()
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return value
