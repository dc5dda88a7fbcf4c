"""Runs a query over the tables of a run; only the tables and columns that it reads are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rlpanel.sql.sample_relation import Relation, distinct_names, quoted, unread
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.sql_process import sql_process
from rlpanel.sql.statement import TOKENS, Statement
from rlpanel.sql.step_tokens import step_tokens
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Says whether the query may read a column; makes a table for a query that reads these columns.
Reads: TypeAlias = Callable[[str], bool]
Maker: TypeAlias = Callable[[Reads], Relation]
#: Types of columns of whole numbers and truth values, which may be missing.
_CASTS = {"integer": "bigint", "boolean": "boolean"}
#: Prefix of the tables that the views read; a query cannot name them.
_HIDDEN = "rlpanel_data_"


def run_query(
    index: RunIndex, view: RunView, text: str, limits: SqlLimits, tables: Mapping[str, Maker]
) -> pd.DataFrame:
    """Return the rows of one SELECT statement over a run; another process runs it.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    text : str
    limits : SqlLimits
    tables : mapping of str to callable
        Functions that make the tables besides ``tokens``, by names in lower case; only those that the query
        names are made.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    with sql_process(limits) as process:
        statement = process.parse(text, tables)
        views = []
        for name in tables:
            if name in statement.tables:
                relation, source = tables[name](statement.reads), f"{_HIDDEN}{name}"
                views.append((source, f"create view {quoted(name)} as {relation.select(source)}", relation))
        if statement.steps:
            relation, source = _tokens(index, view, statement, limits), f"{_HIDDEN}{TOKENS}"
            head = f"create macro {TOKENS}(first, last := null) as table"
            views.append((source, f"{head} {relation.select(source)}", relation))
        return process.rows(views)


def _tokens(index: RunIndex, view: RunView, statement: Statement, limits: SqlLimits) -> Relation:
    """Return the tokens of the steps that the query names."""
    found = step_tokens(index, view, statement.steps, statement.reads, limits.seconds)
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
