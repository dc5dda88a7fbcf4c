"""Runs a query over the tables of a run; only the tables and columns that it reads are made."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from rlpanel.findings.findings_cache import cached_findings
from rlpanel.findings.findings_table import finding_dict
from rlpanel.settings import FindingSettings
from rlpanel.sql.sample_relation import Relation, distinct_names, sample_relation, unread
from rlpanel.sql.sql_limits import SqlLimits
from rlpanel.sql.sql_process import sql_process
from rlpanel.sql.statement import TOKENS, Statement
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
    """Return the rows of one SELECT statement over a run; another process runs it.

    Raises
    ------
    QueryError
        If the query is not valid, not allowed or exceeds a limit, or duckdb is not installed.
    """
    with sql_process(limits) as process:
        statement = process.parse(text)
        views = []
        for name, make in _relations(index, view, statement, limits).items():
            relation, source = make(), f"{_HIDDEN}{name}"
            head = f"create macro {TOKENS}(first, last := null) as table" if name == TOKENS else ""
            sql = f"{head or f'create view {name} as'} {relation.select(source)}"
            views.append((source, sql, relation))
        return process.rows(views)


def _relations(
    index: RunIndex, view: RunView, statement: Statement, limits: SqlLimits
) -> dict[str, Callable[[], Relation]]:
    """Return a function for each table that the query names, which makes the table."""
    makers: dict[str, Callable[[], Relation]] = {
        "samples": lambda: sample_relation(view, statement.reads),
        "steps": lambda: _relation(view.step_frame(), statement.reads),
        "groups": lambda: _relation(_groups(view), statement.reads),
        "findings": lambda: _findings(index, view),
    }
    chosen = {name: make for name, make in makers.items() if name in statement.tables}
    if statement.steps:

        def tokens() -> Relation:
            found = step_tokens(index, view, statement.steps, statement.reads, limits.seconds)
            made = _relation(found, lambda name: name == "step" or statement.reads(name))
            made.where = f"{made.columns['step']} between first and coalesce(last, first)"
            return made

        chosen[TOKENS] = tokens
    return chosen


def _relation(frame: pd.DataFrame, reads: Callable[[str], bool]) -> Relation:
    """Return a frame as a relation; only its first column and those that the query reads are there."""
    made = Relation()
    names = [str(name) for name in frame.columns]
    for at, shown in enumerate(distinct_names(names)):
        values = frame.iloc[:, at]
        is_text = values.dtype == object or pd.api.types.is_string_dtype(values)
        if at and not reads(shown):
            made.columns[shown] = unread("varchar" if is_text else "double")
        elif is_text:
            made.columns[shown] = made.add_texts(*_coded(values))
        else:
            made.columns[shown] = made.add(values.to_numpy())
    return made


def _coded(values: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Return texts as codes, -1 for a missing one, and the different texts."""
    codes, texts = pd.factorize(values.to_numpy(object))
    return codes.astype(np.int32), [str(text) for text in texts]


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
            made.columns[name] = made.add_texts(*_coded(pd.Series([v or None for v in values], dtype=object)))
        else:
            numbers = np.array([np.nan if value is None else value for value in values], float)
            made.columns[name] = f"cast({made.add(numbers)} as {kind})"
    return made
