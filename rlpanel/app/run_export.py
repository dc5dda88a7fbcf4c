"""Export of a run: an HTML report, its samples as CSV, JSON lines or parquet rows, or as trajectories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.errors import RLPanelError, SettingError, UnsafePath, install_command
from rlpanel.panels.report.report import SAMPLES, board_html, check_step, frozen, run_query, sample_html
from rlpanel.panels.session.context import Context
from rlpanel.safe_files import SafeFolder, replace_file
from rlpanel.schema import Sample
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.samples_export import available_formats, export_parts
from rlpanel.store.query.trajectory_files import TrajectoryFormat, Written, write_trajectories
from rlpanel.store.snapshot.left_out import Omissions, left_out


def export(
    run: Path,
    html: Path,
    *,
    split: str = "",
    step: int | None = None,
    filter: str = "",
    sort: str = "",
    samples: int = SAMPLES,
    uid: str = "",
    write: Callable[[bytes], object] | None = None,
    note: Callable[[Omissions], object] | None = None,
) -> int:
    """Read a run once, write its HTML report and return the report's size in bytes.

    Parameters
    ----------
    run : Path
        The run's folder.
    html : Path
        The file to write. An existing file is replaced; a symbolic link is refused. ``-`` or ``/dev/stdout``
        means the standard output.
    split : str
        The split; the training split by default.
    step : int, optional
        The step to show; the newest complete one by default.
    filter, sort : str
        Filter and sort order of the step's samples, in the syntax of the board.
    samples : int
        Maximum number of samples.
    uid : str
        Export only this sample, without the run's curves.
    write : function, optional
        Writes bytes to the standard output; by default unchanged.
    note : function, optional
        Is called with what the run's numbers leave out.

    Raises
    ------
    RLPanelError
        If the run, split, step or sample does not exist, or the file cannot be written.
    """
    with _opened(run, split, note) as opened:
        page = report_of(opened, step=step, filter=filter, sort=sort, samples=samples, uid=uid)
    return _write(html, [page], write)


def export_rows(
    run: Path,
    file: Path,
    kind: str,
    *,
    split: str = "",
    step: int | None = None,
    filter: str = "",
    sort: str = "",
    samples: int | None = None,
    uid: str = "",
    write: Callable[[bytes], object] | None = None,
    note: Callable[[Omissions], object] | None = None,
) -> int:
    """Read a run once, write its samples as rows and return the file's size in bytes.

    Parameters
    ----------
    kind : str
        A key of `samples_export.FORMATS`. The raw CSV does not escape texts that look like formulas.
    step : int, optional
        Export only this step; all steps by default.
    samples : int, optional
        Maximum number of samples; all by default.
    run, file, split, filter, sort, uid, write, note
        As `export`.

    Raises
    ------
    RLPanelError
        If the run, split, step or sample does not exist, or the file cannot be written.
    """
    if kind not in available_formats():
        raise SettingError(f"{kind} needs a package that is not installed: {install_command(kind)}")
    with _opened(run, split, note) as opened:
        rows = rows_of(opened, step=step, filter=filter, sort=sort, uid=uid)[:samples]
        parts = export_parts(opened.index, opened.view, rows, Notes(opened.path), kind)
        return _write(file, (part.data for part in parts), write)


def export_trajectories(
    run: Path,
    folder: Path,
    kind: TrajectoryFormat,
    *,
    split: str = "",
    step: int | None = None,
    filter: str = "",
    sort: str = "",
    samples: int | None = None,
    uid: str = "",
    note: Callable[[Omissions], object] | None = None,
) -> Written:
    """Read a run once and write its samples as trajectories, one file each, into a new or empty folder.

    Parameters
    ----------
    kind : TrajectoryFormat
        A value of `trajectory_files.TRAJECTORIES`.
    run, split, step, filter, sort, samples, uid, note
        As `export_rows`.

    Raises
    ------
    RLPanelError
        If the run, split, step or sample does not exist, or the folder has files or cannot be written.
    """
    with _opened(run, split, note) as opened:
        rows = rows_of(opened, step=step, filter=filter, sort=sort, uid=uid)[:samples]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with SafeFolder.named(folder) as place:
                if place.names():
                    raise SettingError(f"{folder} has files; name a new or an empty folder")
                return write_trajectories(place, len(rows), _samples(opened, rows), kind)
        except (RLPanelError, UnsafePath):
            raise
        except OSError as error:
            raise SettingError(f"{folder} cannot be written: {error.strerror}") from error


def _samples(run: Run, rows: np.ndarray) -> Iterator[Sample | RLPanelError]:
    """Yield the samples of rows, or why one cannot be read any more."""
    for row in rows.tolist():
        try:
            yield fetch(run.index, run.view, row)
        except RLPanelError as error:
            yield error


@contextmanager
def _opened(run: Path, split: str, note: Callable[[Omissions], object] | None = None) -> Iterator[Run]:
    """Open a run, or one split of it, without following it; close it at the end of the block."""
    with open_run(run, follow=False) as opened:
        read = opened.split(split) if split else opened
        if note is not None:
            note(left_out(read.snapshot))
        yield read


def rows_of(run: Run, *, step: int | None, filter: str = "", sort: str = "", uid: str = "") -> np.ndarray:
    """Return the rows of an opened run that `export_rows` writes, in their order."""
    if uid:
        return np.array([run.snapshot.row(uid)])
    query = {"filter": filter, "sort": sort, "scope": "run" if step is None else "step"}
    context = frozen(Context(index=run.index, view=run.view), step=step, **query)
    check_step(context)
    return run_query(context).rows


def _write(path: Path, parts: Iterable[bytes], write: Callable[[bytes], object] | None) -> int:
    """Create or replace a file, or write to the standard output; return the number of bytes."""
    try:
        if not is_stdout(path):
            return replace_file(path, parts)
        put, size = write or sys.stdout.buffer.write, 0
        for part in parts:
            put(part)
            size += len(part)
        sys.stdout.flush()
        return size
    except UnsafePath as error:
        raise SettingError(f"{path} {error.strerror}; name the file itself") from error
    except RLPanelError:  # an error of reading the run, which may also be an OSError
        raise
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def is_stdout(html: Path) -> bool:
    """Return True if a path means the standard output; a symbolic link to ``/dev/stdout`` does not count."""
    return str(html) in ("-", "/dev/stdout")


def report_of(
    run: Run, *, step: int | None, filter: str = "", sort: str = "", samples: int = SAMPLES, uid: str = ""
) -> bytes:
    """Return the HTML report of an opened run; see `export` for the parameters."""
    context = Context(index=run.index, view=run.view)
    if uid:
        return sample_html(frozen(context), uid)
    return board_html(frozen(context, step=step, filter=filter, sort=sort), samples)
