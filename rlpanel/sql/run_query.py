"""Runs a query over the tables of a run; only the tables and columns that it reads are made."""

from __future__ import annotations

import time
from collections.abc import Callable

import pandas as pd

from rlpanel.findings.findings_cache import cached_findings
from rlpanel.findings.findings_table import finding_dict
from rlpanel.settings import FindingSettings
from rlpanel.sql.locked_database import connect, fetch_rows, lock
from rlpanel.sql.sample_relation import Relation, clean_text, sample_relation
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.statement import TOKENS, Statement, parse
from rlpanel.sql.step_tokens import step_tokens
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.group_frame import group_frame
from rlpanel.store.snapshot.run_view import RunView

#: Columns of the table of findings, with their SQL types.
FINDING_COLUMNS = {
    **dict.fromkeys(("rule", "severity", "title", "sentence", "advice"), "varchar"),
    **dict.fromkeys(("steps", "onset", "last"), "bigint"),
    "ongoing": "boolean",
    **dict.fromkeys(("worst", "rank"), "bigint"),
    **dict.fromkeys(("category", "metric", "filter", "uid"), "varchar"),
}
#: Columns that the table of groups has even if no step has a group.
_GROUP_COLUMNS = (
    *("step", "group", "samples", "reward_mean", "reward_std", "reward_min", "reward_max", "pass_rate"),
    *("diversity", "prompt_chars", "response_tokens_mean", "signal", "filter", "uid"),
)
#: Prefix of the tables that the views read; a query cannot name them.
_HIDDEN = "rlpanel_data_"


def run_query(index: RunIndex, view: RunView, text: str, limits: SqlLimits) -> pd.DataFrame:
    """Return the rows of one SELECT statement over a run.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    connection = connect(limits)
    try:
        statement = parse(connection, text)
        relations = _relations(index, view, statement, limits)
        for name, make in relations.items():
            relation = make()
            source = f"{_HIDDEN}{name}"
            connection.register(source, relation.frame())
            head = f"create macro {TOKENS}(first, last := null) as table" if name == TOKENS else ""
            connection.execute(f"{head or f'create view {name} as'} {relation.select(source)}")
        lock(connection)
        return fetch_rows(connection, text, limits)
    finally:
        connection.close()


def _relations(
    index: RunIndex, view: RunView, statement: Statement, limits: SqlLimits
) -> dict[str, Callable[[], Relation]]:
    """Return a function for each table that the query names, which makes the table."""
    makers: dict[str, Callable[[], Relation]] = {
        "samples": lambda: sample_relation(view, statement.reads),
        "steps": lambda: _relation(view.step_frame()),
        "groups": lambda: _relation(_groups(view)),
        "findings": lambda: _findings(index, view),
    }
    chosen = {name: make for name, make in makers.items() if name in statement.tables}
    if statement.steps:

        def tokens() -> Relation:
            made = _relation(step_tokens(index, view, statement.steps, statement.reads, limits.seconds))
            made.where = f"{made.columns['step']} between first and coalesce(last, first)"
            return made

        chosen[TOKENS] = tokens
    return chosen


def _relation(frame: pd.DataFrame) -> Relation:
    made = Relation()
    for name in frame.columns:
        values = frame[name]
        is_text = values.dtype == object or pd.api.types.is_string_dtype(values)
        column = made.add(values.to_numpy(object) if is_text else values.to_numpy())
        made.columns[str(name)] = f"cast({column} as varchar)" if is_text else column
    return made


def _groups(view: RunView) -> pd.DataFrame:
    """Return the groups of all steps; columns whose inputs were not logged are missing values."""
    found = group_frame(view)
    return found.reindex(columns=dict.fromkeys([*_GROUP_COLUMNS, *found.columns]))


def _findings(index: RunIndex, view: RunView) -> Relation:
    """Return the findings; a text that is empty because there is none is NULL."""
    thresholds = FindingSettings.from_environment()
    found = cached_findings(index, thresholds, time.time(), view.snapshot.split)
    rows = [finding_dict(finding) for finding in found]
    made = Relation()
    for name, kind in FINDING_COLUMNS.items():
        values = [row[name] for row in rows]
        if kind == "varchar":
            column = pd.Series([clean_text(value) if value else None for value in values], dtype=object)
        else:
            column = pd.Series(values, dtype="Int64" if kind == "bigint" else "bool")
        made.columns[name] = f"cast({made.add(column)} as {kind})"
    return made
