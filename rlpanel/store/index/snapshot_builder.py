"""Builds the snapshot of a run: views of its columns, which later rows do not change, and its status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.sources.files.unreadable import Unread
from rlpanel.store.backlog.backlog import Backlog
from rlpanel.store.columns.row_builder import MAX_COLUMNS
from rlpanel.store.columns.run_table import RunTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.columns.splits import default_split, display_name
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.index.column_backfill import ColumnBackfill
from rlpanel.store.index.run_files import ReadCounts, RunFiles
from rlpanel.store.index.run_folder import RunFolder
from rlpanel.store.snapshot.read_progress import Progress
from rlpanel.store.snapshot.remarks import Remark
from rlpanel.store.snapshot.snapshot import BadLineAt, Snapshot

#: Length of the sliding window in seconds.
WINDOW = 5.0
#: Shortest time between two stored measurements: a reader may ask thousands of times a second.
INTERVAL = 0.1


class Throughput:
    """Bytes per second over a sliding window."""

    def __init__(self) -> None:
        self._measurements: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float:
        """Record the bytes ``done`` at time ``now``; return bytes per second, 0 while unknown."""
        if self._measurements and done < self._measurements[-1][1]:  # a file was replaced
            self._measurements.clear()
        if not self._measurements or now - self._measurements[-1][0] >= INTERVAL:
            self._measurements.append((now, done))
        while now - self._measurements[0][0] > WINDOW and len(self._measurements) > 2:
            self._measurements.popleft()
        since, before = self._measurements[0]
        return (done - before) / (now - since) if now > since else 0.0


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


def build_snapshot(
    name: str,
    version: int,
    table: RunTable,
    counts: ReadCounts,
    scalars: ScalarLog,
    *,
    bad_lines: Sequence[BadLineAt],
    newest_line: float,
    status: RunStatus,
    remarks: tuple[Remark, ...] = (),
) -> Snapshot:
    """Return a snapshot of everything in a table.

    Parameters
    ----------
    name : str
        Displayed name of the run.
    version : int
    table : RunTable
        Its rows are all added, none are staged.
    counts : ReadCounts
        What was read of all files.
    scalars : ScalarLog
    bad_lines : sequence of BadLineAt
        The bad lines kept by the files; those of the scalar files are added.
    newest_line : float
        Time when the newest line was written, in seconds since the epoch.
    status : RunStatus
    remarks : tuple of Remark
        Those that do not depend on the samples.
    """
    columns, rows = table.columns, table.columns.rows
    by_split = table.steps.freeze()
    split = default_split(by_split)
    return Snapshot(
        name=display_name(name, split),
        version=version,
        rows=rows,
        split=split,
        steps=by_split.get(split, Steps()),
        state=_frozen_state(table),
        files=tuple(table.files),
        bad_lines=(*bad_lines, *_bad_scalar_lines(scalars)),
        bad_count=counts.bad + scalars.bad_count,
        blank_count=counts.blank,
        problems=status.problems,
        unread=status.unread,
        newer_writers=status.newer_writers,
        ranks=len(table.ranks),
        restarts=table.attempts.restart_steps,
        newest_line=newest_line,
        progress=status.progress,
        scalars=scalars.freeze(),
        backlog_starts=dict(table.backlog_starts),
        _metadata={name: column.view(rows) for name, column in columns.metadata.items()},
        _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
        constants=table.stage.constants,
        shares_evaluation=dict(table.shares_evaluation),
        once_per_step=dict(table.once_per_step),
        own_remarks=remarks,
        _by_split=by_split,
        _further=table.units.further(rows),
        _labels={name: (texts.codes.view(rows), texts.names) for name, texts in columns.labels.items()},
    )


def _frozen_state(table: RunTable) -> np.ndarray:
    state = table.state[: table.columns.rows]
    state.flags.writeable = False
    return state


def _bad_scalar_lines(log: ScalarLog) -> list[BadLineAt]:
    return [BadLineAt(name, bad.line, bad.offset, bad.reason) for name, bad in log.bad]
