"""Reads TensorBoard event files, with the messages and checksum of the ``tensorboard`` package (an extra).

A file is a sequence of records: length (8 bytes), its checksum (4), the event, its checksum (4). The
package's own reader cannot start at an offset, and only its error text distinguishes an incomplete record
from a damaged one. Therefore this module reads the records itself.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files import file_access
from rlpanel.sources.records.record_types import BadLine
from rlpanel.sources.scalars.scalar_files import NAME_CHARS, Points

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


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
