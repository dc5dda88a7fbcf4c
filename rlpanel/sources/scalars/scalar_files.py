"""Reads the trainer's scalars from JSON lines and from checkpoints, into points that all readers return.

JSON lines are rlpanel's ``scalars.jsonl`` and the logs of trainers such as prime-rl. The transformers
trainers rewrite ``trainer_state.json`` at every checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlpanel.errors import LineError, describe_error
from rlpanel.regular_files import too_large
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.tail import Tail
from rlpanel.sources.records.json_parser import parse, parse_slow, to_python
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


LINE_BYTES = 16 << 20


class ScalarLines:
    """File with one object per line, a step and numbers; see `ScalarFile`."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._tail = Tail(path, LINE_BYTES)
        self._generation = 0
        self._lines = 0  # number of lines read in this generation

    def changed(self) -> bool:
        """Return True if the file's stat differs from the last check, or known bytes are still unread."""
        return self._tail.changed()

    def poll(self, budget: int) -> Points:
        """Read the new complete lines; an incomplete line waits for its end."""
        block = self._tail.read(budget)
        if block.generation != self._generation:
            self._generation, self._lines = block.generation, 0
        points = Points(block.generation, more=block.more)
        offset = block.offset
        if block.skipped:
            self._lines += 1
            points.bad.append(BadLine(self._lines, offset, f"the line has {block.skipped:,} bytes"))
        for line in block.lines():
            self._lines += 1
            if line and not line.isspace():
                try:
                    row = parse(line)
                    if "step" not in row or row["step"] is not None:  # prime-rl logs some over time alone
                        points.rows.append(parse_row(row))
                except LineError as error:
                    points.bad.append(BadLine(self._lines, offset, str(error)))
            offset += len(line) + 1
        return points

    def reset(self) -> None:
        """Start again at the beginning."""
        self._tail.reset()


#: Seconds without changes after which a file that does not parse counts as bad rather than being written.
SETTLED = 5.0
#: Larger files are not parsed.
MAX_BYTES = 128 << 20


class TrainerState:
    """Reader of a file's ``log_history``; a rewritten file replaces all earlier points.

    See `ScalarFile`.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._file = file_access.follow_file(path)
        self._generation = 0
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Return True if the file was written since it was last read completely."""
        try:
            return _stamp(file_access.stat(self.path)) != self._stamp
        except OSError:
            return bool(self._stamp)

    def poll(self, budget: int) -> Points:
        """Read all points again if the file was rewritten; while it is being written, keep the old ones."""
        with self._file as file:
            status = file.stat()
            if _stamp(status) == self._stamp:
                return Points(self._generation)
            if status.st_size > MAX_BYTES:
                raise too_large(status.st_size, MAX_BYTES, self.path)
            data = file.read(status.st_size, 0)
        try:
            history = parse_slow(data).get("log_history")
            if not isinstance(history, list):
                raise LineError("no 'log_history' list")
        except LineError as error:
            if time.time() - status.st_mtime < SETTLED:
                return Points(self._generation)
            points = Points(self._generation, bad=[BadLine(1, 0, str(error))])
        else:
            self._generation += 1
            points = Points(self._generation)
            for entry in history:
                _add_entry(entry, points)
        self._stamp = _stamp(status)
        return points

    def reset(self) -> None:
        """Start again at the beginning."""
        self._stamp = ()
        self._generation += 1


def _add_entry(entry: object, points: Points) -> None:
    try:
        if not isinstance(entry, dict):
            raise LineError("an entry of 'log_history' is not a JSON object")
        points.rows.append(parse_row(entry))
    except LineError as error:
        points.bad.append(BadLine(1, 0, str(error)))


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
