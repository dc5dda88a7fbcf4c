"""Processes that index ranges, so that the reader's thread stays with the live lines.

Each is a fresh interpreter, as multiprocessing's ``spawn`` makes it, but does not import the caller's
script: that script may open a run at its top level and has no reason to guard it. One that dies is started
again once for the range it had; a second death is told to whoever asked. They end with their parent,
however that ends, because their input ends.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult, index_chunk

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlpanel.store.backlog import workers; workers.serve()"
)
#: How many times a range is given to a process.
_TRIES = 2


class WorkerDied(RLPanelError):
    """The processes that had a range ended before it was done."""


class WorkerPool(Protocol):
    """Who indexes ranges elsewhere.

    Attributes
    ----------
    jobs : int
        Ranges at a time.
    """

    jobs: int

    @property
    def wake(self) -> Callable[[], None]:
        """Has the reader look again; returns at once."""

    def submit(self, where: ByteRange) -> Future[RangeResult]:
        """Index a range; the result raises `WorkerDied` or OSError instead of a piece."""

    def rest(self) -> None:
        """Be done; what is under way is given up."""


class Worker:
    """One process, asked by one thread at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            # -P: a module in the working folder must not take the place of an installed one.
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the parent
        )

    def ask(self, where: ByteRange) -> RangeResult:
        """What a range holds; EOFError, OSError or UnpicklingError if the process dies."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(where, self.process.stdin, pickle.HIGHEST_PROTOCOL)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        if isinstance(answer, Exception):
            raise _Refused(answer)
        return answer

    def end(self) -> None:
        """End the process; returns when it is gone."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # what was not flushed has nobody to go to
                if pipe is not None:
                    pipe.close()
        self.process.wait()


class _Refused(Exception):
    """The process is well; the range could not be read."""


class Workers:
    """As many processes as settings allow, started when first asked.

    Parameters
    ----------
    jobs : int
        Most processes.
    wake : callable
        Called on some thread when a range is done, and when a backlog goes on; must return at once.
    """

    def __init__(self, jobs: int, wake: Callable[[], None] = lambda: None) -> None:
        self.jobs = jobs if _known_to_others() else 0
        self.wake = wake
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """Ids of the living processes."""
        with self._lock:
            return [worker.process.pid for worker in self._all]

    def submit(self, where: ByteRange) -> Future[RangeResult]:
        """Index a range in some process; the result raises `WorkerDied` or OSError instead of a piece."""
        with self._lock:
            self._closed = False
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="rlpanel-backlog")
            future = self._threads.submit(self._run, where)
        future.add_done_callback(lambda _: self.wake())
        return future

    def rest(self) -> None:
        """End all processes; later ranges start new ones."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
            workers, self._idle, self._all = self._all, [], set()
        for worker in workers:
            worker.end()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, where: ByteRange) -> RangeResult:
        for _ in range(_TRIES):
            worker = self._take()
            try:
                piece = worker.ask(where)
            except _Refused as refused:
                self._give_back(worker)
                raise refused.args[0] from refused
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                self._drop(worker)
                continue
            self._give_back(worker)
            return piece
        raise WorkerDied(f"{where.name}: the process that indexed bytes {where.start:,}-{where.end:,} died")

    def _take(self) -> Worker:
        with self._lock:
            if self._closed:
                raise WorkerDied("the processes were ended")
            if self._idle:
                return self._idle.pop()
            try:
                worker = Worker()
            except OSError as error:
                raise WorkerDied(f"no process could be started: {error.strerror}") from error
            self._all.add(worker)
            return worker

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)

    def _drop(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.end()


def _known_to_others() -> bool:
    """Whether a fresh process would compute the same columns: it knows no metric made in a script."""
    return all(m.function.__module__.startswith("rlpanel.") for m in METRICS.values())


def serve() -> None:
    """Index what comes on standard input until it ends (the worker's side)."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    if hasattr(os, "nice"):
        os.nice(5)
    while True:
        try:
            where = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: RangeResult | Exception = index_chunk(where)
        except Exception as error:
            answer = error if isinstance(error, OSError) else RuntimeError(f"{type(error).__name__}: {error}")
        try:
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the parent ended meanwhile
            os._exit(0)
