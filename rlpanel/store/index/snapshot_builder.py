"""Builds the snapshot of a run: views of its columns, which later rows do not change, and its status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.sources.files.file_access import Unread
from rlpanel.store.columns.row_builder import MAX_COLUMNS
from rlpanel.store.columns.row_table import RowTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.columns.splits import default_split, display_name
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_folder import RunFolder
from rlpanel.store.index.saved_rows import SavedRows
from rlpanel.store.snapshot.remarks import sequence_remarks
from rlpanel.store.snapshot.sample_places import BadLineAt
from rlpanel.store.snapshot.snapshot import Progress, Snapshot

#: Deleted files that a sentence names.
_NAMED = 3

#: Length of the sliding window in seconds.
WINDOW = 5.0
#: Shortest time between two stored measurements: a reader may ask thousands of times a second.
INTERVAL = 0.1


class Throughput:
    """Bytes per second over a sliding window."""

    def __init__(self) -> None:
        self._measurements: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """Note the bytes ``done`` at time ``now``."""
        if self._measurements and done < self._measurements[-1][1]:  # a file was replaced
            self._measurements.clear()
        if not self._measurements or now - self._measurements[-1][0] >= INTERVAL:
            self._measurements.append((now, done))
        while now - self._measurements[0][0] > WINDOW and len(self._measurements) > 2:
            self._measurements.popleft()

    def rate(self, now: float, done: int) -> float:
        """Return bytes per second up to the bytes ``done`` at time ``now``; 0 while unknown."""
        since, before = self._measurements[0] if self._measurements else (now, done)
        return max(0, done - before) / (now - since) if now > since else 0.0


#: Deleted objects that are named.
_NAMED = 3


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


class SnapshotBuilder:
    """Builds the snapshots of a run.

    Parameters
    ----------
    name : str
        Displayed name of the run.
    folder : RunFolder
    content : RunContent
    scalars : ScalarLog
    saved : SavedRows

    Attributes
    ----------
    has_live : bool
        Whether rollouts are in flight, by live files beside the log.
    """

    def __init__(
        self, name: str, folder: RunFolder, content: RunContent, scalars: ScalarLog, saved: SavedRows
    ) -> None:
        self._name, self._folder, self._content = name, folder, content
        self._scalars, self._saved = scalars, saved
        self._throughput = Throughput()
        self.has_live = False

    @property
    def status(self) -> RunStatus:
        """The current progress and problems."""
        unread = self._unread()
        problems = (*self._problems(unread), *filter(None, [self._saved.problem]))
        return RunStatus(self._progress(), problems, unread, self._folder.newer_writers)

    def differs(self, published: Snapshot) -> bool:
        """Return True if progress or problems differ from a published snapshot."""
        status = self.status
        is_equal = status.progress == published.progress and status.problems == published.problems
        return not is_equal or self.has_live != published.has_live

    def note_progress(self) -> None:
        """Note how much was read by now, from which the throughput is computed."""
        self._throughput.note(time.monotonic(), self._bytes_done)

    def build(self) -> Snapshot:
        """Return a snapshot of everything that was read; no rows are staged."""
        content, table, scalars, folder = self._content, self._content.table, self._scalars, self._folder
        columns, rows, status = table.columns, table.columns.rows, self.status
        counts = content.files.total
        by_split = table.steps.freeze()
        split = default_split(by_split)
        return Snapshot(
            name=display_name(self._name, split),
            version=content.version,
            rows=rows,
            split=split,
            steps=by_split.get(split, Steps()),
            state=_frozen_state(table),
            files=tuple(table.files),
            bad_lines=(*content.bad_lines, *folder.bad_lines, *_bad_scalar_lines(scalars)),
            bad_count=counts.bad + folder.bad_count + scalars.bad_count,
            blank_count=counts.blank,
            empty_count=counts.empty,
            problems=status.problems,
            unread=status.unread,
            newer_writers=status.newer_writers,
            ranks=len(table.ranks),
            restarts=table.attempts.restart_steps,
            newest_line=content.newest_line,
            progress=status.progress,
            has_live=self.has_live,
            scalars=scalars.freeze(),
            backlog_starts=dict(table.backlog_starts),
            _metadata={name: column.view(rows) for name, column in columns.metadata.items()},
            _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
            constants=table.stage.constants,
            shares_evaluation=dict(table.shares_evaluation),
            once_per_step=dict(table.once_per_step),
            inferences=folder.inferences,
            own_remarks=(
                *folder.remarks,
                *sequence_remarks(table.attempts.epochs, table.attempts.doubtful_steps, split),
            ),
            _by_split=by_split,
            _further=table.units.further(rows),
            _blocks=columns.blocks,
            _labels={name: (texts.codes.view(rows), texts.names) for name, texts in columns.labels.items()},
        )

    def _unread(self) -> tuple[Unread, ...]:
        """Return the files and folders of the run that cannot be read at the moment, each once."""
        folder = self._folder
        if folder.problem:
            return (Unread("./", folder.problem),)
        of_files = [*self._content.files.problems, *self._scalars.unread]
        reported = {item.file for item in of_files}
        inaccessible = (item for item in folder.inaccessible if item.file not in reported)
        return (*folder.ignored, *inaccessible, *of_files, *self._deleted())

    def _deleted(self) -> Iterator[Unread]:
        """Yield the samples of files and objects that were deleted while the run was followed."""
        deleted = self._content.deleted
        if deleted:
            names, rows = sorted(deleted), sum(deleted.values())
            further = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            what = "its" if len(names) == 1 else "their"
            yield Unread(
                ", ".join(names[:_NAMED]) + further,
                f"deleted or renamed: {what} {rows:,} samples do not count any more",
                "they count again once it is back",
            )

    def _problems(self, unread: Iterable[Unread]) -> tuple[str, ...]:
        """Return the problems of the run as sentences."""
        folder, left_out = self._folder, self._content.table.stage.left_out
        if folder.problem:
            return (folder.problem,)
        problems = [folder.config_problem] * bool(folder.config_problem)
        problems += map(str, unread)
        if left_out:
            problems.append(
                f"the log has too many columns: the first {MAX_COLUMNS} are shown, "
                f"{left_out!r} and later ones are left out"
            )
        return (*problems, *self._scalars.problems)

    @property
    def _bytes_done(self) -> int:
        backfill = self._saved.backfill
        waiting = self._content.backlog.bytes + (backfill.waiting if backfill else 0)
        return self._content.files.total.read - waiting

    def _progress(self) -> Progress:
        """Return how much of the run was read."""
        backlog, backfill, files = self._content.backlog, self._saved.backfill, self._content.files
        read, halted = self._bytes_done, backlog.halted
        backfills = backfill is not None and not backfill.stuck
        has_backlog = bool(backlog) and not halted
        has_unread = has_backlog or self._scalars.more or files.has_waiting
        return Progress(
            bytes_read=read,
            bytes_total=files.total.size,
            caught_up=bool(self._folder.problem) or not (has_unread or backfills),
            halted=halted,
            rate=self._throughput.rate(time.monotonic(), read),
        )


def _frozen_state(table: RowTable) -> np.ndarray:
    state = table.state[: table.columns.rows]
    state.flags.writeable = False
    return state


def _bad_scalar_lines(log: ScalarLog) -> list[BadLineAt]:
    return [BadLineAt(name, bad.line, bad.offset, bad.reason) for name, bad in log.bad]
