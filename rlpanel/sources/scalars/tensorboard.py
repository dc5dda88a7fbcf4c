"""TensorBoard event files, by the messages and the checksum of the ``tensorboard`` package (an extra).

A file is a sequence of records: length (8 bytes), its checksum (4), the event, its checksum (4). The
package's own reader tells a record that is still being written from a damaged one only by the words of
its message, and cannot begin at an offset; so the frame is read here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files import files
from rlpanel.sources.records.record_types import BadLine
from rlpanel.sources.scalars.scalar_source import NAME_CHARS, Points

_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
_FRAME = _LENGTH.size + 2 * _CHECKSUM.size
#: The checksum is pure Python (some 10 MB/s); more bytes in one turn would hold up the rollouts.
TURN_BYTES = 256 << 10
#: transformers writes its training scalars under this prefix and everything else without it.
_PREFIX = "train/"


def available() -> bool:
    """Whether the ``tensorboard`` package is installed."""
    return find_spec("tensorboard") is not None


class EventFile:
    """One ``events.out.tfevents.*`` file; see `rlpanel.sources.scalars.scalar_source.ScalarFile`."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._generation = 0
        self._offset = 0
        self._records = 0
        self._damaged = False
        self._scalars: set[str] = set()  # tags that were declared to be scalars; only their first event is
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Whether the file's stat differs from the last look."""
        try:
            return _stamp(files.stat(self.path)) != self._stamp
        except OSError:
            return bool(self._stamp)

    def poll(self, budget: int) -> Points:
        """The new whole records. Nothing behind a damaged one can be found again."""
        status = files.stat(self.path)  # first: what is put in its place meanwhile is another one next time
        with files.stream(self.path) as file:
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
                    return points  # the rest of the record is still to come
                self._offset += len(event) + _FRAME
                self._records += 1
                self._take(event, points)
            points.more = self._offset < status.st_size
        return points

    def reset(self) -> None:
        """Begin again."""
        self._generation += 1
        self._offset = self._records = 0
        self._damaged = False
        self._scalars = set()
        self._stamp = ()

    def _take(self, record: bytes, points: Points) -> None:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event

        try:
            event = Event.FromString(record)
        except DecodeError as error:
            points.bad.append(BadLine(self._records, self._offset, f"no event: {error}"))
            return
        found = dict(self._values(event))
        if found:
            points.rows.append((event.step, found))

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
    """The number in a tensor that holds one."""
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(tensor).item())
    except (TypeError, ValueError):
        return None


def _record(file: Any) -> bytes | None:
    """The record that begins here, or None while it is not whole; LineError if it is damaged."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    head = file.read(_LENGTH.size + _CHECKSUM.size)
    if len(head) < _LENGTH.size + _CHECKSUM.size:
        return None
    size = head[: _LENGTH.size]
    if masked_crc32c(size) != _CHECKSUM.unpack(head[_LENGTH.size :])[0]:
        raise LineError("the record's length fails its checksum; what follows cannot be read")
    length = _LENGTH.unpack(size)[0]
    body = file.read(length + _CHECKSUM.size)
    if len(body) < length + _CHECKSUM.size:
        return None
    data = bytes(body[:length])
    if masked_crc32c(data) != _CHECKSUM.unpack(body[length:])[0]:
        raise LineError("the record fails its checksum; what follows cannot be read")
    return data


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
