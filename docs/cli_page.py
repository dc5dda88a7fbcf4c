"""Generated parts of the page on the command line: its commands, and the columns of all tables."""

from __future__ import annotations

from rlpanel.cli.commands import COMMANDS
from rlpanel.metrics.engine.metric import STATISTICS, step_names
from rlpanel.queries.catalogue import QUESTIONS
from rlpanel.queries.run_columns import number_column
from rlpanel.queries.sql import FIRST_OF_SAMPLES, FIRST_OF_STEPS
from rlpanel.queries.steps import scalar_column
from rlpanel.queries.table import TableColumn, TableSpec
from rlpanel.store.snapshot.run_view import step_name


def commands_table() -> str:
    """Return the table of all commands, with an example of each."""
    head = ["| command | what it does | example |", "|---|---|---|"]
    rows = [
        f"| `{name}` | {_first_line(command.__doc__)} | `{example}` |"
        for name, (command, example, _) in COMMANDS.items()
    ]
    return "\n".join([*head, *rows])


def columns_of_tables() -> str:
    """Return each table with its columns and its facts."""
    return "\n".join(line for asked in QUESTIONS.values() for line in _table(asked.spec)).rstrip()


def first_columns() -> str:
    """Return the columns of samples and steps that are looked at first, with unit and meaning."""
    lines = ["| table | column | unit | meaning |", "|---|---|---|---|"]
    lines += [_meaning("samples", number_column(name)) for name in FIRST_OF_SAMPLES]
    statistics = [(column, statistic) for column in FIRST_OF_SAMPLES for statistic in ("mean", *STATISTICS)]
    curves = {
        step_name(column, statistic): column if statistic == "mean" else f"{column}:{statistic}"
        for column, statistic in statistics
    } | {name: name for name in step_names()}
    for name in FIRST_OF_STEPS:
        is_mean = curves.get(name) in FIRST_OF_SAMPLES
        column = number_column(name, curves[name]) if name in curves else scalar_column(name)
        lines.append(_meaning("steps", column, "Mean over the samples: " if is_mean else ""))
    return "\n".join(lines)


def _meaning(table: str, column: TableColumn, before: str = "") -> str:
    meaning = _cell(column.description.partition(": ")[2] or column.description).split(". ")[0].rstrip(".")
    return f"| {table} | `{column.name}` | {column.unit or '–'} | {before}{meaning} |"


def _table(spec: TableSpec) -> list[str]:
    lines = [f"### {spec.name}", "", f"{spec.description} {spec.others}".strip(), ""]
    lines += ["| column | type | meaning |", "|---|---|---|"]
    lines += [_row(column) for column in (*spec.columns, *spec.optional)]
    facts = ", ".join(f"`{fact.name}`" for fact in spec.about)
    return [*lines, "", f"Facts in `about`: {facts}.", ""]


def _row(column: TableColumn) -> str:
    unit = f" In {column.unit}." if column.unit else ""
    return f"| `{column.name}` | {column.type} | {_cell(column.description)}{unit} |"


def _first_line(text: str | None) -> str:
    return _cell((text or "").strip().split("\n")[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
