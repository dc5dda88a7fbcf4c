"""The table that an SQL query over a run returns."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rlpanel.queries.question import Question, question
from rlpanel.queries.question_options import QueryBytes, QueryRows, QuerySeconds, QueryText
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, ColumnType, Table, TableColumn, plain
from rlpanel.sql.sql_limits import SqlLimits

if TYPE_CHECKING:
    import pandas as pd

    from rlpanel.sql.run_query import Columns


@question(
    description="The rows that an SQL query over a run returns.",
    columns=(),
    others="All columns are those of the query.",
    about=(RUN, TableColumn("query", "text", "The query.")),
    example="rlpanel sql runs/exp1 "
    '"select step, avg(reward) from samples group by step order by step limit 5"',
    agents="Run one SQL SELECT over samples, steps, groups, findings, tokens(FIRST, LAST); see docs/sql.",
)
def sql(
    run: RunData,
    query: QueryText,
    *,
    rows: QueryRows = SqlLimits.rows,
    seconds: QuerySeconds = SqlLimits.seconds,
    size: QueryBytes = SqlLimits.size,
) -> Table:
    """Return the rows of an SQL query over a run; it needs the extra sql (duckdb).

    Parameters
    ----------
    run : RunData
    query : str
        One ``SELECT`` statement over the tables of docs/sql.md.
    rows, seconds, size : int or float
        Limits of the result and of the time, as in `Run.sql`.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    found = sql_frame(run, query, SqlLimits(rows=rows, seconds=seconds, size=size))
    columns = [TableColumn(str(name), _type(found[name]), "Column of the query.") for name in found.columns]
    return sql.table(_rows(found), others=columns, about={"run": run.name, "query": query})


def sql_frame(run: RunData, query: str, limits: SqlLimits) -> pd.DataFrame:
    """Return the rows of a query as a data frame; its tables are the samples, their tokens, and questions."""
    from rlpanel.sql.run_query import run_query

    return run_query(run.index, run.view, query, limits, tables_of(run))


def tables_of(run: RunData) -> dict[str, Callable[[], Columns]]:
    """Return a function for each table of SQL that is a question: its columns, and their types."""
    from rlpanel.queries.catalogue import QUESTIONS

    def table_of(asked: Question[...]) -> Columns:
        table = asked(run, **asked.relation_options)
        return table.relation(), {column.name: column.type for column in table.columns}

    def steps() -> Columns:
        frame = run.view.step_frame()
        return {name: frame[name].to_numpy() for name in frame}, {}

    found: dict[str, Callable[[], Columns]] = {
        name: partial(table_of, asked) for name, asked in QUESTIONS.items() if asked.is_relation
    }
    return {**found, "steps": steps}


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows; lists and structures become JSON, since a cell is a number or a text."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [dict(zip(frame.columns, map(_cell, row), strict=True)) for row in rows]


def _cell(value: object) -> object:
    import numpy as np

    nested = isinstance(value, (list, dict, np.ndarray))
    return json.dumps(plain(value), ensure_ascii=False) if nested else value


def _type(values: pd.Series) -> ColumnType:
    import pandas as pd

    if pd.api.types.is_bool_dtype(values):
        return "boolean"
    if pd.api.types.is_integer_dtype(values):
        return "integer"
    return "number" if pd.api.types.is_float_dtype(values) else "text"
