"""Checks and converts the values of a sample's fields; a wrong type raises an error with its reason."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.errors import LineError
from rlpanel.sources.records.json_parser import to_float_array, to_python

#: From 2^53 on, a float cannot distinguish neighbouring integers.
STEP_LIMIT = 2**53


def step_number(value: Any) -> int:
    """Return the step as an integer; 12, 12.0 and "12" are the same step. Raise LineError for others."""
    if type(value) is int and abs(value) < STEP_LIMIT:
        return value
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number.is_integer() and abs(number) < STEP_LIMIT:
        return int(number)
    raise LineError(f"'step' is not an integer: {short_repr(value)}")


def as_number(value: Any) -> float:
    """Return a number, and NaN for null; raise ValueError for any other value."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"is not a number: {short_repr(value)}") from None


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
    """Return the number of items of an array; raise ValueError for another value."""
    if isinstance(value, list) or hasattr(value, "as_list"):
        return len(value)
    raise ValueError("is not an array")


def whole_numbers(value: Any) -> list[int]:
    """Return an array of integers, such as token ids; raise ValueError for another value."""
    numbers = to_float_array(value)
    if not (np.abs(numbers) < STEP_LIMIT).all():
        raise ValueError("holds a value that is not an integer")
    return numbers.astype(int).tolist()


def as_text(value: Any) -> str:
    """Return a text as it is, and chat messages joined to one text."""
    if isinstance(value, str):
        return value
    value = to_python(value)
    if isinstance(value, list):
        return "\n".join(_message(item) for item in value)
    return _message(value)


def _message(item: Any) -> str:
    if isinstance(item, dict) and "content" in item:
        return f"[{item.get('role', '?')}] {item['content']}"
    return str(item)
