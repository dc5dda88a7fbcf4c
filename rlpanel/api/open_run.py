"""`open_run`: finds the run's folder, then reads it once or follows it with the reader of a runtime."""

from __future__ import annotations

import os
import threading
from typing import Any

from rlpanel.api.run import Run
from rlpanel.api.terminal_progress import TerminalProgress
from rlpanel.errors import RunNotFound
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.sources.adapters import accepted
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.files.file_access import AnyPath, RemotePath, path_of
from rlpanel.sources.files.unreadable import reason_of
from rlpanel.store.backlog.workers import WorkerPool, Workers
from rlpanel.store.index.faults import Faults
from rlpanel.store.index.run_index import RunIndex

#: Seconds between two updates of the progress line.
_PROGRESS_INTERVAL = 0.1


def open_run(
    path: str | os.PathLike[str],
    *,
    wait: bool = True,
    follow: bool = True,
    jobs: int | None = None,
    scheduler: str = "",
    runtime: Runtime | None = None,
) -> Run:
    """Open a run's folder: read it, and follow new lines until `Run.close`.

    Parameters
    ----------
    path : path
        Folder that holds the run's rollout files.
    wait : bool
        Return after everything on disk has been indexed, with progress on a terminal. False returns at
        once and reads in the background.
    follow : bool
        Keep reading lines that are appended. False reads once, in the calling thread.
    jobs : int, optional
        Number of worker processes if ``follow`` is False; taken from the settings by default.
    scheduler : str
        Address of a dask scheduler, whose workers are used instead of processes.
    runtime : Runtime, optional
        Reader and settings; by default all runs of the process share `default_runtime`.

    Raises
    ------
    RunNotFound
        If the folder does not exist or holds no rollout files; the message lists the files seen.
    """
    given = path_of(path).resolve()
    folder = _run_folder(given)
    # A followed link may lead out of the given folder.
    root = given if folder.is_relative_to(given) else folder
    if not follow:
        return _read_once(folder, root, {} if jobs is None else {"jobs": jobs}, scheduler, runtime)
    run = _follow(folder, root, runtime)
    if wait:
        run.wait(progress=True)
    return run


def open_listed(info: RunInfo, *, follow: bool) -> Run:
    """Open a run of a list, with the settings of the folders above it up to the root of the list.

    Parameters
    ----------
    info : RunInfo
    follow : bool
        Keep reading in the background. False reads once, in the calling thread.
    """
    root = info.root or info.path
    return _follow(info.path, root) if follow else _read_once(info.path, root, {"jobs": 0}, "")


def _follow(folder: AnyPath, root: AnyPath, runtime: Runtime | None = None) -> Run:
    service = (runtime or default_runtime()).reader
    return Run(service.open(folder, root=root), service)


def _read_once(
    folder: AnyPath, root: AnyPath, settings: dict[str, Any], scheduler: str, runtime: Runtime | None = None
) -> Run:
    from rlpanel.store.backlog.dask_workers import DaskWorkers

    runtime = runtime or default_runtime()
    reading, wake = runtime.reading(**settings), threading.Event()
    workers: WorkerPool = DaskWorkers(scheduler, wake.set) if scheduler else Workers(reading.jobs, wake.set)
    index = RunIndex(folder, folder.name, reading, root, workers, runtime.limits.store)
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
    return Run(index)


def _run_folder(path: AnyPath) -> AnyPath:
    """Return the folder of the run at ``path``: the folder itself, or that of the only run below it."""
    if isinstance(path, RemotePath):
        if not path.is_dir():
            raise RunNotFound(diagnose(Directory(path)).sentence)
    elif not path.is_dir():
        hint = f"; its folder {path.parent} may be the run" if path.is_file() else ""
        raise RunNotFound(f"{path} is not a folder{hint}")
    directory = Directory(path)
    try:
        if directory.is_run(path):
            return path
    except OSError as error:
        raise RunNotFound(f"{path} cannot be read: {reason_of(error)}") from error
    runs = directory.runs()
    if len(runs) == 1:
        return runs[0].path
    if runs:
        names = ", ".join([info.name for info in runs[:5]] + ["…"] * (len(runs) > 5))
        raise RunNotFound(f"{path} holds {len(runs)} runs ({names}); open one of them")
    raise RunNotFound(_no_rollouts_message(path, directory))


def _no_rollouts_message(path: AnyPath, directory: Directory) -> str:
    """Explain why a folder is not a run: the files seen, and the formats that can be read."""
    diagnosis = diagnose(directory)
    seen = "; ".join(f"{sight.name}: {sight.what}" for sight in diagnosis.seen) or "no files"
    mapping = ""
    if diagnosis.mapping:
        mapping = f" Map other keys, or a missing step, with --map {diagnosis.mapping}."
    hints = "".join(f" {hint}." for hint in diagnosis.hints) if diagnosis.seen else ""
    formats = "; ".join([*accepted(), "a .jsonl file also as .gz or .zst"])
    return f"{path} holds no rollout files. Seen: {seen}.{hints}{mapping} Accepted: {formats}"
