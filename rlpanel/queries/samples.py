"""The table of a run's samples: those that pass a filter, in a sort order, with chosen columns or texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Chars, FilterBy, Limit, Offset, SampleColumns, Sort, Step, Text
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import ABOUT_SAMPLES, PLACE, TAG, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.store.query.query import QueryResult, QuerySpec
    from rlpanel.store.query.sample_notes import Notes
    from rlpanel.store.snapshot.run_view import RunView

#: Columns that are shown by default, if the run has them.
USUAL = (
    "group", "status", "finish_reason", "reward", "ref_reward", "advantage", "response_tokens", "kl_k3_mean",
    "truncated",
)  # fmt: skip


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
    about=(*ABOUT_SAMPLES, TableColumn("available", "texts", "Names of all columns of numbers and labels.")),
    has_relation=False,
    example='rlpanel samples runs/exp1 --filter "reward < 1" --step 20 --sort=-kl_k3_mean --limit 5',
    agents="List samples that pass a filter, sorted, with numbers, labels and optionally texts.",
)
def samples(
    run: RunData,
    *,
    filter: FilterBy = "",
    search: str = "",
    step: Step = None,
    sort: Sort = "",
    limit: Limit = None,
    offset: Offset = 0,
    columns: SampleColumns = None,
    text: Text = False,
    chars: Chars = None,
) -> Table:
    """Return the samples that pass a filter, sorted by a column.

    Parameters
    ----------
    run : RunData
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
    chars : int, optional
        Maximum number of characters of each text; whole texts by default.

    Raises
    ------
    FilterError
        If filter, search or sort order are not valid.
    SettingError
        If the run does not have the step or a column.
    """
    import numpy as np

    from rlpanel.queries.run_columns import checked_step, chosen
    from rlpanel.queries.texts_of_samples import cut_texts, read_logged_texts
    from rlpanel.store.query.query import QuerySpec
    from rlpanel.store.query.sample_notes import Notes
    from rlpanel.texts.shorten import TextLimit

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
            row.update(cut_texts(texts or {}, TextLimit(chars)))
    others = [available[name] for name in names] + (list(text_columns()) if text else [])
    facts = {"run": run.name, "split": view.snapshot.split, "step": step, "available": list(available)}
    return samples.table(cells, others=others, total=len(result.rows), offset=offset, about=facts)


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


def _cells(
    run: RunData, view: RunView, rows: np.ndarray, names: Sequence[str], notes: Notes
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
