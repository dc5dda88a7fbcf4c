"""What questions read of a run: columns with names, types and units that depend on it, and texts of samples.

Texts are read from the files of the log, with a limit on their length.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import TableColumn
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.texts.prompt_parts import TextStyle, prompt_cell
from rlpanel.texts.shorten import TextLimit

#: Stands for all columns of the run in a choice of columns.
ALL = "*"


def counted_by(snapshot: Snapshot) -> str | None:
    """Return what a snapshot counts rewards by, as the fact ``by`` of tables; None if it is the same."""
    if not snapshot.has_episodes:
        return None
    return "rows" if snapshot.counts_rows else "episodes"


def number_column(name: str, described_as: str = "") -> TableColumn:
    """Return the declaration of a number column; its description is that of the metric.

    Parameters
    ----------
    name : str
        Name in the table.
    described_as : str
        TableColumn or curve whose description applies, by default ``name``.
    """
    info = describe(described_as or name)
    return TableColumn(name, "number", " ".join(f"{info.axis}: {info.help}".split()), info.unit)


def label_column(name: str, described_as: str = "") -> TableColumn:
    """Return the declaration of a label column."""
    return TableColumn(name, "text", " ".join(describe(described_as or name).help.split()))


def chosen(
    wanted: Sequence[str] | None, available: Collection[str], usual: Iterable[str], what: str
) -> list[str]:
    """Return the names to show: those wanted, all of them for `ALL`, or the usual ones that exist.

    Raises
    ------
    SettingError
        If a wanted name does not exist; the message suggests similar names.
    """
    if wanted is None:
        return list(dict.fromkeys(name for name in usual if name in available))
    names: list[str] = []
    for name in wanted:
        if name != ALL and name not in available:
            raise SettingError(f"{what} has no column {name[:80]!r}{similar(name, available)}")
        names += list(available) if name == ALL else [name]
    return list(dict.fromkeys(names))


def similar(name: str, available: Iterable[str]) -> str:
    """Return the end of an error message that suggests similar names."""
    names = list(available)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"; similar ones are {', '.join(close)}"
    return f"; it has {', '.join(names[:12])}{', …' if len(names) > 12 else ''}" if names else ""


def checked_step(view: RunView, step: int) -> int:
    """Return a step that the run has.

    Raises
    ------
    SettingError
        If it does not have it; the message names the nearest one.
    """
    steps = view.snapshot.steps
    if not len(steps.values):
        raise SettingError(f"run {view.snapshot.name!r} has no samples yet")
    if steps.position(step) < 0:
        nearest = min(steps.values.tolist(), key=lambda other: abs(other - step))
        raise SettingError(f"step {step} is not in run {view.snapshot.name!r}; step {nearest} is the nearest")
    return step


def step_or_newest(view: RunView, step: int | None) -> int | None:
    """Return a step that the run has, or its newest complete one; None if it has no complete step.

    Raises
    ------
    SettingError
        As `checked_step`.
    """
    return newest_complete_step(view.snapshot, time.time()) if step is None else checked_step(view, step)


def cut_texts(texts: Mapping[str, str | None], limit: TextLimit) -> dict[str, object]:
    """Return texts by name within the limit, with the column ``cut``, without those that were not logged."""
    logged = {name: text for name, text in texts.items() if text is not None}
    parts: dict[str, object] = {name: limit.of(text) for name, text in logged.items()}
    return parts | {"cut": [name for name, text in logged.items() if limit.cuts(text)]}


def questions_of(run: RunData, rows: Sequence[int] | np.ndarray, limit: TextLimit) -> list[str]:
    """Return the question of each row's prompt within the limit; empty if there is none."""
    texts = read_logged_texts(run, rows)
    return [limit.of(prompt_cell((each or {}).get("prompt") or "", TextStyle())) for each in texts]


def read_logged_texts(run: RunData, rows: Sequence[int] | np.ndarray) -> list[dict[str, str] | None]:
    """Return the texts of each row by name; None where the line can no longer be read."""
    return fetch_all_texts(run.index, run.snapshot, np.asarray(rows, int))
