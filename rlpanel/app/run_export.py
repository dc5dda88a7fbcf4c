"""A run as a file, for a CI job or a colleague: its report as one HTML file, or its samples as rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rlpanel.errors import RLPanelError, SettingError, UnsafePath
from rlpanel.panels.report.report import SAMPLES, board_html, sample_html
from rlpanel.panels.report.report_contents import ask, check_step, frozen
from rlpanel.panels.session.context import Context
from rlpanel.safe_files import replace_file
from rlpanel.store.open_run import open_run
from rlpanel.store.query.notes import Notes
from rlpanel.store.query.samples_export import available_formats, export_parts
from rlpanel.store.run import Run


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
) -> int:
    """Read a run as it stands and write its report; gives the report's bytes.

    Parameters
    ----------
    run : Path
        The run's folder.
    html : Path
        The file to write; one that is there is replaced, a link is refused. ``-`` or ``/dev/stdout`` is
        the standard output.
    split : str
        Whose samples; the training's by default.
    step : int, optional
        The step to show; the newest complete one by default.
    filter, sort : str
        As the board's: which of the step's samples, and in which order.
    samples : int
        At most so many samples.
    uid : str
        This sample alone, without the run's curves.

    Raises
    ------
    RLPanelError
        If there is no such run, split, step or sample, or the file cannot be written.
    """
    with _opened(run, split) as shown:
        page = page_of(shown, step=step, filter=filter, sort=sort, samples=samples, uid=uid)
    return _write(html, [page])


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
) -> int:
    """Read a run as it stands and write its samples as rows; gives the file's bytes.

    Parameters
    ----------
    kind : str
        A key of `samples_export.FORMATS`: the raw CSV keeps texts that begin like a formula.
    step : int, optional
        This step alone; all steps by default.
    samples : int, optional
        At most so many samples; all by default.
    run, file, split, filter, sort, uid
        As `export`.

    Raises
    ------
    RLPanelError
        If there is no such run, split, step or sample, or the file cannot be written.
    """
    if kind not in available_formats():
        raise SettingError(f"{kind} needs a package that is not installed: pip install 'rlpanel[{kind}]'")
    with _opened(run, split) as shown:
        rows = rows_of(shown, step=step, filter=filter, sort=sort, uid=uid)[:samples]
        made = export_parts(shown.index, shown.view, rows, Notes(shown.path), kind)
        return _write(file, (piece.data for piece in made))


@contextmanager
def _opened(run: Path, split: str) -> Iterator[Run]:
    """A run read as it stands, or one split of it; closed afterwards."""
    with open_run(run, follow=False) as opened:
        yield opened.split(split) if split else opened


def rows_of(run: Run, *, step: int | None, filter: str = "", sort: str = "", uid: str = "") -> np.ndarray:
    """The rows of an opened run that `export_rows` writes, in their order."""
    if uid:
        return np.array([run.snapshot.row(uid)])
    asked = {"filter": filter, "sort": sort, "scope": "run" if step is None else "step"}
    context = frozen(Context(index=run.index, view=run.view), step=step, **asked)
    check_step(context)
    return ask(context).rows


def _write(path: Path, parts: Iterable[bytes]) -> int:
    """Write a file, or replace it; gives its bytes."""
    try:
        if not is_stdout(path):
            return replace_file(path, parts)
        size = sum(sys.stdout.buffer.write(part) for part in parts)
        sys.stdout.flush()
        return size
    except UnsafePath as error:
        raise SettingError(f"{path} {error.strerror}; name the file itself") from error
    except RLPanelError:  # about what is read; some are OSErrors too
        raise
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def is_stdout(html: Path) -> bool:
    """Whether a path means the standard output; a link to ``/dev/stdout`` is a link like any other."""
    return str(html) in ("-", "/dev/stdout")


def page_of(
    run: Run, *, step: int | None, filter: str = "", sort: str = "", samples: int = SAMPLES, uid: str = ""
) -> bytes:
    """The report of an opened run; as `export`."""
    shown = Context(index=run.index, view=run.view)
    if uid:
        return sample_html(frozen(shown), uid)
    return board_html(frozen(shown, step=step, filter=filter, sort=sort), samples)
