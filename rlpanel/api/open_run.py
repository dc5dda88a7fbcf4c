"""`open_run`: finds the run's folder, then reads it once or follows it with the reader of a runtime."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from rlpanel.api.run import Run
from rlpanel.errors import RLPanelError, RunNotFound
from rlpanel.queries.read_whole_run import read_once
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.discovery.file_names import display_name
from rlpanel.sources.files.file_access import AnyPath, RemotePath, path_of, reason_of

#: Most runs that a message names.
_NAMED = 5


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
        If the folder does not exist or holds no rollouts; the message says what it holds and what to type.
    """
    given = path_of(path).resolve()
    folder = _run_folder(given, os.fspath(path))
    # A followed link may lead out of the given folder.
    root = given if folder.is_relative_to(given) else folder
    if not follow:
        runtime = runtime or default_runtime()
        reading = runtime.reading(**({} if jobs is None else {"jobs": jobs}))
        index = read_once(folder, root, reading, scheduler, runtime.limits.store, runtime.summaries)
        return Run(index)
    run = _follow(folder, root, runtime)
    if wait:
        run.wait(progress=True)
    return run


def open_listed(info: RunInfo, runtime: Runtime | None = None) -> Run:
    """Open a run of a list and follow it, with the settings of the folders above it up to the list's root."""
    return _follow(info.path, info.root or info.path, runtime, info.name)


def _follow(folder: AnyPath, root: AnyPath, runtime: Runtime | None = None, name: str = "") -> Run:
    service = (runtime or default_runtime()).reader
    return Run(service.open(folder, name, root), service)


def _run_folder(path: AnyPath, name: str) -> AnyPath:
    """Return the folder of the run at ``path``: the folder itself, or that of the only run below it.

    ``name`` is the path as the user wrote it.
    """
    if isinstance(path, RemotePath):
        if not path.is_dir():
            raise RunNotFound(diagnose(Directory(path)).sentence)
    elif not path.is_dir():
        hint = f"; its folder {path.parent} may be the run" if path.is_file() else _beside(path)
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
        names = ", ".join([info.name for info in runs[:_NAMED]] + ["…"] * (len(runs) > _NAMED))
        raise RunNotFound(f"{path} holds {len(runs)} runs ({names}); open one of them")
    raise RunNotFound(*diagnose(directory).lines(name))


def _beside(path: Path) -> str:
    """Return a remark that names the runs beside a folder that does not exist, the most similar first."""
    try:
        names = [info.name for info in Directory(path.parent).runs()]
    except (OSError, RLPanelError):
        return ""
    near = get_close_matches(path.name, names, n=_NAMED, cutoff=0)
    if not near:
        return ""
    more = ["…"] * (len(names) > len(near))
    return f"; {path.parent} has the runs {', '.join([*map(display_name, near), *more])}"
