"""What passes between the readers of the trainer's scalars and the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlpanel.errors import LineError
from rlpanel.sources.records.json_parser import plain
from rlpanel.sources.records.record_types import BadLine

#: Keys under which trainers write the step, the first found counts.
STEP_KEYS = ("step", "global_step", "_step")
#: A longer name is no name.
NAME_CHARS = 200

Row = tuple[int, dict[str, float]]


@dataclass(slots=True)
class Points:
    """What one look at a scalar file brought.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced; points of earlier generations no longer count.
    rows : list of (step, {name: value})
        In the order of the file; of two values of one name at one step the later counts.
    bad : list of BadLine
        What could not be read, and why.
    more : bool
        Whether more that can be read now is waiting behind the budget.
    """

    generation: int = 0
    rows: list[Row] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    more: bool = False


class ScalarFile(Protocol):
    """A file with scalars that grows or is rewritten."""

    path: str
    name: str

    def changed(self) -> bool:
        """Whether there may be something new since the last look."""

    def poll(self, budget: int) -> Points:
        """New points, reading about ``budget`` bytes; OSError if the file cannot be read."""

    def reset(self) -> None:
        """Begin again: what was handed out is void."""


def row_of(document: Mapping[str, Any]) -> Row:
    """The step and the numbers of one logged object; nested objects give ``outer/inner``.

    Raises
    ------
    LineError
        If it has no step.
    """
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
    raise LineError(f"{key!r} is no whole number: {str(plain(value))[:40]!r}")


def _numbers(document: Mapping[str, Any], step_key: str, prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, bool) or name == step_key or len(name) > NAME_CHARS:
            continue
        if isinstance(value, (int, float)):
            try:
                yield name, float(value)
            except OverflowError:  # an integer that no float can hold
                continue
        elif isinstance(value, Mapping) or hasattr(value, "as_dict"):
            yield from _numbers(plain(value), "", f"{name}/")
