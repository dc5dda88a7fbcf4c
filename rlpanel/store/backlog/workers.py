"""Pool of worker processes that index ranges or run other functions, beside the reader thread."""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar, cast

from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.column_info import METRICS
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult, index_range

# -- workers -------------------------------------------------------------------------------------------
# Pool of worker processes that index ranges, so that the reader thread is free for live lines.
#
# Each worker is a fresh interpreter, as with multiprocessing's ``spawn``, but does not import the caller's
# script: it may open a run at its top level, without a guard. A forked copy of a threaded process would not
# be safe, and unlike a thread, a process can be killed. If a worker dies, its range is tried once more in
# another one, then the error is reported to the caller. Workers end with their parent, even if that is
# killed, because their standard input is closed.


_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlpanel.store.backlog import workers; workers.serve()"
)
_Result = TypeVar("_Result")
#: Niceness of the processes: a page or a training job that needs the same core gets three quarters of it.
NICENESS = 5
#: Attempts per range.
_TRIES = 2


class WorkerDied(RLPanelError):
    """The processes that indexed a range ended before it was done."""


class WorkerPool(Protocol):
    """Interface of worker pools: local processes or a dask cluster.

    Attributes
    ----------
    jobs : int
        Number of ranges indexed in parallel.
    """

    jobs: int

    @property
    def wake(self) -> Callable[[], None]:
        """Function that wakes the reader; returns at once."""

    def submit(self, byte_range: ByteRange) -> Future[RangeResult]:
        """Index a range; the future raises `WorkerDied` or OSError if that fails."""

    def close(self) -> None:
        """Release the workers; ranges in progress are abandoned."""


class Worker:
    """One worker process, used by one thread at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            # -P: modules in the working directory must not shadow installed ones.
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C in the terminal must reach the parent only. Linux also schedules each session as a group.
            start_new_session=True,
        )

    def index(self, byte_range: ByteRange) -> RangeResult:
        """Index a range in the process; EOFError, OSError or UnpicklingError if the process dies."""
        answer = self._ask(byte_range)
        if isinstance(answer, Exception):
            raise _RangeError(answer)
        return cast("RangeResult", answer)

    def run(self, task: Callable[[], _Result]) -> _Result:
        """Call a function of rlpanel in the process; errors as in `index`, and those of the function."""
        answer = self._ask(task)
        if isinstance(answer, Exception):
            raise answer
        return cast("_Result", answer)

    def _ask(self, work: object) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(work, self.process.stdin, pickle.HIGHEST_PROTOCOL)
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # closing flushes, which fails because the reader is dead
                if pipe is not None:
                    pipe.close()
        self.process.wait()


class _RangeError(Exception):
    """The range could not be read; the process itself is fine."""


class Workers:
    """Pool of local worker processes, started when needed.

    Parameters
    ----------
    jobs : int
        Maximum number of processes.
    wake : callable
        Called on any thread when a range is done, and when a backlog is paused or resumed; must return at
        once.
    """

    def __init__(self, jobs: int, wake: Callable[[], None] = lambda: None) -> None:
        self.jobs = jobs if _all_metrics_builtin() else 0
        self.wake = wake
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        with self._lock:
            return [worker.process.pid for worker in self._all]

    def submit(self, byte_range: ByteRange) -> Future[RangeResult]:
        """Index a range in a process; the future raises `WorkerDied` or OSError if that fails."""
        with self._lock:
            self._closed = False
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.jobs, thread_name_prefix="rlpanel-backlog")
            future = self._threads.submit(self._run, byte_range)
        future.add_done_callback(lambda _: self.wake())
        return future

    def close(self) -> None:
        """End all processes; later ranges start new ones."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, None
            workers, self._idle, self._all = self._all, [], set()
        for worker in workers:
            worker.kill()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)

    def _run(self, byte_range: ByteRange) -> RangeResult:
        for _ in range(_TRIES):
            worker = self._acquire()
            try:
                result = worker.index(byte_range)
            except _RangeError as range_error:
                self._release(worker)
                raise range_error.args[0] from range_error
            except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                self._discard(worker)
                continue
            self._release(worker)
            return result
        raise WorkerDied(
            f"{byte_range.name}: the process that indexed bytes {byte_range.start:,}-{byte_range.end:,} died"
        )

    def _acquire(self) -> Worker:
        with self._lock:
            if self._closed:
                raise WorkerDied("the worker processes were stopped")
            if self._idle:
                return self._idle.pop()
            try:
                worker = Worker()
            except OSError as error:
                raise WorkerDied(f"no worker process could be started: {error.strerror}") from error
            self._all.add(worker)
            return worker

    def _release(self, worker: Worker) -> None:
        with self._lock:
            if worker in self._all:
                self._idle.append(worker)

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.kill()


def _all_metrics_builtin() -> bool:
    """Return whether a fresh process would compute the same columns: it lacks metrics defined in scripts."""
    return all(m.function.__module__.startswith("rlpanel.") for m in METRICS.values())


def serve() -> None:
    """Run the worker process: do the work that arrives on standard input until it is closed."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    yield_processor()
    while True:
        try:
            work = pickle.load(requests)
        except EOFError:
            return
        try:
            answer: object = index_range(work) if isinstance(work, ByteRange) else work()
        except Exception as error:
            kept = OSError if isinstance(work, ByteRange) else (OSError, RLPanelError)
            answer = error if isinstance(error, kept) else RuntimeError(f"{type(error).__name__}: {error}")
        try:
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(0)


def yield_processor() -> None:
    """Lower this process's priority.

    Its niceness alone has no effect where Linux groups processes by session: there the group needs one, too.
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    with suppress(OSError):  # only Linux has this file
        Path("/proc/self/autogroup").write_text(str(NICENESS), encoding="ascii")


# -- task processes ------------------------------------------------------------------------------------
# Runs functions in worker processes, as `workers` indexes ranges: no script of the caller is imported.


def in_processes(tasks: Iterable[Callable[[], _Result]], jobs: int) -> Iterator[_Result]:
    """Yield the results of tasks, in their order; the processes end with the iteration.

    Parameters
    ----------
    tasks : iterable of callable
        Functions of rlpanel with arguments, as `functools.partial`: they are pickled, and so are results.
    jobs : int
        Number of processes, 1 or more.

    Raises
    ------
    WorkerDied
        If a process died.
    RLPanelError, OSError
        As the task raises it; RuntimeError for another error.
    """
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers: list[Worker] = []

    def run(task: Callable[[], _Result]) -> _Result:
        worker = idle.get()
        try:
            found: _Result = worker.run(task)
            return found
        except (EOFError, ValueError, pickle.UnpicklingError, BrokenPipeError) as error:
            raise WorkerDied("a process that read samples died") from error
        finally:
            idle.put(worker)

    waiting, running = iter(tasks), deque[Future[_Result]]()
    with ThreadPoolExecutor(jobs, thread_name_prefix="rlpanel-tasks") as threads:
        try:
            for _ in range(jobs):
                workers.append(Worker())
                idle.put(workers[-1])
            # Each process has a task that waits, so that none rests while results are taken.
            running.extend(threads.submit(run, task) for task in islice(waiting, 2 * jobs))
            while running:
                yield running.popleft().result()
                running.extend(threads.submit(run, task) for task in islice(waiting, 1))
        finally:
            for future in running:
                future.cancel()
            for worker in workers:
                with suppress(OSError):
                    worker.kill()
