"""Builds the snapshot of a run: read-only views of its columns, which later rows do not change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpanel.store.columns.run_table import RunTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.columns.splits import default_split, display_name
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.index.run_file import ReadCounts
from rlpanel.store.index.run_status import RunStatus
from rlpanel.store.snapshot.remarks import Remark
from rlpanel.store.snapshot.snapshot import BadLineAt, Snapshot


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
