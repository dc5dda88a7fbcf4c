"""Generated parts of the page on the command line: its commands, and the columns of all tables."""

from __future__ import annotations

from rlpanel.cli.commands import COMMANDS
from rlpanel.queries.catalogue import QUESTIONS
from rlpanel.queries.column_list import FIRST_OF_SAMPLES, FIRST_OF_STEPS
from rlpanel.queries.run_columns import number_column
from rlpanel.queries.table import TableColumn, TableSpec


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
    for table, names in (("samples", FIRST_OF_SAMPLES), ("steps", FIRST_OF_STEPS)):
        for name in names:
            column = number_column(name)
            meaning = _cell(column.description.partition(": ")[2] or column.description)
            lines.append(
                f"| {table} | `{name}` | {column.unit or '–'} | {meaning.split('. ')[0].rstrip('.')} |"
            )
    return "\n".join(lines)


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
