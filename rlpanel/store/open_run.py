"""A run's folder, opened: which one is meant, read once or followed by the process's reader."""

from __future__ import annotations

import os
import threading
from typing import Any

from rlpanel.errors import RunNotFound
from rlpanel.settings import Reading
from rlpanel.sources.adapters import accepted
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.files.files import AnyPath, RemotePath, path_of
from rlpanel.sources.files.unread import reason_of
from rlpanel.store.backlog.dask_workers import DaskWorkers
from rlpanel.store.backlog.workers import WorkerPool, Workers
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.run import Run
from rlpanel.store.terminal_progress import TerminalProgress

#: Seconds between two words about the progress.
_NOTICE = 0.1

_reader: Reader | None = None
_reader_lock = threading.Lock()


def reader() -> Reader:
    """The process's reader, started when first asked for."""
    global _reader
    with _reader_lock:
        if _reader is None or _reader.stopped:
            _reader = Reader()
        return _reader


def open_run(
    path: str | os.PathLike[str],
    *,
    wait: bool = True,
    follow: bool = True,
    jobs: int | None = None,
    scheduler: str = "",
) -> Run:
    """Open a run's folder: read what is there, follow what comes until `Run.close`.

    Parameters
    ----------
    path : path
        The folder that holds the run's rollout files.
    wait : bool
        Return when all that stood on disk is indexed (with progress on a terminal); False returns at
        once and reads in the background.
    follow : bool
        Keep following what is appended. False reads once, in the calling thread.
    jobs : int, optional
        Processes that help where ``follow`` is False; as the settings say by default.
    scheduler : str
        Address of a dask scheduler whose workers help in their place.

    Raises
    ------
    RunNotFound
        If the folder does not exist or holds no rollout files; the message says what was seen.
    """
    given = path_of(path).resolve()
    folder = _run_folder(given)
    # A followed link may lead out of what was given.
    bound = given if folder.is_relative_to(given) else folder
    if not follow:
        return _read_once(folder, bound, {} if jobs is None else {"jobs": jobs}, scheduler)
    service = reader()
    run = Run(service.open(folder, root=bound), service)
    if wait:
        run.wait(progress=True)
    return run


def _read_once(folder: AnyPath, root: AnyPath, settings: dict[str, Any], scheduler: str) -> Run:
    reading, news = Reading.from_environment(**settings), threading.Event()
    workers: WorkerPool = DaskWorkers(scheduler, news.set) if scheduler else Workers(reading.jobs, news.set)
    index = RunIndex(folder, folder.name, reading, root, workers)
    show = TerminalProgress(index.name)
    try:
        index.rescan()
        while index.read(seconds=_NOTICE):
            show(index.snapshot.progress)
            index.save()
            if not index.busy:
                news.wait(_NOTICE)
                news.clear()
        index.save(last=True)
    finally:
        workers.rest()
        show.end()
    return Run(index)


def _run_folder(path: AnyPath) -> AnyPath:
    """The folder of the run at ``path``: itself, or the only run below it."""
    if isinstance(path, RemotePath):
        if not path.is_dir():
            raise RunNotFound(diagnose(Directory(path)).sentence)
    elif not path.is_dir():
        hint = f"; its folder {path.parent} may be the run" if path.is_file() else ""
        raise RunNotFound(f"{path} is no folder{hint}")
    directory = Directory(path)
    try:
        if directory.files(path):
            return path
    except OSError as error:
        raise RunNotFound(f"{path} cannot be read: {reason_of(error)}") from error
    runs = directory.runs()
    if len(runs) == 1:
        return runs[0].path
    if runs:
        names = ", ".join([info.name for info in runs[:5]] + ["…"] * (len(runs) > 5))
        raise RunNotFound(f"{path} holds {len(runs)} runs ({names}); open one of them")
    raise RunNotFound(_nothing_in(path, directory))


def _nothing_in(path: AnyPath, directory: Directory) -> str:
    """Why a folder is no run: what was seen, what would be read."""
    found = diagnose(directory)
    seen = "; ".join(f"{sight.name}: {sight.what}" for sight in found.seen) or "no files"
    way = f" For other lines say which key is which: --map {found.mapping}." if found.mapping else ""
    why = "".join(f" {hint}." for hint in found.hints) if found.seen else ""
    packed = "a .jsonl file also as .gz or .zst"
    return (
        f"{path} holds no rollout files. Seen: {seen}.{why}{way} Accepted: {'; '.join([*accepted(), packed])}"
    )
