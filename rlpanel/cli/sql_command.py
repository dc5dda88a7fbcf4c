"""The command ``sql``: one SQL query over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli.table_command import run_command

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.tables.table import Table


@run_command
def sql(
    run: Run,
    query: Annotated[
        str,
        typer.Argument(
            help="One SELECT over samples, steps, groups, findings, tokens(FIRST, LAST).", metavar="QUERY"
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="Most rows of the result; more are an error.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time after which the query is cancelled.")] = 30.0,
) -> Table:
    """Print the rows of an SQL query over a run; it needs the extra sql (duckdb)."""
    from rlpanel.tables.sql_rows import sql as sql_table

    return sql_table(run, query, rows=rows, seconds=seconds)


COMMANDS = {
    sql: 'rlpanel sql runs/exp1 "select step, avg(reward) from samples group by step order by step limit 5"'
}
