"""`RolloutWriter`: one file a rank, written by a thread of its own.

Training pays for a copy of its arrays and nothing else: numbers become text in the background, what does
not fit into the queue is dropped and counted, and no error of a disk or of a value ever reaches training.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpanel.errors import UnsafePath
from rlpanel.recording.writer.encode import line, size, snapshot
from rlpanel.recording.writer.recording_options import Options
from rlpanel.recording.writer.sink import PlainSink, Sink, ZstandardSink
from rlpanel.recording.writer.write_queue import WriteQueue
from rlpanel.safe_files import SafeFolder

log = logging.getLogger("rlpanel.recording")

ROLLOUTS, SCALARS, CONSTANTS = "rollout_data_rank_{rank}{part}.jsonl", "scalars.jsonl", "run.json"
#: Rows, and bytes of lines, that go to the file in one write.
BATCH_ROWS, BATCH_BYTES = 64, 1 << 20
#: Seconds that a compressed frame may wait for more lines.
FRAME_SECONDS = 2.0
#: Seconds that closing waits for the disk.
CLOSE_SECONDS = 60.0

Entry = tuple[str, Mapping[str, Any]]


class RolloutWriter:
    """Appends rollouts, one sample a line, to ``rollout_data_rank_{rank}.jsonl``.

    Parameters
    ----------
    dir : path
        The run's folder, one for all ranks; made if it is not there.
    rank : int
        The process that writes; each rank has a file of its own.
    **settings
        See `rlpanel.recording.Options`.

    Attributes
    ----------
    session : str
        Names this start of the process and sorts by time. A resumed run appends its steps again; where
        a step comes from two sessions the later one counts.
    written, dropped, failed : int
        Lines on disk, rows that found no place in the queue, rows that could not be written.

    Examples
    --------
    >>> with RolloutWriter("runs/exp1", rank=0) as writer:
    ...     writer.write(step=1, prompt="2 + 2 =", response="4", reward=1.0)

    Notes
    -----
    After a fork the child's writer is empty and writes to a file of its own,
    ``rollout_data_rank_{rank}_{pid}.jsonl``. Children of `multiprocessing` end without Python's exit
    handlers: call `close` there.

    Links in ``dir`` are followed once, when the writer is made. A link, a hard link or another user's file in
    the place of the rank's file is left alone: the rows go to ``rollout_data_rank_{rank}_{session}.jsonl``.
    """

    def __init__(self, dir: str | os.PathLike[str], rank: int = 0, **settings: Any) -> None:
        self.dir = Path(dir)
        self.rank = rank
        self.options = Options.from_environment(**settings)
        self.dir.mkdir(parents=True, exist_ok=True)
        self._folder = Path(os.path.realpath(self.dir))
        if self.options.compress:
            import zstandard  # noqa: F401  a missing package is said now, not on the thread
        self._begin(part="")
        _WRITERS.add(self)

    def _begin(self, part: str) -> None:
        """Start from nothing, as when made and as after a fork."""
        self.session = f"{time.time_ns() // 1_000_000:x}-{os.getpid():x}"
        self.written = self.dropped = self.failed = 0
        self._part = part
        self._said: set[str] = set()
        self._backlog: WriteQueue[Entry] = WriteQueue(self.options.queue_rows, self.options.queue_numbers)
        self._sinks: dict[str, Sink] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._constants: dict[str, Any] = {}

    # -- what training calls -----------------------------------------------------------------------

    def write(self, *, step: Any, prompt: Any = None, response: Any = None, **fields: Any) -> bool:
        """Append one sample; False where the queue had no place for it. Never blocks and never raises.

        Parameters
        ----------
        step : int
            The policy update that the sample belongs to.
        prompt, response : str
        **fields
            Any key of the log's format: ``logprobs``, ``reward``, ``rewards`` … as tensors, arrays or
            lists of the response's T tokens, without padding. A function is called on the writer's
            thread and its result written.
        """
        row = {"prompt": prompt, "response": response, "step": step, **fields}
        try:
            return self.put({key: snapshot(value) for key, value in row.items() if value is not None})
        except Exception as error:
            self._failed(1, error)
            return False

    def put(self, row: dict[str, Any]) -> bool:
        """As `write`, for a row whose values nobody will change."""
        row = {"rank": self.rank, "session": self.session, "time": round(time.time(), 3)} | row
        return self._put("rollouts", row, sum(size(value) for value in row.values()))

    def scalars(self, step: int, values: Mapping[str, Any]) -> bool:
        """Append what the trainer logged for a step to ``scalars.jsonl``; one rank should."""
        row = {"step": step, "session": self.session, "time": round(time.time(), 3), **values}
        return self._put("scalars", {key: snapshot(value) for key, value in row.items()}, len(row))

    def constants(self, **values: Any) -> None:
        """Add to ``run.json`` what formulas need and rows lack; one rank should."""
        self._constants |= values
        text = json.dumps(json.loads(line(self._constants, self.options)), indent=2, ensure_ascii=False)
        try:
            with SafeFolder.open(self._folder) as folder:
                folder.replace(CONSTANTS, f"{text}\n".encode())
        except OSError as error:
            self._say(f"{self.dir / CONSTANTS} could not be written: {_reason(error)}")

    def beside(self, name: str) -> RolloutWriter:
        """A writer of the same kind for the folder ``name`` below this one; for another if it is a link."""
        try:
            with SafeFolder.open(self._folder) as folder:
                folder.subfolder_to_write(name).close()
        except (UnsafePath, NotADirectoryError) as error:
            name = f"{name}-{self.session}"
            self._say(f"{error}; rows go to the folder {name} instead")
        other = RolloutWriter(self.dir / name, self.rank)
        other._folder = self._folder / name  # not resolved: nobody typed this name
        other.options = self.options
        other._begin(part="")
        return other

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until everything written so far is on disk; False if ``timeout`` seconds were too short."""
        return self._thread is None or (self._put("flush", {}, 0) and self._backlog.wait_idle(timeout))

    def close(self) -> None:
        """Write what waits and end the thread; a second call does nothing."""
        self._backlog.close()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning("rlpanel: %s: the disk did not take the last rows in time", self.dir)
            self._thread = None
        if self.dropped or self.failed:
            log.warning(
                "rlpanel: %s, rank %d: %d rows written, %d dropped because the queue was full, %d failed",
                *(self.dir, self.rank, self.written, self.dropped, self.failed),
            )
        self.dropped = self.failed = 0
        _WRITERS.discard(self)

    def __enter__(self) -> RolloutWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread --------------------------------------------------------------------------------

    def _put(self, kind: str, row: Mapping[str, Any], weight: int) -> bool:
        if not self._backlog.put((kind, row), weight):
            self.dropped += 1
            if self.dropped in _TELLING:
                log.warning(
                    "rlpanel: %d rows dropped so far: %s takes them more slowly than training makes them",
                    *(self.dropped, self.dir),
                )
            return False
        if self._thread is None:
            self._start()
        return True

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # A daemon: training that ends must not wait for a disk that hangs; `close` does, for a while.
                self._thread = threading.Thread(target=self._run, name="rlpanel-recording", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (entries := self._backlog.take(BATCH_ROWS, self._patience())) is not None:
            self._write(entries)
            if not entries or any(kind == "flush" for kind, _ in entries):
                self._each_sink("flush")
        self._each_sink("close")

    def _patience(self) -> float | None:
        return FRAME_SECONDS if self.options.compress else None

    def _write(self, entries: list[Entry]) -> None:
        """The entries' lines to their files, as many as may be in one write."""
        lines: dict[str, list[bytes]] = {}
        for kind, row in entries:
            if kind == "flush":
                continue
            try:
                lines.setdefault(kind, []).append(line(row, self.options))
            except Exception as error:  # whatever a value's own methods raise
                self._failed(1, error)
            if sum(map(len, lines.get(kind, []))) > BATCH_BYTES:
                self._append(kind, lines.pop(kind))
        for kind, ready in lines.items():
            self._append(kind, ready)

    def _append(self, kind: str, lines: list[bytes]) -> None:
        data = b"".join(lines)
        try:
            try:
                self._sink(kind).write(data)
            except UnsafePath as error:
                self._spare_sink(kind, error).write(data)
            self.written += len(lines) if kind == "rollouts" else 0
        except OSError as error:
            self._failed(len(lines), error)

    def _sink(self, kind: str) -> Sink:
        if kind not in self._sinks:
            if kind == "scalars":
                self._sinks[kind] = PlainSink(self._folder / SCALARS)
            elif self.options.compress:
                # Named by its session: a killed process may leave half a frame, which nothing may follow.
                self._sinks[kind] = ZstandardSink(self._folder / f"{self._rollouts(f'_{self.session}')}.zst")
            else:
                self._sinks[kind] = PlainSink(self._folder / self._rollouts(self._part))
        return self._sinks[kind]

    def _spare_sink(self, kind: str, error: UnsafePath) -> Sink:
        """Another file for rollouts whose own is not safe to write; of scalars there can be only one."""
        sink = self._sinks[kind]
        if kind != "rollouts" or not isinstance(sink, PlainSink) or error.filename != os.fspath(sink.path):
            raise error
        name = self._rollouts(f"_{self.session}")
        self._say(f"{error}; rows go to {name} instead")
        self._sinks[kind] = PlainSink(self._folder / name)
        return self._sinks[kind]

    def _rollouts(self, part: str) -> str:
        return ROLLOUTS.format(rank=self.rank, part=part)

    def _each_sink(self, what: str) -> None:
        for sink in self._sinks.values():
            try:
                getattr(sink, what)()
            except OSError as error:
                self._failed(0, error)

    def _failed(self, rows: int, error: Exception) -> None:
        self.failed += rows
        self._say(f"rows for {self.dir} could not be written: {_reason(error)}")

    def _say(self, message: str) -> None:
        """A warning, each once."""
        if message not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(message)
            log.warning("rlpanel: %s", message)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UnsafePath) else f"{type(error).__name__}: {error}"


_TELLING = {10**power for power in range(10)}
_MOST_SAID = 20
_WRITERS: weakref.WeakSet[RolloutWriter] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_WRITERS):
        writer.close()


def _after_fork() -> None:
    """The thread, its lock and what waited stay with the parent."""
    for writer in list(_WRITERS):
        writer._begin(part=f"_{os.getpid()}")


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
