"""Reads the trainer's scalars from JSON lines, checkpoints and TensorBoard's event files."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

from rlpanel.errors import LineError, describe_error
from rlpanel.regular_files import too_large
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.tail import Tail
from rlpanel.sources.records.json_parser import parse, parse_slow, to_python
from rlpanel.sources.records.record_types import BadLine

# -- scalar files --------------------------------------------------------------------------------------
# Reads the trainer's scalars from JSON lines and from checkpoints, into points that all readers return.
#
# JSON lines are rlpanel's ``scalars.jsonl`` and the logs of trainers such as prime-rl. The transformers
# trainers rewrite ``trainer_state.json`` at every checkpoint.


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


# -- tensorboard ---------------------------------------------------------------------------------------
# Reads TensorBoard event files, with the messages and checksum of the ``tensorboard`` package (an extra).
#
# A file is a sequence of records: length (8 bytes), its checksum (4), the event, its checksum (4). The
# package's own reader cannot start at an offset, and only its error text distinguishes an incomplete record
# from a damaged one. Therefore this module reads the records itself.


_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_FRAME = _LENGTH.size + 2 * _CHECKSUM.size
#: Most bytes per poll. The checksum is pure Python (some 10 MB/s), so more would delay the rollouts.
TURN_BYTES = 256 << 10
#: transformers writes its training scalars under this prefix and everything else without it.
_PREFIX = "train/"


def available() -> bool:
    """Return True if the ``tensorboard`` package is installed."""
    return find_spec("tensorboard") is not None


class EventFile:
    """One ``events.out.tfevents.*`` file; see `scalar_files.ScalarFile`."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._generation = 0
        self._offset = 0
        self._records = 0
        self._damaged = False
        self._scalars: set[str] = set()  # tags declared as scalars; only the first event of a tag declares it
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Return True if the file's stat differs from the last poll."""
        try:
            return _stamp(file_access.stat(self.path)) != self._stamp
        except OSError:
            return bool(self._stamp)

    def poll(self, budget: int) -> Points:
        """Read the new complete records. Records after a damaged one are never read."""
        status = file_access.stat(
            self.path
        )  # before opening: a file that replaces this one is noticed next time
        with file_access.stream(self.path) as file:
            replaced = self._stamp[:2] not in ((), _stamp(status)[:2])
            if replaced or status.st_size < self._offset:
                self.reset()
            self._stamp = _stamp(status)
            points = Points(self._generation)
            if self._damaged:
                return points
            end = min(status.st_size, self._offset + min(budget, TURN_BYTES))
            while self._offset < end:
                file.seek(self._offset)
                try:
                    event = _record(file)
                except LineError as error:
                    self._damaged = True
                    points.bad.append(BadLine(self._records + 1, self._offset, str(error)))
                    return points
                if event is None:
                    return points  # the rest of the record is not written yet
                self._offset += len(event) + _FRAME
                self._records += 1
                self._add_event(event, points)
            points.more = self._offset < status.st_size
        return points

    def reset(self) -> None:
        """Start again at the beginning."""
        self._generation += 1
        self._offset = self._records = 0
        self._damaged = False
        self._scalars = set()
        self._stamp = ()

    def _add_event(self, record: bytes, points: Points) -> None:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event

        try:
            event = Event.FromString(record)
        except DecodeError as error:
            points.bad.append(BadLine(self._records, self._offset, f"not a TensorBoard event: {error}"))
            return
        values = dict(self._values(event))
        if values:
            points.rows.append((event.step, values))

    def _values(self, event: Any) -> Iterator[tuple[str, float]]:
        for value in event.summary.value:
            name = value.tag.removeprefix(_PREFIX)
            if value.metadata.plugin_data.plugin_name == "scalars":
                self._scalars.add(value.tag)
            if not name or len(name) > NAME_CHARS:
                continue
            if value.HasField("simple_value"):
                yield name, value.simple_value
            elif value.HasField("tensor") and value.tag in self._scalars:
                number = _number(value.tensor)
                if number is not None:
                    yield name, number


def _number(tensor: Any) -> float | None:
    """Return the number in a tensor with one element; None for other tensors."""
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(tensor).item())
    except (TypeError, ValueError):
        return None


def _record(file: Any) -> bytes | None:
    """Return the record at the file's position; None while it is incomplete; LineError if it is damaged."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    head = file.read(_LENGTH.size + _CHECKSUM.size)
    if len(head) < _LENGTH.size + _CHECKSUM.size:
        return None
    size = head[: _LENGTH.size]
    if masked_crc32c(size) != _CHECKSUM.unpack(head[_LENGTH.size :])[0]:
        raise LineError("the record's length fails its checksum; the rest of the file cannot be read")
    length = _LENGTH.unpack(size)[0]
    body = file.read(length + _CHECKSUM.size)
    if len(body) < length + _CHECKSUM.size:
        return None
    data = bytes(body[:length])
    if masked_crc32c(data) != _CHECKSUM.unpack(body[length:])[0]:
        raise LineError("the record fails its checksum; the rest of the file cannot be read")
    return data
