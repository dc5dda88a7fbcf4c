"""Reads a run to its end in the calling thread, and does not follow it."""

from __future__ import annotations

import threading

from rlpanel.queries.terminal_progress import TerminalProgress
from rlpanel.settings import Reading, StoreLimits
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.backlog.workers import WorkerPool, Workers
from rlpanel.store.index.faults import Faults
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.run_summary import RunSummaries

#: Seconds between two updates of the progress line.
_PROGRESS_INTERVAL = 0.1


def read_once(
    folder: AnyPath,
    root: AnyPath,
    reading: Reading,
    scheduler: str = "",
    limits: StoreLimits | None = None,
    summaries: RunSummaries | None = None,
) -> RunIndex:
    """Return the index of a run after everything on disk was read.

    Parameters
    ----------
    folder, root : path
        The run's folder, and the folder up to which settings of folders above apply.
    reading : Reading
    scheduler : str
        Address of a dask scheduler, whose workers are used instead of processes.
    limits : StoreLimits, optional
    summaries : RunSummaries, optional
        Where the run's summary is noted for lists.
    """
    from rlpanel.store.backlog.dask_workers import DaskWorkers

    wake = threading.Event()
    workers: WorkerPool = DaskWorkers(scheduler, wake.set) if scheduler else Workers(reading.jobs, wake.set)
    index = RunIndex(folder, folder.name, reading, root, workers, limits, summaries=summaries)
    progress = TerminalProgress(index.name)
    try:
        index.rescan()
        for is_last in (False, True):
            if is_last:
                index.read_last_lines()
            # What a file gains after its turn belongs to the next reading: it is not checked again.
            while index.read(set(), _PROGRESS_INTERVAL):
                progress(index.snapshot.progress)
                index.save()
                if not index.busy:
                    wake.wait(_PROGRESS_INTERVAL)
                    wake.clear()
        index.save(last=True)
    except Exception as error:
        index.fail(Faults().note(index.path, f"{index.name} cannot be read", error))
    finally:
        workers.close()
        progress.end()
    return index
