"""Messages between rlpanel and the process that runs queries: a line of JSON, then the bytes of arrays.

No message holds code or names of classes, so that a process which a query damaged cannot make the reader run
anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

#: Kinds of arrays that are only bytes: truth values, numbers, times.
_KINDS = "biufmM"


def send(stream: IO[bytes], head: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Write one message."""
    sizes = [[array.dtype.str, len(array)] for array in arrays]
    stream.write(json.dumps({"head": head, "arrays": sizes}).encode() + b"\n")
    for array in arrays:
        stream.write(np.ascontiguousarray(array).view(np.uint8).data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Read one message.

    Raises
    ------
    EOFError
        If the other process has ended.
    ValueError
        If it is not a message.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    message = json.loads(line)
    arrays = [_array(stream, np.dtype(dtype), length) for dtype, length in message["arrays"]]
    return message["head"], arrays


def _array(stream: IO[bytes], dtype: np.dtype, length: int) -> np.ndarray:
    if dtype.kind not in _KINDS:
        raise ValueError(f"an array of {dtype} is not sent")
    array = np.empty(length, dtype)
    room = array.view(np.uint8)
    if length and stream.readinto(room.data) != len(room):  # type: ignore[attr-defined]
        raise EOFError
    return array
