"""`RolloutWriter`: appends rows to one file per rank, in a background thread.

Training only copies its arrays. The thread encodes and writes them. Rows that do not fit into the queue are
dropped and counted, and no error of the disk or of a value is raised in training.
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
from rlpanel.recording.writer.encode import (
    KNOWN_KEYS,
    MediaFiles,
    copy_to_host,
    count_numbers,
    encode_row,
    meant_key,
)
from rlpanel.recording.writer.recording_options import Options
from rlpanel.recording.writer.sink import LiveFile, PlainSink, Sink, WriteQueue, ZstandardSink
from rlpanel.safe_files import SafeFolder

log = logging.getLogger("rlpanel.recording")

ROLLOUTS, SCALARS, CONSTANTS = "rollout_data_rank_{rank}{part}.jsonl", "scalars.jsonl", "run.json"
#: Hidden, so that it is not taken for a log of rollouts.
EVENTS = ".rlpanel-events.jsonl"
#: Maximum rows, and bytes of lines, per write to the file.
BATCH_ROWS, BATCH_BYTES = 64, 1 << 20
#: Seconds after which an unfinished compressed frame is written.
FRAME_SECONDS = 2.0
#: Seconds that `RolloutWriter.close` waits for the disk.
CLOSE_SECONDS = 60.0

Entry = tuple[str, Mapping[str, Any]]


class RolloutWriter:
    """Appends rollouts, one sample per line, to ``rollout_data_rank_{rank}.jsonl``.

    Parameters
    ----------
    dir : path
        The run's folder, the same for all ranks; created if it does not exist.
    rank : int
        Rank of the process that writes; each rank has its own file.
    **settings
        See `rlpanel.recording.Options`.

    Attributes
    ----------
    session : str
        Identifies this writer: the time of its creation in milliseconds and the process id, both in hex, so
        that sessions sort by time. A forked child adds its own to that of its parent. A resumed run appends
        its steps again; if a session was created after another one's last row, it replaces the steps that
        both wrote.
    written, dropped, failed : int
        Number of lines on disk, of rows dropped because the queue was full, and of rows that failed.

    Examples
    --------
    >>> with RolloutWriter("runs/exp1", rank=0) as writer:
    ...     writer.write(step=1, prompt="2 + 2 =", response="4", reward=1.0)

    Notes
    -----
    After a fork, the child's writer starts empty and writes to its own file,
    ``rollout_data_rank_{rank}_{pid}.jsonl``. Children of `multiprocessing` exit without Python's exit
    handlers: call `close` there.

    Links in ``dir`` are followed once, when the writer is created. A link, a hard link or another user's file
    in place of the rank's file is not touched: the rows go to
    ``rollout_data_rank_{rank}_{session}.jsonl``.
    """

    def __init__(self, dir: str | os.PathLike[str], rank: int = 0, **settings: Any) -> None:
        self.dir = Path(dir)
        self.rank = rank
        self.options = Options.from_environment(**settings)
        self.dir.mkdir(parents=True, exist_ok=True)
        self._folder = Path(os.path.realpath(self.dir))
        if self.options.compress:
            from rlpanel.zstd import zstd  # noqa: F401  a missing package should raise here, not in the thread
        self._reset(part="")
        _WRITERS.add(self)

    def _reset(self, part: str, parent: str = "") -> None:
        """Reset the writer's state, at its creation and after a fork from a writer of session ``parent``."""
        own = f"{time.time_ns() // 1_000_000:x}-{os.getpid():x}"
        # Parent and child write the same steps side by side: their common beginning says so to the reader.
        self.session = "-".join([*parent.split("-")[:2], own]) if parent else own
        self.written = self.dropped = self.failed = 0
        self._part = part
        self._logged: set[str] = set()
        self._keys = KNOWN_KEYS
        self._queue: WriteQueue[Entry] = WriteQueue(self.options.queue_rows, self.options.queue_numbers)
        self._sinks: dict[str, Sink] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._constants: dict[str, Any] = {}
        self._live: LiveFile | None = None
        self._media = MediaFiles(self._folder)

    # -- called by training ------------------------------------------------------------------------

    def write(self, *, step: Any, prompt: Any = None, response: Any = None, **fields: Any) -> bool:
        """Append one sample; return False if it was dropped. Never blocks and never raises.

        Parameters
        ----------
        step : int
            The policy update that the sample belongs to.
        prompt, response : str
        **fields
            Any key of the log's format: ``logprobs``, ``reward``, ``rewards`` … as tensors, arrays or
            lists of the response's T tokens, without padding. A function is called on the writer's
            thread and its result written. Any other key becomes a column; one that looks like a
            misspelt key of the format is logged as a warning, once.
        """
        row = {"prompt": prompt, "response": response, "step": step, **fields}
        if not fields.keys() <= self._keys:
            self._check_keys(fields)
        try:
            return self.put({key: copy_to_host(value) for key, value in row.items() if value is not None})
        except Exception as error:
            self._failed(1, error)
            return False

    def _check_keys(self, fields: Mapping[str, Any]) -> None:
        """Log a warning for each new key that looks like a misspelt one; its values become a column."""
        for key in fields.keys() - self._keys:
            if meant := meant_key(key):
                self._warn_once(f"unknown key {key!r} becomes a column of its own; did you mean {meant!r}?")
        self._keys = self._keys | fields.keys()

    def put(self, row: dict[str, Any]) -> bool:
        """Append a row without copying its values, which must not change afterwards; see `write`."""
        row = {"rank": self.rank, "session": self.session, "time": round(time.time(), 3)} | row
        return self._enqueue("rollouts", row, sum(count_numbers(value) for value in row.values()))

    def scalars(self, step: int, values: Mapping[str, Any]) -> bool:
        """Append a step's scalars of the trainer to ``scalars.jsonl``; call it on one rank only."""
        row = {"step": step, "session": self.session, "time": round(time.time(), 3), **values}
        return self._enqueue("scalars", {key: copy_to_host(value) for key, value in row.items()}, len(row))

    def event(self, name: str, step: int, text: str = "") -> bool:
        """Mark a step on all curves; return False if it was dropped. Call it on one rank only.

        Parameters
        ----------
        name : str
            What happened, such as ``curriculum: level 3``.
        step : int
            The policy update at which it happened.
        text : str
            Further words.
        """
        row = {"step": int(step), "name": str(name), "time": round(time.time(), 3)}
        return self._enqueue("events", row | ({"text": str(text)} if text else {}), 1)

    def constants(self, **values: Any) -> None:
        """Add constants of the training to ``run.json``; call it on one rank only."""
        self._constants |= values
        text = json.dumps(json.loads(encode_row(self._constants, self.options)), indent=2, ensure_ascii=False)
        try:
            with SafeFolder.open(self._folder) as folder:
                folder.replace(CONSTANTS, f"{text}\n".encode())
        except OSError as error:
            self._warn_once(f"{self.dir / CONSTANTS} could not be written: {_reason(error)}")

    def begin(
        self, rollout: Any, *, step: int | None = None, phase: str = "generation", **fields: Any
    ) -> bool:
        """Note that a rollout is being generated; return False if the note was dropped. Never blocks.

        Parameters
        ----------
        rollout : str
            Id of the rollout, unique among those in flight of this process.
        step : int, optional
            The step of the batch that waits for it.
        phase : str
            Such as queue, generation, tool, environment or score.
        **fields
            Short texts or numbers: ``group``, ``agent``, ``env``, ``worker``.
        """
        try:
            named = {key: value for key, value in fields.items() if key in _LIVE_FIELDS}
            return self._live_file().put({"begin": str(rollout), "step": step, "phase": phase, **named})
        except Exception as error:
            self._failed(0, error)
            return False

    def turn(
        self, rollout: Any, *, tokens: int | None = None, text: str | None = None, phase: str | None = None
    ) -> bool:
        """Note a turn of a rollout in flight: its tokens, its last words, and the phase that follows."""
        return self._live is not None and self._live.put(
            {"turn": str(rollout), "tokens": tokens, "text": text, "phase": phase}
        )

    def end(self, rollout: Any) -> bool:
        """Note that a rollout is no longer in flight; `write` writes its sample."""
        return self._live is not None and self._live.put({"end": str(rollout)})

    def _live_file(self) -> LiveFile:
        with self._starting:
            if self._live is None:
                self._live = LiveFile(self._folder, self.rank, self._part, self.session)
            return self._live

    def beside(self, name: str) -> RolloutWriter:
        """Return a writer with the same options for a subfolder; if ``name`` is a link, for a new folder."""
        try:
            with SafeFolder.open(self._folder) as folder:
                folder.subfolder_to_write(name).close()
        except (UnsafePath, NotADirectoryError) as error:
            name = f"{name}-{self.session}"
            self._warn_once(f"{error}; rows go to the folder {name} instead")
        other = RolloutWriter(self.dir / name, self.rank)
        other._folder = self._folder / name  # not resolved: no user typed this name
        other.options = self.options
        other._reset(part="")
        return other

    def flush(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Wait until all rows so far are on disk; return False if that takes over ``timeout`` seconds."""
        return self._thread is None or (self._enqueue("flush", {}, 0) and self._queue.wait_idle(timeout))

    def close(self) -> None:
        """Write all queued rows and end the thread; a second call does nothing."""
        self._queue.close()
        if self._live is not None:
            self._live.close()
            self._live = None
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning(
                    "rlpanel: %s: the last rows may be lost, because the disk did not take them in time",
                    self.dir,
                )
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

    def _enqueue(self, kind: str, row: Mapping[str, Any], weight: int) -> bool:
        if not self._queue.put((kind, row), weight):
            self.dropped += 1
            if self.dropped in _WARN_AT:
                log.warning(
                    "rlpanel: %d rows dropped so far, because writing to %s is slower than training",
                    *(self.dropped, self.dir),
                )
            return False
        if self._thread is None:
            self._start()
        return True

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # A daemon thread: a hanging disk must not keep the process alive. `close` waits for a while.
                self._thread = threading.Thread(target=self._run, name="rlpanel-recording", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (entries := self._queue.take(BATCH_ROWS, self._timeout())) is not None:
            self._write(entries)
            if not entries or any(kind == "flush" for kind, _ in entries):
                self._each_sink("flush")
        self._each_sink("close")

    def _timeout(self) -> float | None:
        return FRAME_SECONDS if self.options.compress else None

    def _write(self, entries: list[Entry]) -> None:
        """Encode the entries and append them to their files, in writes of limited size."""
        lines: dict[str, list[bytes]] = {}
        for kind, row in entries:
            if kind == "flush":
                continue
            try:
                lines.setdefault(kind, []).append(encode_row(row, self.options, self._save_medium))
            except Exception as error:  # a value's own methods may raise anything
                self._failed(1, error)
            if sum(map(len, lines.get(kind, []))) > BATCH_BYTES:
                self._append(kind, lines.pop(kind))
        for kind, ready in lines.items():
            self._append(kind, ready)

    def _save_medium(self, medium: Any) -> str:
        try:
            return self._media.save(medium)
        except Exception as error:  # the row is worth more than its media, whose methods may raise anything
            self._warn_once(f"an image, audio or video of {self.dir} was not written: {_reason(error)}")
            return "not written"

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
            elif kind == "events":
                self._sinks[kind] = PlainSink(self._folder / EVENTS)
            elif self.options.compress:
                # One file per session: a killed process may leave half a frame, and nothing can follow it.
                self._sinks[kind] = ZstandardSink(self._folder / f"{self._rollouts(f'_{self.session}')}.zst")
            else:
                self._sinks[kind] = PlainSink(self._folder / self._rollouts(self._part))
        return self._sinks[kind]

    def _spare_sink(self, kind: str, error: UnsafePath) -> Sink:
        """Return another file for rollouts if theirs is unsafe to write; scalars have no other file."""
        sink = self._sinks[kind]
        if kind != "rollouts" or not isinstance(sink, PlainSink) or error.filename != os.fspath(sink.path):
            raise error
        name = self._rollouts(f"_{self.session}")
        self._warn_once(f"{error}; rows go to {name} instead")
        self._sinks[kind] = PlainSink(self._folder / name)
        return self._sinks[kind]

    def _rollouts(self, part: str) -> str:
        return ROLLOUTS.format(rank=self.rank, part=part)

    def _each_sink(self, method: str) -> None:
        for sink in self._sinks.values():
            try:
                getattr(sink, method)()
            except OSError as error:
                self._failed(0, error)

    def _failed(self, rows: int, error: Exception) -> None:
        self.failed += rows
        self._warn_once(f"rows for {self.dir} could not be written: {_reason(error)}")

    def _warn_once(self, message: str) -> None:
        """Log a warning, each message only once."""
        if message not in self._logged and len(self._logged) < _MAX_WARNINGS:
            self._logged.add(message)
            log.warning("rlpanel: %s", message)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UnsafePath) else f"{type(error).__name__}: {error}"


#: Fields that `RolloutWriter.begin` takes.
_LIVE_FIELDS = ("group", "agent", "env", "worker", "kind")
#: Numbers of dropped rows at which a warning is logged.
_WARN_AT = {10**power for power in range(10)}
_MAX_WARNINGS = 20
_WRITERS: weakref.WeakSet[RolloutWriter] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_WRITERS):
        writer.close()


def _after_fork() -> None:
    """Reset all writers in the child: the thread, its lock and the queued rows stay with the parent."""
    for writer in list(_WRITERS):
        writer._reset(part=f"_{os.getpid()}", parent=writer.session)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
