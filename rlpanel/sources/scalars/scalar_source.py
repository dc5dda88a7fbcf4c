"""Types that the scalar readers share with the store: points, the reader protocol and one row's parser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlpanel.errors import LineError, describe_error
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import BadLine

#: Keys under which trainers write the step; the first one present is used.
STEP_KEYS = ("step", "global_step", "_step", "current_steps")
#: Longest name of a scalar; longer ones are ignored.
NAME_CHARS = 200

Row = tuple[int, dict[str, float]]


@dataclass(slots=True)
class Points:
    """Result of polling a scalar file once.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced; points of earlier generations are invalid.
    rows : list of (step, {name: value})
        In file order; if a name occurs twice at one step, the later value is used.
    bad : list of BadLine
        Lines that could not be read, with the reason.
    more : bool
        True if the byte budget was used up, so more can be read now.
    """

    generation: int = 0
    rows: list[Row] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    more: bool = False


class ScalarFile(Protocol):
    """A file of scalars that grows or is rewritten."""

    path: str
    name: str

    def changed(self) -> bool:
        """Return True if there may be new data since the last poll."""

    def poll(self, budget: int) -> Points:
        """Read new points from about ``budget`` bytes; OSError if the file cannot be read."""

    def reset(self) -> None:
        """Start again at the beginning: points returned before are invalid."""


def parse_row(document: Mapping[str, Any]) -> Row:
    """Return the step and the numbers of one logged object; nested objects give ``outer/inner``.

    Raises
    ------
    LineError
        If the object has no step, or cannot be read for another reason.
    """
    try:
        return _parse_row(document)
    except (LineError, MemoryError):
        raise
    except Exception as error:
        reason = describe_error(error)
    raise LineError(f"cannot be read: {reason}")


def _parse_row(document: Mapping[str, Any]) -> Row:
    key = next((key for key in STEP_KEYS if document.get(key) is not None), None)
    if key is None:
        raise LineError("no 'step'")
    return _step(key, document[key]), dict(_numbers(document, key))


def _step(key: str, value: Any) -> int:
    try:
        number = float(value)
        if number.is_integer() and not isinstance(value, bool) and abs(number) < 2**53:
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise LineError(f"{key!r} is not an integer: {str(to_python(value))[:40]!r}")


def _numbers(document: Mapping[str, Any], step_key: str, prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, bool) or name == step_key or len(name) > NAME_CHARS:
            continue
        if isinstance(value, (int, float)):
            try:
                yield name, float(value)
            except OverflowError:  # an integer too large for a float
                continue
        elif isinstance(value, Mapping) or hasattr(value, "as_dict"):
            yield from _numbers(to_python(value), "", f"{name}/")
