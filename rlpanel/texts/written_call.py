"""Tool calls as a person writes them: ``add(a=5, b=1)``."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

#: Most characters of a call with several arguments that stands on one line.
ONE_LINE = 120
#: What the arguments of a call begin with if they are meant to be JSON.
_OPENING = ("{", "[")


@lru_cache(maxsize=4)  # a call is asked about twice in a row, and its arguments may be long
def _parsed(text: str) -> Any:
    """Return a JSON text's value; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_unreadable(arguments: str) -> bool:
    """Return True for arguments that are meant to be JSON and cannot be read as such."""
    text = arguments.strip()
    return text.startswith(_OPENING) and _parsed(text) is None


def written_call(name: str, arguments: str) -> str:
    """Return a call as one line if it fits, else with a line for each argument.

    Arguments that are not a JSON object are kept as they are. A text of several lines stands between triple
    quotes, so that code can be read.

    Examples
    --------
    >>> written_call("add", '{"a": 5, "b": 1}')
    'add(a=5, b=1)'
    """
    found = _parsed(arguments)
    if not isinstance(found, dict):
        return f"{name}({arguments.strip()})"
    line = f"{name}({', '.join(f'{key}={_value(value)}' for key, value in found.items())})"
    has_lines = any(isinstance(value, str) and "\n" in value for value in found.values())
    if not has_lines and (len(line) <= ONE_LINE or len(found) == 1):
        return line
    inside = "".join(f"  {key}={_written(value)},\n" for key, value in found.items())
    return f"{name}(\n{inside})"


def _written(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return f'"""\n{value.rstrip()}\n"""'
    line = _value(value)
    return line if len(line) <= ONE_LINE else _value(value, indent=2).replace("\n", "\n  ")


def _value(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
