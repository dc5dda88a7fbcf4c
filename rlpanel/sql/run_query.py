"""Runs a query over the tables of a run; only the tables and columns that it reads are made.

The tokens and the texts of some steps are read from the lines of their samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import QueryError, RLPanelError
from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.engine.compute import token_values
from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.engine.derived_arrays import derived_of_sample
from rlpanel.metrics.logged_arrays import array_names, query_names
from rlpanel.number_text import size_text
from rlpanel.sources.records.record_types import Record
from rlpanel.sql.sample_relation import (
    Relation,
    clean_text,
    clean_texts,
    distinct_names,
    quoted,
    rows_of_steps,
    step_turns,
    unread,
)
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.sql_process import sql_process
from rlpanel.sql.statement import TEXTS, TOKENS, TURNS, Statement
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_record
from rlpanel.store.snapshot.run_view import RunView

#: Most bytes of the columns that are prepared for a query over several runs.
MAX_COLUMNS = 2 << 30
#: Columns before the metrics.
HEAD = ("uid", "step", "rank", "position", "token", "token_id", "loss_mask")


def step_tokens(
    index: RunIndex,
    view: RunView,
    ranges: Sequence[tuple[int, int]],
    reads: Callable[[str], bool],
    seconds: float,
) -> pd.DataFrame:
    """Return one row per response token of the samples in some ranges of steps.

    Columns: ``uid``, ``step``, ``rank``, ``position`` (from 0), ``token``, ``token_id``, ``loss_mask`` and
    the token metrics, and the undeclared token arrays of the log. A value is NaN if it was not
    logged, and a metric also if the query does not read it.

    Raises
    ------
    QueryError
        If more than `MAX_BYTES` of lines would have to be read, or reading takes longer than ``seconds``.
    """
    rows = rows_of_steps(view, ranges, TOKENS)
    arrays = query_names(array_names(view.snapshot.numbers))
    names = [metric.name for metric in of_level("token") if not metric.hidden] + [*arrays]
    wanted = {"step", *(name for name in (*HEAD, *names) if reads(name))}  # calls are told apart by step
    deadline = time.monotonic() + seconds
    parts = []
    for row, uid in zip(rows.tolist(), view.snapshot.uids(rows), strict=True):
        if time.monotonic() > deadline:
            raise QueryError(f"reading the tokens took longer than {seconds:g} s: choose fewer steps")
        try:
            record = fetch_record(index, view.snapshot, row)
        except (RLPanelError, IndexError):  # its file was rewritten; the index updates shortly
            continue
        logged = {name: record.arrays[key] for name, key in arrays.items() if key in record.arrays}
        rank = int(view.snapshot.metadata("rank")[row])
        parts.append(tokens_of(record, rank, uid, view.snapshot.constants, wanted, logged))
    columns = {}
    for name in (*HEAD, *names):
        values = [part[name] for part in parts if len(part[HEAD[0]])] if name in wanted else []
        columns[name] = np.concatenate(values) if values else np.empty(0)
    length = max((len(values) for values in columns.values()), default=0)
    return pd.DataFrame(
        {name: values if len(values) else np.full(length, np.nan) for name, values in columns.items()}
    )


def step_texts(view: RunView, index: RunIndex, ranges: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """Return one row per sample of some ranges of steps, with its texts.

    Columns: ``uid``, ``step``, ``rank``, and the texts of the log, such as ``prompt``, ``response`` and
    ``ground_truth``; None where a text was not logged or its line has changed.

    Raises
    ------
    QueryError
        If more than `MAX_BYTES` of lines would have to be read.
    """
    rows, snapshot = rows_of_steps(view, ranges, TEXTS), view.snapshot
    rank = snapshot.metadata("rank")[rows].astype(float)
    columns = {
        "uid": np.array([clean_text(uid) for uid in snapshot.uids(rows)], object),
        "step": snapshot.metadata("step")[rows],
        "rank": np.where(rank < 0, np.nan, rank),
    }
    texts = fetch_all_texts(index, snapshot, rows)
    for name in schema.TEXTS:
        found = [None if text is None or name not in text else clean_text(text[name]) for text in texts]
        columns[name] = np.array(found, object)
    return pd.DataFrame(columns)


def tokens_of(
    record: Record, rank: int, uid: str, constants: Constants, wanted: set[str], logged: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the columns of one sample, each of shape (T,); ``logged`` are its undeclared arrays.

    A ``rank`` of -1 is missing.
    """
    arrays = derived_of_sample(record.arrays, record.numbers, constants) | record.arrays
    values = token_values(arrays) | logged
    tokens = record.tokens or []
    ids, mask = record.arrays.get("response_token_ids"), record.arrays.get("loss_mask")
    found: list[Any] = [array for array in (ids, mask, *values.values()) if array is not None]
    count = len(tokens) or max((len(array) for array in found), default=0)
    texts = clean_texts(tokens[:count])
    made = {
        "uid": np.full(count, clean_text(uid), object),
        "step": np.full(count, record.step),
        "rank": np.full(count, np.nan if rank < 0 else rank),
        "position": np.arange(count),
        "token": np.array([*texts, *[None] * (count - len(texts))], object),
        "token_id": _fitted(ids, count),
        "loss_mask": _fitted(mask, count),
    }
    missing = dict.fromkeys(wanted - made.keys() - values.keys())
    return made | {name: _fitted(array, count) for name, array in (values | missing).items()}


def _fitted(array: np.ndarray | None, count: int) -> np.ndarray:
    """Return an array of this length; NaN where it has no values."""
    fitted = np.full(count, np.nan)
    if array is not None:
        fitted[: min(count, len(array))] = array[:count]
    return fitted


#: Says whether the query may read a column; makes a table for a query that reads these columns.
Reads: TypeAlias = Callable[[str], bool]
Maker: TypeAlias = Callable[[Reads], Relation]
#: Types of columns of whole numbers and truth values, which may be missing.
_CASTS = {"integer": "bigint", "boolean": "boolean"}
#: Prefix of the tables that the views read; a query cannot name them.
_HIDDEN = "rlpanel_data_"


@dataclass(frozen=True)
class QueriedRun:
    """A run that a query reads.

    Attributes
    ----------
    name : str
        The value of the column ``run``, if a query reads several runs.
    index : RunIndex
    view : RunView
    tables : mapping of str to callable
        Functions that make the tables of rows in memory, by names in lower case; only those that the query
        names are made.
    """

    name: str
    index: RunIndex
    view: RunView
    tables: Mapping[str, Maker]


def run_query(runs: Sequence[QueriedRun], text: str, limits: SqlLimits) -> pd.DataFrame:
    """Return the rows of one SELECT statement over a run, or over several; another process runs it.

    Each table of several runs has the column ``run`` in front, and the columns of all of them.

    Parameters
    ----------
    runs : sequence of QueriedRun
    text : str
    limits : SqlLimits

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    tables = runs[0].tables
    with sql_process(limits) as process:
        statement = process.parse(text, tables)
        views: list[tuple[str, str, Relation]] = []
        for name in tables:
            if name in statement.tables:
                made = [run.tables[name](statement.reads) for run in runs]
                views += _views(f"create view {quoted(name)} as", name, made, runs)
        for name, read in _READERS.items():
            if statement.steps[name]:
                made = [_between(read(run, statement, limits), statement) for run in runs]
                views += _views(f"create macro {name}(first, last := null) as table", name, made, runs)
        size = sum(_bytes(values) for *_, relation in views for values in relation.arrays.values())
        if len(runs) > 1 and size > MAX_COLUMNS:
            raise QueryError(
                f"the columns that the query names have {size_text(size)} in these {len(runs)} runs; at most "
                f"{size_text(MAX_COLUMNS)} are prepared: name fewer columns or runs"
            )
        return process.rows(views)


def _bytes(values: Any) -> int:
    return int(values.codes.nbytes if isinstance(values, pd.Categorical) else values.nbytes)


def _views(
    head: str, name: str, made: Sequence[Relation], runs: Sequence[QueriedRun]
) -> list[tuple[str, str, Relation]]:
    """Return what makes one table of the relations of all runs; the last statement makes the table."""
    if len(made) == 1:
        source = f"{_HIDDEN}{name}"
        return [(source, f"{head} {made[0].select(source)}", made[0])]
    sources = [f"{_HIDDEN}{name}_{at}" for at in range(len(made))]
    parts = [
        f"select {_text(run.name)} as run, * from ({relation.select(source)})"
        for run, relation, source in zip(runs, made, sources, strict=True)
    ]
    whole = f"{head} {' union all by name '.join(parts)}"
    # Statements run in order: the last one makes the table, when the rows of all runs are registered.
    return [
        (
            source,
            whole if source == sources[-1] else f"create view {quoted(f'{source}_ready')} as select 1",
            relation,
        )
        for source, relation in zip(sources, made, strict=True)
    ]


def _text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + clean_text(value).replace("'", "''") + "'"


def _tokens(run: QueriedRun, statement: Statement, limits: SqlLimits) -> pd.DataFrame:
    """Return the tokens of the steps that the query names."""
    return step_tokens(run.index, run.view, statement.steps[TOKENS], statement.reads, limits.seconds)


def _texts(run: QueriedRun, statement: Statement, _limits: SqlLimits) -> pd.DataFrame:
    """Return the texts of the steps that the query names."""
    return step_texts(run.view, run.index, statement.steps[TEXTS])


def _turns(run: QueriedRun, statement: Statement, limits: SqlLimits) -> pd.DataFrame:
    """Return the turns of the steps that the query names."""
    return step_turns(run.index, run.view, statement.steps[TURNS], limits.seconds)


_READERS = {TOKENS: _tokens, TEXTS: _texts, TURNS: _turns}


def _between(found: pd.DataFrame, statement: Statement) -> Relation:
    """Return a frame as a relation, of which each call has the rows of its own steps."""
    arrays = {name: found[name].to_numpy() for name in found}
    made = relation_of(arrays, {}, lambda name: name == "step" or statement.reads(name))
    made.where = f"{made.columns['step']} between first and coalesce(last, first)"
    return made


def relation_of(columns: Mapping[str, Any], types: Mapping[str, str], reads: Reads) -> Relation:
    """Return columns as a relation; only the first one and those that the query reads have an array.

    Parameters
    ----------
    columns : mapping
        Values by name; None for a column whose inputs were not logged.
    types : mapping
        Types of columns as in `rlpanel.queries.table.TableColumn`.
    reads : callable
    """
    made = Relation()
    size = max((len(values) for values in columns.values() if values is not None), default=0)
    for at, (name, shown) in enumerate(zip(columns, distinct_names(map(str, columns)), strict=True)):
        values = _array(columns[name], types.get(name, ""), size)
        is_text = values.dtype == object
        if at and not reads(shown):
            made.columns[shown] = unread("varchar" if is_text else "double")
        elif is_text:
            codes, texts = pd.factorize(values)
            made.columns[shown] = made.add_texts(codes.astype(np.int32), [str(text) for text in texts])
        else:
            cast = _CASTS.get(types.get(name, "")) if values.dtype.kind == "f" else None
            source = made.add(values)
            made.columns[shown] = f"cast({source} as {cast})" if cast else source
    if not made.arrays:  # without any text, nothing says how many rows there are
        made.add(np.zeros(size, bool))
    return made


def _array(values: Any, kind: str, size: int) -> np.ndarray:
    """Return a column as an array of numbers, or of texts; an empty text of a question is NULL.

    An empty token stays as it was logged: its column has no type.
    """
    if values is None:
        return np.full(size, None, object) if kind == "text" else np.full(size, np.nan)
    array = values if isinstance(values, np.ndarray) else None
    if array is None and kind in ("integer", "number", "boolean"):
        return np.array([np.nan if value is None else value for value in values], float)
    array = np.asarray(values, object if array is None else None)
    if array.dtype.kind in "biuf":
        return array
    if kind:
        array = np.array(
            [value or None if isinstance(value, str) else value for value in array.tolist()], object
        )
    return array.astype(object)
