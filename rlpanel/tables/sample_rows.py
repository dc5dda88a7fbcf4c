"""The table of a run's samples: those that pass a filter, in a sort order, with chosen columns or texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpanel.api.run import Run
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.query.filter_columns import label_name
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from rlpanel.store.query.sample_notes import Notes
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.tables.cut_texts import CUT, TEXT_COLUMNS, cut_texts, read_logged_texts
from rlpanel.tables.run_columns import checked_step, chosen, label_column, number_column
from rlpanel.tables.table import RUN, SPLIT, Table, TableColumn, TableSpec, page
from rlpanel.texts.shorten import TextLimit

#: Columns that say which sample it is.
PLACE = (
    TableColumn("uid", "text", "The sample's identifier: file and byte offset. It stays valid."),
    TableColumn("step", "integer", "Policy update."),
    TableColumn("rank", "integer", "Process that wrote the sample; -1 if it is not known."),
)
TAG = (
    TableColumn("tag", "text", "Tag by a viewer."),
    TableColumn("note", "text", "Note by a viewer."),
)
#: Facts about tables of samples.
ABOUT = (
    RUN,
    SPLIT,
    TableColumn("step", "integer", "The only step; null for all steps."),
)

SAMPLES = TableSpec(
    "samples",
    "Samples of a run that pass a filter, in a sort order.",
    (*PLACE, *TAG),
    "Further columns are numbers and short texts of the log and metrics.",
    optional=(*TEXT_COLUMNS, CUT),
    about=(*ABOUT, TableColumn("available", "texts", "Names of all columns of numbers and labels.")),
)

#: Columns that are shown by default, if the run has them.
USUAL = (
    "group", "status", "finish_reason", "reward", "ref_reward", "advantage", "response_tokens", "kl_k3_mean",
    "truncated",
)  # fmt: skip


def samples(
    run: Run,
    *,
    filter: str = "",
    search: str = "",
    step: int | None = None,
    sort: str = "",
    limit: int | None = None,
    offset: int = 0,
    columns: Sequence[str] | None = None,
    text: bool = False,
    limits: TextLimit | None = None,
) -> Table:
    """Return the samples of a run that pass a filter.

    Parameters
    ----------
    run : Run
    filter : str
        Filter expression, as on the board: ``reward < 0``.
    search : str
        Text to find in prompts and responses, or a regular expression ``/like this/``.
    step : int, optional
        Only this step; all by default.
    sort : str
        Number column, with ``-`` in front for descending order; by default the order of arrival.
    limit : int, optional
        Maximum number of samples; all by default.
    offset : int
        Number of samples to skip.
    columns : sequence of str, optional
        Number and label columns; ``*`` for all of them. By default those most used.
    text : bool
        Add the texts, which are read from the files.
    limits : TextLimit, optional
        Which part of each text is returned; whole texts by default.

    Raises
    ------
    FilterError
        If filter, search or sort order are not valid.
    SettingError
        If the run does not have the step or a column.
    """
    view, notes = run.view, Notes(run.path)
    if step is not None:
        checked_step(view, step)
    result = passing(run, QuerySpec(step=step, filter=filter, search=search, sort=sort), notes)
    available = sample_columns(view)
    used = [name for name in result.columns if name in available]
    names = chosen(columns, available, [*USUAL, *used], f"run {view.snapshot.name!r}")
    rows = np.asarray(page(result.rows, offset, limit))
    cells = _cells(run, view, rows, names, notes)
    if text:
        for row, texts in zip(cells, read_logged_texts(run, rows), strict=True):
            row.update(cut_texts(texts or {}, limits or TextLimit()))
    others = [available[name] for name in names] + ([*TEXT_COLUMNS, CUT] if text else [])
    facts = {"run": run.name, "split": view.snapshot.split, "step": step, "available": list(available)}
    return SAMPLES.table(cells, others=others, total=len(result.rows), offset=offset, about=facts)


def passing(run: Run, spec: QuerySpec, notes: Notes) -> QueryResult:
    """Run a query to its end and return its result."""
    *_, result = Query(run.index, run.snapshot, spec, notes).results()
    return result


def sample_columns(view: RunView) -> dict[str, TableColumn]:
    """Return the columns of numbers and labels that the run has, by name."""
    snapshot = view.snapshot
    labels = {
        label_name(snapshot, name): label_column(label_name(snapshot, name), name) for name in snapshot.labels
    }
    aliases = [alias for alias, name in ALIASES.items() if snapshot.has_number(name)]
    numbers = [*filter(snapshot.has_number, snapshot.numbers), *view.derived, *aliases]
    return labels | {name: number_column(name) for name in numbers}


def sample_values(view: RunView, name: str, rows: np.ndarray) -> list[object]:
    """Return a number or label column at ``rows``, by its name in `sample_columns`."""
    snapshot = view.snapshot
    for label in snapshot.labels:
        if label_name(snapshot, label) == name:
            return list(snapshot.label(label, rows))
    return view.values(ALIASES.get(name, name), rows).tolist()


def _cells(
    run: Run, view: RunView, rows: np.ndarray, names: Sequence[str], notes: Notes
) -> list[dict[str, object]]:
    """Return the place, the chosen columns and the tag of each row."""
    snapshot = view.snapshot
    uids = snapshot.uids(rows)
    noted = [notes.of(uid) for uid in uids]
    data: dict[str, list[object]] = {
        "uid": list(uids),
        "step": snapshot.metadata("step")[rows].tolist(),
        "rank": snapshot.metadata("rank")[rows].tolist(),
        "tag": [note.tag or None for note in noted],
        "note": [note.note or None for note in noted],
    }
    data |= {name: sample_values(view, name, rows) for name in names}
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
