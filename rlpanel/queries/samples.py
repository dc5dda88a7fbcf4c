"""The table of a run's samples: those that pass a filter, in a sort order, with chosen columns or texts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Chars, FilterBy, Limit, Offset, Range, SampleColumns, Sort, Text
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import ABOUT_SAMPLES, LINE, PLACE, TAG, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.store.query.query import QueryResult, QuerySpec
    from rlpanel.store.query.sample_notes import Notes
    from rlpanel.store.snapshot.run_view import RunView
    from rlpanel.texts.shorten import TextLimit

#: Columns that are shown by default, if the run has them.
USUAL = (
    "group", "status", "finish_reason", "reward", "ref_reward", "advantage", "response_tokens", "kl_k3_mean",
    "truncated",
)  # fmt: skip


_OLDER = TableColumn("older", "boolean", "Whether a restart of the job replaced the attempt of the sample.")
_DECLARED = ("uid", "step", "rank")


def text_columns() -> tuple[TableColumn, ...]:
    """Return the columns of texts, and the one that names those which were cut."""
    from rlpanel import schema

    texts = (TableColumn(name, "text", schema.BY_NAME[name].help) for name in schema.TEXTS)
    cut = TableColumn("cut", "texts", "Names of the columns whose texts are longer than what is shown.")
    return (*texts, cut)


@question(
    description="Samples of a run that pass a filter, in a sort order.",
    columns=(*PLACE, *TAG),
    others="Further columns are numbers and short texts of the log and metrics.",
    optional=text_columns,
    about=(
        *ABOUT_SAMPLES,
        TableColumn("available", "texts", "Names of all columns of numbers and labels.", full=True),
    ),
    example='rlpanel samples runs/exp1 --filter "reward < 1" --step 20 --sort=-kl_k3_mean --limit 5',
    agents="List samples that pass a filter, sorted, with numbers, labels and optionally texts.",
)
def samples(
    run: RunData,
    *,
    filter: FilterBy = "",
    search: str = "",
    step: Range = None,
    sort: Sort = "",
    limit: Limit = None,
    offset: Offset = 0,
    columns: SampleColumns = None,
    text: Text = False,
    chars: Chars = None,
    older: bool = False,
    every: bool = False,
) -> Table:
    """Return the samples that pass a filter, sorted by a column.

    Parameters
    ----------
    run : RunData
    filter : str
        Filter expression, as on the board: ``reward < 0``.
    search : str
        Text to find in prompts and responses, or a regular expression ``/like this/``.
    step : int or (int, int), optional
        Only this step, or the first and the last of several; all by default.
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
    chars : int, optional
        Maximum number of characters of each text; whole texts by default.
    older : bool
        Add the samples of older attempts, which a restart of the job replaced, and a column that marks them.
    every : bool
        All columns that are stored, unless some are chosen, with texts also how repetitive the responses are.
        A text that cannot be read is an error then.

    Raises
    ------
    FilterError
        If filter, search or sort order are not valid.
    SettingError
        If the run does not have the step or a column.
    SourceChanged
        With ``every``, if a line in the files has changed or was deleted.
    """
    import numpy as np

    from rlpanel.queries.run_columns import chosen, label_column, number_column
    from rlpanel.queries.step_ranges import in_run, step_facts
    from rlpanel.store.columns.row_table import OLDER
    from rlpanel.store.query.query import QuerySpec
    from rlpanel.store.query.sample_notes import Notes
    from rlpanel.texts.shorten import TextLimit

    view, notes = run.view, Notes(run.path)
    if step is not None:
        step = in_run(view, step)
    result = passing(run, QuerySpec(step, older, filter, search, sort), notes)
    available = sample_columns(view)
    rows = np.asarray(page(result.rows, offset, limit))
    values: dict[str, Any]
    if every and columns is None:
        values = view.row_columns(rows)
    else:
        used = [name for name in result.columns if name in available]
        names = chosen(columns, available, [*USUAL, *used], f"run {view.snapshot.name!r}")
        values = {name: view.snapshot.metadata(name)[rows] for name in ("step", "rank")}
        values |= {"uid": view.snapshot.uids(rows)} | {n: sample_values(view, n, rows) for n in names}
    known = {column.name: column for column in (*text_columns(), LINE, _OLDER)} | available
    if older:
        values["older"] = view.snapshot.state[rows] == OLDER
    if text:
        values |= _texts(run, rows, TextLimit(chars), every=every)
    noted = cache(lambda: [notes.of(uid) for uid in values["uid"]])
    others = []
    for name in values:
        if name not in _DECLARED:
            described = label_column if isinstance(values[name], list) else number_column
            others.append(known.get(name) or described(name))
    values["tag"] = lambda: [note.tag or None for note in noted()]
    values["note"] = lambda: [note.note or None for note in noted()]
    facts = {"run": run.name, "split": view.snapshot.split, **step_facts(step), "available": list(available)}
    return samples.table(values, others=others, total=len(result.rows), offset=offset, about=facts)


def _texts(run: RunData, rows: np.ndarray, limit: TextLimit, *, every: bool) -> dict[str, Any]:
    """Return the columns of texts that any of the rows has; None where a line can no longer be read."""
    import numpy as np

    from rlpanel import schema
    from rlpanel.metrics.engine import compute
    from rlpanel.queries.run_columns import cut_texts, read_logged_texts
    from rlpanel.store.query.fetch_sample import fetch_texts

    logged = read_logged_texts(run, rows)
    if every:
        # The second attempt raises the error that says why a row cannot be read.
        logged = [
            fetch_texts(run.index, run.snapshot, row) if texts is None else texts
            for row, texts in zip(rows.tolist(), logged, strict=True)
        ]
    parts = [cut_texts(texts or {}, limit) for texts in logged]
    found: dict[str, Any] = {
        name: [part.get(name) for part in parts]
        for name in (*schema.TEXTS, "cut")
        if not every or any(name in part for part in parts)
    }
    if every and "response" in found:
        responses = [(texts or {}).get("response", "") for texts in logged]
        found |= compute.text_columns(np.array(responses, object))
    return found


def passing(run: RunData, spec: QuerySpec, notes: Notes) -> QueryResult:
    """Run a query to its end and return its result."""
    from rlpanel.store.query.query import Query

    *_, result = Query(run.index, run.snapshot, spec, notes).results()
    return result


def sample_columns(view: RunView) -> dict[str, TableColumn]:
    """Return the columns of numbers and labels that the run has, by name."""
    from rlpanel.metrics.engine.column_info import ALIASES
    from rlpanel.queries.run_columns import label_column, number_column
    from rlpanel.store.query.filter_columns import label_name

    snapshot = view.snapshot
    labels = {
        label_name(snapshot, name): label_column(label_name(snapshot, name), name) for name in snapshot.labels
    }
    aliases = [alias for alias, name in ALIASES.items() if snapshot.has_number(name)]
    numbers = [*filter(snapshot.has_number, snapshot.numbers), *view.derived, *aliases]
    return labels | {name: number_column(name) for name in numbers}


def sample_values(view: RunView, name: str, rows: np.ndarray) -> list[object]:
    """Return a number or label column at ``rows``, by its name in `sample_columns`."""
    from rlpanel.metrics.engine.column_info import ALIASES
    from rlpanel.store.query.filter_columns import label_name

    snapshot = view.snapshot
    for label in snapshot.labels:
        if label_name(snapshot, label) == name:
            return list(snapshot.label(label, rows))
    return view.values(ALIASES.get(name, name), rows).tolist()
