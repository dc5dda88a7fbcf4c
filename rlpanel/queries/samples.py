"""The tables of a run's samples that pass a filter, or whose prompt or response contains a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rlpanel.errors import SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import (
    Around,
    Chars,
    Everything,
    FilterBy,
    Found,
    Limit,
    Offset,
    Range,
    SampleColumns,
    SearchSort,
    Sort,
    Step,
    Text,
)
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import ABOUT_SAMPLES, LINE, PLACE, TAG, Table, TableColumn, page

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.query import QueryResult, QuerySpec
    from rlpanel.store.query.text_predicate import TextPredicate
    from rlpanel.store.snapshot.run_view import RunView
    from rlpanel.texts.shorten import TextLimit


# -- samples -------------------------------------------------------------------------------------------
# The table of a run's samples: those that pass a filter, in a sort order, with chosen columns or texts.


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
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.query import QuerySpec
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


# -- search --------------------------------------------------------------------------------------------
# The table of the samples whose prompt or response contains a text, with the place that was found.


@question(
    description="Samples whose texts contain a text, with the first place of each.",
    columns=(
        *PLACE,
        TableColumn("reward", "number", "The score of the whole response.", "reward"),
        TableColumn("field", "text", "The text that contains the place: prompt, response, …"),
        TableColumn("before", "text", "What stands before the place."),
        TableColumn("found", "text", "The place."),
        TableColumn("after", "text", "What stands after the place."),
        TableColumn("at", "integer", "First character of the place in its text, from 0."),
        TableColumn("places", "integer", "Number of places in the sample, at most 50 in a text."),
    ),
    about=(
        *ABOUT_SAMPLES,
        TableColumn("search", "text", "The text that was searched."),
        TableColumn("samples", "integer", "Number of samples in the run, or in the step."),
        TableColumn("searched", "integer", "Number of these that were searched, the newest first."),
    ),
    example='rlpanel search runs/exp1 "the" --step 20 --limit 5',
    agents="Find samples by a text in their prompts or responses, newest first; stops when it has enough.",
)
def search(
    run: RunData,
    text: Found,
    *,
    filter: FilterBy = "",
    step: Step = None,
    sort: SearchSort = "",
    limit: Limit = 50,
    offset: Offset = 0,
    around: Around = 60,
    everything: Everything = False,
) -> Table:
    """Return the places of a text in prompts and responses, ignoring case, the newest steps first.

    The search stops when more samples are found than are returned, unless --all, --sort or --limit 0 is
    given. The total is then the number of samples found so far.

    Parameters
    ----------
    run : RunData
    text : str
        The text, or a regular expression ``/like this/``.
    filter : str
        Filter expression that the samples must pass as well.
    step : int, optional
        Only this step; all by default.
    sort : str
        Number column, with ``-`` in front for descending order.
    limit : int, optional
        Maximum number of samples.
    offset : int
        Number of samples to skip.
    around : int
        Number of characters before and after the place.
    everything : bool
        Search all samples, also after enough were found.

    Raises
    ------
    FilterError
        If the filter or the regular expression is not valid, or takes too long.
    SettingError
        If the run does not have the step, or the text is empty.
    """
    import numpy as np

    from rlpanel.queries.run_columns import checked_step, read_logged_texts
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.query import Query, QuerySpec

    if not text.strip():
        raise SettingError("the text to search is empty; rlpanel samples lists all samples")
    view = run.view
    snapshot = view.snapshot
    if step is not None:
        checked_step(view, step)
    spec = QuerySpec(step=step, filter=filter, search=text, sort=sort, newest_first=True)
    enough = None if everything or sort or limit is None else offset + limit
    for result in Query(run.index, snapshot, spec, Notes(run.path)).results():
        if enough is not None and len(result.rows) > enough:  # one more shows that there are more
            break
    rows = np.asarray(page(result.rows, offset, limit))
    reward = snapshot.number("reward")[rows] if snapshot.has_number("reward") else np.full(len(rows), np.nan)
    found = [_place(texts or {}, result.tests, around) for texts in read_logged_texts(run, rows)]
    places = {
        "uid": snapshot.uids(rows),
        "step": snapshot.metadata("step")[rows],
        "rank": snapshot.metadata("rank")[rows],
        "reward": reward,
    }
    cells = [dict(zip(places, values, strict=True)) for values in zip(*places.values(), strict=True)]
    facts = {"run": run.name, "split": snapshot.split, "step": step, "search": text}
    facts |= {"samples": result.total, "searched": result.total - result.undecided}
    listed = [cell | place for cell, place in zip(cells, found, strict=True)]
    return search.table(listed, total=len(result.rows), offset=offset, about=facts)


def _place(texts: Mapping[str, str], tests: Iterable[TextPredicate], around: int) -> dict[str, object]:
    """Return the first place in a sample's texts; the response comes first, since prompts are repeated."""
    from rlpanel import schema
    from rlpanel.store.query.text_predicate import PlaceFinder

    order = sorted(texts, key=lambda name: (name != "response", schema.TEXTS.index(name)))
    finder = PlaceFinder(tests)
    found = {name: places for name in order if (places := finder.places(name, texts[name]))}
    if not found:
        return {}
    name, places = next(iter(found.items()))
    (start, end), text = places[0], texts[name]
    return {
        "field": name,
        "before": text[max(start - around, 0) : start],
        "found": text[start:end],
        "after": text[end : end + around],
        "at": start,
        "places": sum(map(len, found.values())),
    }
