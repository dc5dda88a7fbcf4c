"""Files that the writer appends to: lines, plain or compressed, and rollouts that are in flight."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rlpanel.safe_files import MARKER, SafeFolder

# -- sink ----------------------------------------------------------------------------------------------
# Append-only line files, plain or zstd-compressed, that never hold a line broken by a failed write.
#
# Bounded queue of rows to write; if the disk is too slow, rows are dropped, and training never waits.


#: Bytes of lines in one compressed frame.
FRAME_BYTES = 1 << 20


class Sink(Protocol):
    """Interface of a destination for lines."""

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if the disk refuses them."""

    def flush(self) -> None:
        """Write buffered lines to the file."""

    def close(self) -> None:
        """Flush and close the file."""


class PlainSink:
    """Appends lines to a file, with a single write per call, so that other writers' lines stay whole.

    The file is created with the first line: a rank that records nothing leaves no file. The folder's path
    must be resolved. A link in it, or in place of the file, raises `UnsafePath` at the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._rest = b""  # the remaining bytes of a write that the disk took only in part

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if the disk refuses them. The next call ends a partial write."""
        if self._descriptor < 0:
            self._open()
        self._finish()
        written = os.write(self._descriptor, lines)
        self._rest = lines[written:]
        self._finish()

    def flush(self) -> None:
        """Do nothing: no lines are buffered."""

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _finish(self) -> None:
        """Write the remaining bytes of a partial write before any other line."""
        while self._rest:
            written = os.write(self._descriptor, self._rest)
            self._rest = self._rest[written:]

    def _open(self) -> None:
        with SafeFolder.open(self.path.parent) as folder:
            self._descriptor = folder.open_to_write(self.path.name, append=True)
        size = os.fstat(self._descriptor).st_size
        if size:
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            # A killed process may have left half a line: end it, so that the next line is not joined to it.
            # Compressed files need no such check, because they are never opened twice.
            if os.read(self._descriptor, 1) != b"\n":
                self._rest = b"\n"


class ZstandardSink:
    """Compresses lines into zstd frames of about a megabyte; each holds whole lines and can be read alone."""

    def __init__(self, path: Path) -> None:
        from rlpanel.zstd import zstd  # not installed where only the recorder is, and needed only here

        self._compressor: Any = zstd.ZstdCompressor(level=3)
        self._end = zstd.ZstdCompressor.FLUSH_FRAME
        self._file = PlainSink(path)
        self._buffer: list[bytes] = []
        self._buffer_bytes = 0

    def write(self, lines: bytes) -> None:
        """Buffer lines; write a frame when they fill one."""
        self._buffer.append(lines)
        self._buffer_bytes += len(lines)
        if self._buffer_bytes >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines as one frame."""
        if self._buffer:
            lines, self._buffer, self._buffer_bytes = b"".join(self._buffer), [], 0
            self._file.write(self._compressor.compress(lines, mode=self._end))

    def close(self) -> None:
        """Write the last frame."""
        self.flush()
        self._file.close()


T = TypeVar("T")


class WriteQueue(Generic[T]):
    """Bounded queue between training and the writer's thread.

    Parameters
    ----------
    rows, numbers : int
        Maximum length of the queue, in rows and in their total weight (see `put`).
    """

    def __init__(self, rows: int, numbers: int) -> None:
        self._rows, self._numbers = rows, numbers
        self._entries: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, weight: int) -> bool:
        """Add an item, or return False at once if the queue is full; an empty queue accepts any item."""
        with self._changed:
            full = len(self._entries) >= self._rows or self._weight + weight > self._numbers
            if self._closed or (full and self._entries):
                return False
            self._entries.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True

    def take(self, most: int, timeout: float | None = None) -> list[T] | None:
        """Wait for an item and return up to ``most``; [] after the timeout, None once closed and empty."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._entries or self._closed, timeout)
            if not self._entries:
                return None if self._closed else []
            entries = [self._entries.popleft() for _ in range(min(most, len(self._entries)))]
            self._weight -= sum(weight for _, weight in entries)
            self._busy = True
            return [item for item, _ in entries]

    def wait_idle(self, timeout: float) -> bool:
        """Wait until all items are taken and processed; return False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._entries and not self._busy, timeout)

    def close(self) -> None:
        """Accept no more items; `take` still returns the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


# -- live file -----------------------------------------------------------------------------------------
# `LiveFile`: rollouts that a process is generating now, as small deltas in ``in_flight/rank_{rank}.live``.
#
# It is made when the first rollout begins. A line that begins a rollout, adds a turn or ends one is appended;
# when the file exceeds its limit it is written anew with the open rollouts only. So its size is bounded by
# `MAX_OPEN` rollouts of about 450 bytes, twice; of more rollouts only their number is kept. The file's time
# is its heartbeat. The file is removed when the writer closes: one that stays belongs to a process that died.


log = logging.getLogger("rlpanel.recording")

FOLDER, NAME, VERSION = "in_flight", "rank_{rank}{part}.live", 1
#: Seconds between two signs of life, and between two writes.
HEARTBEAT, PULSE = 10.0, 1.0
#: Bytes up to which the file only grows, and most rollouts whose details are kept.
LIMIT, MAX_OPEN = 1 << 20, 10_000
#: Most characters of the last words and of other texts.
WORDS, CHARS = 160, 80
#: Most steps whose ended rollouts are counted, and most deltas that wait for the disk.
STEPS, WAITING = 16, 100_000
#: Seconds that `close` waits for the disk.
_CLOSE_SECONDS = 10.0

Delta = dict[str, Any]


class LiveFile:
    """Writes what rollouts of one process are in flight; never blocks and never raises in training.

    Parameters
    ----------
    run : Path
        The run's folder, resolved.
    rank : int
    part : str
        Suffix that keeps the files of forked processes apart.
    session : str
        The writer's session.
    most : int
        Most rollouts whose details are kept.
    pulse : float
        Seconds between two writes.

    Attributes
    ----------
    dropped : int
        Number of deltas that were lost because the disk was too slow.
    """

    def __init__(
        self,
        run: Path,
        rank: int,
        part: str,
        session: str,
        *,
        most: int = MAX_OPEN,
        pulse: float = PULSE,
    ) -> None:
        self.dropped = 0
        self._most, self._pulse = most, pulse
        self._run, self._name = run, NAME.format(rank=rank, part=part)
        self._header: Delta = {
            "rlpanel_live": VERSION,
            "rank": rank,
            "session": session,
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
        self._open: dict[str, Delta] = {}
        self._ended: Counter[str] = Counter()
        self._others = 0
        self._descriptor, self._size, self._compact = -1, 0, 0
        self._has_failed = False
        self._closing = threading.Event()
        self._queue: WriteQueue[Delta] = WriteQueue(WAITING, WAITING)
        self._thread = threading.Thread(target=self._work, name="rlpanel-live", daemon=True)
        self._thread.start()

    def put(self, delta: Mapping[str, Any]) -> bool:
        """Add a delta: one with the key ``begin``, ``turn`` or ``end``, whose value is the rollout's id."""
        cut = {
            key: value[: WORDS if key == "text" else CHARS] if isinstance(value, str) else value
            for key, value in delta.items()
            if value is not None
        }
        is_kept = self._queue.put(cut | {"time": round(time.time(), 2)}, 1)
        self.dropped += not is_kept
        return is_kept

    def close(self) -> None:
        """Remove the file and end the thread."""
        self._queue.close()
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    # -- the thread --------------------------------------------------------------------------------

    def _work(self) -> None:
        while (deltas := self._queue.take(WAITING, HEARTBEAT)) is not None:
            try:
                self._write(deltas)
            except Exception as error:  # the disk's, or of a value's own methods
                self._fail(error)
            self._closing.wait(self._pulse)  # deltas are collected meanwhile
        try:
            self._remove()
        except OSError as error:
            self._fail(error)

    def _write(self, deltas: list[Delta]) -> None:
        lines = [encoded for delta in deltas if (encoded := self._apply(delta))]
        data = b"".join(lines)
        if self._descriptor < 0 or (data and self._size + len(data) > max(LIMIT, 2 * self._compact)):
            self._rewrite()
        elif data:
            self._size += os.write(self._descriptor, data)
        else:
            os.utime(self._descriptor if os.utime in os.supports_fd else self._path)

    def _apply(self, delta: Delta) -> bytes:
        """Take a delta over; return its line, or nothing if the rollout's details are not kept."""
        kind = next(key for key in ("begin", "turn", "end") if key in delta)
        rollout = str(delta[kind])
        known = self._open.get(rollout)
        if kind == "begin":
            if known is None and len(self._open) >= self._most:
                self._others += 1
                return _line({"others": self._others})
            self._open[rollout] = {**delta, "turns": 0, "tokens": None}
        elif known is None:
            if kind == "end" and self._others:
                self._others -= 1
                return _line({"others": self._others})
            return b""
        elif kind == "turn":
            tokens = delta.get("tokens")
            known |= {key: delta[key] for key in ("phase", "text") if key in delta}
            known["turns"] += 1
            known["tokens"] = known["tokens"] if tokens is None else (known["tokens"] or 0) + tokens
            known["updated"] = delta["time"]
            delta = delta | {"turns": known["turns"], "tokens": known["tokens"]}
        else:
            ended = self._open.pop(rollout)
            if "step" in ended:
                self._ended[str(ended["step"])] += 1
        return _line({key: value for key, value in delta.items() if value is not None})

    def _rewrite(self) -> None:
        """Write the open rollouts only, in place of the file."""
        steps = list(self._ended)[-STEPS:]
        self._ended = Counter({step: self._ended[step] for step in steps})
        header = self._header | {"time": round(time.time(), 2), "ended": self._ended, "others": self._others}
        known = (
            {key: value for key, value in each.items() if value is not None} for each in self._open.values()
        )
        data = b"".join(map(_line, [header, *known]))
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with SafeFolder.open(self._run) as run, run.subfolder_to_write(FOLDER) as folder:
            folder.mark()
            folder.replace(self._name, data)
            self._descriptor = folder.open_to_write(self._name, append=True)
        self._size = self._compact = len(data)

    def _remove(self) -> None:
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        with SafeFolder.open(self._run) as run, run.subfolder_to_write(FOLDER) as folder:
            folder.mark()
            folder.remove(self._name)
            is_last = folder.names() == [MARKER]
            if is_last:
                folder.remove(MARKER)
        if is_last:
            with SafeFolder.open(self._run) as run, contextlib.suppress(OSError):
                run.remove_folder(FOLDER)  # without its mark only if another process wrote nothing meanwhile

    @property
    def _path(self) -> Path:
        return self._run / FOLDER / self._name

    def _fail(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            log.warning("rlpanel: %s could not be written: %s", self._path, error)


def _line(delta: Mapping[str, Any]) -> bytes:
    return json.dumps(delta, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
