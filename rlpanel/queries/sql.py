"""The columns of samples and steps with their meaning, and the table of an SQL query over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from rlpanel.queries.question import QUESTIONS, Question, question
from rlpanel.queries.question_options import MAX_ROWS, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import NESTED, RUN, ColumnType, Table, TableColumn, plain
from rlpanel.sql.sql_limits import SqlLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from rlpanel.sql.run_query import Maker, Reads
    from rlpanel.sql.sample_relation import Relation


# -- sql -----------------------------------------------------------------------------------------------
# The table that an SQL query over a run returns.


def relations() -> dict[str, Question[...]]:
    """Return the questions that are a table of SQL, by the table's name."""
    from rlpanel.queries import catalogue  # noqa: F401  (importing it registers them)

    return {name.lower(): asked for name, asked in QUESTIONS.items() if asked.is_relation}


def _readable() -> str:
    from rlpanel.sql.statement import readable

    return readable([*relations(), "all_samples"])


QueryText = Annotated[
    str,
    Option(
        lambda: f"One SELECT over {_readable()}.", "One SELECT statement; page by LIMIT, OFFSET.",
        chars=20_000, metavar="QUERY",
    ),
]  # fmt: skip
QueryRows = Annotated[
    int, Option("Most rows of the result; more are an error.", min=1, tool=False, tool_default=MAX_ROWS)
]
QuerySeconds = Annotated[float, Option("Time after which the query is cancelled.", min=0.1, tool=False)]
OtherRuns = Annotated[
    Sequence[RunData],
    Option(
        "Further runs with commas, folders or names beside RUN; each table gets a column run.",
        "Names of further runs; each table then has a column run.", chars=20, flag="--runs", default="",
    ),
]  # fmt: skip
#: Most characters of what a table without rows says.
MAX_REMARK = 400
#: Most bytes of the rows of a query, of which an answer of a tool holds a small part.
QueryBytes = Annotated[int, Option(command=False, tool=False, tool_default=8 << 20)]


@question(
    description="The rows that an SQL query over a run returns.",
    columns=(),
    others="All columns are those of the query.",
    about=(
        RUN,
        TableColumn("query", "text", "The query."),
        TableColumn("remarks", "texts", "Tables of the query that have no rows, and why."),
    ),
    example="rlpanel sql runs/exp1 "
    '"select step, avg(reward) from samples group by step order by step limit 5"',
    agents=lambda: f"Run one SQL SELECT over {_readable()}; see docs/sql.",
)
def sql(
    run: RunData,
    query: QueryText,
    *,
    rows: QueryRows = SqlLimits.rows,
    seconds: QuerySeconds = SqlLimits.seconds,
    size: QueryBytes = SqlLimits.size,
    runs: OtherRuns = (),
) -> Table:
    """Return the rows of an SQL query over a run, or over several; it needs the extra sql (duckdb).

    Parameters
    ----------
    run : RunData
    query : str
        One ``SELECT`` statement over the tables of docs/sql.md.
    rows, seconds, size : int or float
        Limits of the result and of the time, as in `Run.sql`.
    runs : sequence of RunData
        Further runs: each table has the rows of all, and a column ``run``.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    found = sql_frame(run, query, SqlLimits(rows=rows, seconds=seconds, size=size), runs)
    columns = [TableColumn(str(name), _type(found[name]), "Column of the query.") for name in found.columns]
    about = {"run": run.name, "query": query, "remarks": found.attrs["remarks"]}
    return sql.table(_rows(found), others=columns, about=about)


def sql_frame(run: RunData, query: str, limits: SqlLimits, others: Sequence[RunData] = ()) -> pd.DataFrame:
    """Return the rows of a query as a data frame; its tables are the samples, their tokens, and questions.

    With other runs, each table has the rows of all, and a column ``run``. Tables without rows are named in
    ``attrs["remarks"]``.
    """
    from rlpanel.sql.run_query import QueriedRun, run_query

    runs, remarks = [run, *others], list[str]()
    found = run_query(
        [
            QueriedRun(name, each.index, each.view, tables_of(each, remarks))
            for name, each in zip(_names(runs), runs, strict=True)
        ],
        query,
        limits,
    )
    found.attrs["remarks"] = remarks
    return found


def _names(runs: Sequence[RunData]) -> list[str]:
    """Return different names of runs: of two with one name, the second is ``name (2)``."""
    names: list[str] = []
    for run in runs:
        number, name = 2, run.name
        while name in names:
            name, number = f"{run.name} ({number})", number + 1
        names.append(name)
    return names


def tables_of(run: RunData, remarks: list[str]) -> dict[str, Maker]:
    """Return a function for each table of SQL that is a question, which makes it for a query.

    A table without rows is named in ``remarks``.
    """
    from rlpanel.sql.run_query import relation_of
    from rlpanel.sql.sample_relation import sample_relation

    def table_of(asked: Question[...], reads: Reads) -> Relation:
        table = asked(run, **asked.relation_options)
        types = {column.name: column.type for column in table.columns}
        columns = {
            name: [None if value is None else _cell(value) for value in values]
            if types.get(name) in NESTED and values is not None
            else values
            for name, values in table.relation().items()
        }
        if not any(values is not None and len(values) for values in columns.values()):
            remarks.append(_why_empty(table, run))
        return relation_of(columns, types, reads)

    found: dict[str, Maker] = {name: partial(table_of, asked) for name, asked in relations().items()}
    # The samples are not copied: the store's own arrays are the table.
    return {
        **found,
        "samples": partial(sample_relation, run.view),
        "all_samples": partial(sample_relation, run.view, everything=True),
    }


def _why_empty(table: Table, run: RunData) -> str:
    """Return a sentence on a table without rows: what the question says, and the command that says more."""
    name = table.name.replace("_", "-")
    said = " ".join(table.about.get("remarks") or ())[:MAX_REMARK]
    return " ".join(
        filter(None, [f"{run.name}: the table {table.name} has no rows.", said, f"See rlpanel {name} RUN."])
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the rows; lists and structures become JSON, since a cell is a number or a text."""
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [dict(zip(frame.columns, map(_cell, row), strict=True)) for row in rows]


def _cell(value: object) -> object:
    """Return a value of a list or structure as JSON."""
    import numpy as np

    nested = isinstance(value, (list, tuple, dict, np.ndarray))
    return json.dumps(plain(value), ensure_ascii=False) if nested else value


def _type(values: pd.Series) -> ColumnType:
    import pandas as pd

    if pd.api.types.is_bool_dtype(values):
        return "boolean"
    if pd.api.types.is_integer_dtype(values):
        return "integer"
    return "number" if pd.api.types.is_float_dtype(values) else "text"


# -- column list ---------------------------------------------------------------------------------------
# The columns of samples and steps with unit and meaning: those that matter, or all that the run has.


Every = Annotated[bool, Option("All columns; by default those that are looked at first.", flag="--all")]

#: Columns of samples and steps that are looked at first, if the run has them.
FIRST_OF_SAMPLES = (
    "group", "reward", "advantage", "response_tokens", "truncated", "kl_k3_mean", "surprisal_mean",
    "token_entropy_mean", "finish_reason", "status", "lang", "turns", "value_mean",
)  # fmt: skip
FIRST_OF_STEPS = (
    "reward_mean", "reward_std", "pass_at_1", "response_tokens_mean", "truncated_mean", "kl_k3_mean",
    "token_entropy_mean", "zero_variance_groups", "value_error", "loss", "grad_norm", "learning_rate",
)  # fmt: skip
_OF_ALL = (
    TableColumn("uid", "text", "The sample's identifier: file and byte offset."),
    TableColumn("step", "integer", "Policy update."),
    TableColumn("rank", "integer", "Process that wrote the sample."),
    TableColumn("line", "integer", "Line of the sample in its file, from 1."),
    TableColumn("prompt_key", "text", "Hash of the prompt, the same for equal prompts."),
    TableColumn("split", "text", "Split of the sample, such as train or eval."),
)


@question(
    name="columns",
    description="The columns of the tables samples and steps, with unit and meaning.",
    columns=(
        TableColumn("table", "text", "samples or steps."),
        TableColumn("column", "text", "Name of the column."),
        TableColumn("first", "boolean", "Whether it is one of those that are looked at first."),
        TableColumn("type", "text", "integer, number or text."),
        TableColumn("unit", "text", "Such as nats or tokens; empty if it has none."),
        TableColumn("meaning", "text", "One sentence, or the formula."),
    ),
    about=(RUN, TableColumn("all", "integer", "Number of all columns of both tables.")),
    relation=("table", "column", "first", "type", "unit", "meaning"),
    relation_options={"every": True},
    example="rlpanel columns runs/exp1",
    agents="List the columns of samples and steps that matter, with unit and meaning; every lists all.",
)
def column_list(run: RunData, *, every: Every = False) -> Table:
    """Return the columns of samples and steps with unit and meaning, those looked at first.

    Parameters
    ----------
    run : RunData
    every : bool
        All columns that the run has.
    """
    from rlpanel.queries.samples import sample_columns
    from rlpanel.queries.steps import steps

    of_samples = {column.name: column for column in _OF_ALL} | sample_columns(run.view)
    of_steps = {column.name: column for column in steps(run, every=True).columns if column.name != "complete"}
    rows = [
        *_column_rows("samples", of_samples, (*(column.name for column in _OF_ALL), *FIRST_OF_SAMPLES)),
        *_column_rows("steps", of_steps, ("step", "samples", *FIRST_OF_STEPS)),
    ]
    shown = [row for row in rows if every or row["first"]]
    return column_list.table(shown, about={"run": run.name, "all": len(rows)})


def _column_rows(
    table: str, columns: Mapping[str, TableColumn], first: Sequence[str]
) -> list[dict[str, object]]:
    """Return a row for each column, those that are looked at first in front."""
    order = [name for name in first if name in columns]
    names = [*order, *(name for name in columns if name not in order)]
    return [
        {
            "table": table,
            "column": name,
            "first": name in order,
            "type": columns[name].type,
            "unit": columns[name].unit,
            "meaning": columns[name].description,
        }
        for name in names
    ]
