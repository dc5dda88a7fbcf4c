"""Reading progress of a run, its problems, and its files that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rlpanel.sources.files.unreadable import Unread
from rlpanel.store.backlog.backlog import Backlog
from rlpanel.store.backlog.throughput import Throughput
from rlpanel.store.columns.row_builder import MAX_COLUMNS
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.index.column_backfill import ColumnBackfill
from rlpanel.store.index.run_files import RunFiles
from rlpanel.store.index.run_folder import RunFolder
from rlpanel.store.snapshot.read_progress import Progress


@dataclass(frozen=True)
class RunStatus:
    """Reading progress and problems of a run, as a snapshot publishes them.

    Attributes
    ----------
    progress : Progress
    problems : tuple of str
    unread : tuple of Unread
        Files and folders that cannot be read at the moment.
    newer_writers : tuple of str
        As `RunFolder.newer_writers`.
    """

    progress: Progress
    problems: tuple[str, ...]
    unread: tuple[Unread, ...]
    newer_writers: tuple[str, ...] = ()


def unread_files(folder: RunFolder, files: RunFiles, scalars: ScalarLog) -> tuple[Unread, ...]:
    """Return the files and folders of the run that cannot be read at the moment, each once."""
    if folder.problem:
        return (Unread("./", folder.problem),)
    of_files = [*files.problems, *scalars.unread]
    reported = {item.file for item in of_files}
    return (*folder.ignored, *(item for item in folder.inaccessible if item.file not in reported), *of_files)


def list_problems(
    folder: RunFolder, unread: Iterable[Unread], left_out: str, scalars: ScalarLog
) -> tuple[str, ...]:
    """Return the problems of a run as sentences.

    Parameters
    ----------
    folder : RunFolder
    unread : iterable of Unread
    left_out : str
        The first column that was left out because there are too many; empty if none was.
    scalars : ScalarLog
    """
    if folder.problem:
        return (folder.problem,)
    problems = [folder.config_problem] * bool(folder.config_problem)
    problems += map(str, unread)
    if left_out:
        problems.append(
            f"the log has too many columns: the first {MAX_COLUMNS} are shown, "
            f"{left_out!r} and later ones are left out"
        )
    return (*problems, *scalars.problems)


def measure_progress(
    folder: RunFolder,
    files: RunFiles,
    scalars: ScalarLog,
    backlog: Backlog,
    backfill: ColumnBackfill | None,
    throughput: Throughput,
) -> Progress:
    """Return how much of a run was read; ``throughput`` records it too."""
    total = files.total
    read = total.read - backlog.bytes
    read -= backfill.waiting if backfill else 0
    halted = backlog.halted
    backfills = backfill is not None and not backfill.stuck
    has_backlog = bool(backlog) and not halted
    has_unread = has_backlog or scalars.more or files.has_waiting
    return Progress(
        bytes_read=read,
        bytes_total=total.size,
        caught_up=bool(folder.problem) or not (has_unread or backfills),
        halted=halted,
        rate=throughput.rate(time.monotonic(), read),
    )
