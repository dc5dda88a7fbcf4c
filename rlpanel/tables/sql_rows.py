"""The table that an SQL query over a run returns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from rlpanel.api.run import Run
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.tables.table import RUN, ColumnType, Table, TableColumn, TableSpec, plain

SQL = TableSpec(
    "sql",
    "The rows that an SQL query over a run returns.",
    (),
    "All columns are those of the query.",
    about=(RUN, TableColumn("query", "text", "The query.")),
)


def sql(
    run: Run,
    query: str,
    *,
    rows: int = SqlLimits.rows,
    seconds: float = SqlLimits.seconds,
    size: int = SqlLimits.size,
) -> Table:
    """Return the rows of one SQL ``SELECT`` statement; see `Run.sql`.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    found = run.sql(query, rows=rows, seconds=seconds, size=size)
    columns = [TableColumn(str(name), _type(found[name]), "Column of the query.") for name in found.columns]
    return SQL.table(_rows(found), others=columns, about={"run": run.name, "query": query})


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows; lists and structures become JSON, since a cell is a number or a text."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [dict(zip(frame.columns, map(_cell, row), strict=True)) for row in rows]


def _cell(value: object) -> object:
    nested = isinstance(value, (list, dict, np.ndarray))
    return json.dumps(plain(value), ensure_ascii=False) if nested else value


def _type(values: pd.Series) -> ColumnType:
    if pd.api.types.is_bool_dtype(values):
        return "boolean"
    if pd.api.types.is_integer_dtype(values):
        return "integer"
    return "number" if pd.api.types.is_float_dtype(values) else "text"
