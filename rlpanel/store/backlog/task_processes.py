"""Runs functions in worker processes, as `workers` indexes ranges: no script of the caller is imported."""

from __future__ import annotations

import pickle
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from rlpanel.store.backlog.workers import Worker, WorkerDied

_Result = TypeVar("_Result")


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
