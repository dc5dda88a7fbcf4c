"""`LiveFile`: rollouts that a process is generating now, as small deltas in ``in_flight/rank_{rank}.live``.

It is made when the first rollout begins. A line that begins a rollout, adds a turn or ends one is appended;
when the file exceeds its limit it is written anew with the open rollouts only. So its size is bounded by
`MAX_OPEN` rollouts of about 450 bytes, twice; of more rollouts only their number is kept. The file's time is
its heartbeat. The file is removed when the writer closes: one that stays belongs to a process that died.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpanel.recording.writer.sink import WriteQueue
from rlpanel.safe_files import MARKER, SafeFolder

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
