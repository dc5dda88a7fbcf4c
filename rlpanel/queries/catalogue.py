"""All questions by name, and the JSON schemas (draft 2020-12) of their tables.

Importing this module registers the questions, in the order in which they are listed. Schemas are generated
from the declarations of a table's columns.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.queries.question import QUESTIONS, Question
from rlpanel.queries.table import TableColumn, TableSpec

__all__ = ["QUESTIONS", "question_of"]

#: The modules of questions.
_MODULES = (
    *("runs", "steps", "samples", "sample", "groups", "prompt_list", "tokens", "findings", "explain"),
    *("drift", "events", "rollouts", "learning.update", "learning.rewards"),
    *("learning.token_courses", "learning.trends", "two_runs", "gate", "reports.claim_report"),
    *("rollout_outcomes", "sql"),
)
for _name in _MODULES:
    _module = import_module(f"rlpanel.queries.{_name}")
    # A module that was imported before this one is listed in its place here, not in that of its import.
    for _key in [key for key, each in QUESTIONS.items() if each.function.__module__ == _module.__name__]:
        QUESTIONS[_key] = QUESTIONS.pop(_key)


def question_of(name: str) -> Question[...]:
    """Return a question by its name.

    Raises
    ------
    SettingError
        If there is no such question.
    """
    name = name.replace("-", "_")  # commands have hyphens
    if name not in QUESTIONS:
        from rlpanel.queries.run_columns import similar

        raise SettingError(f"there is no table {name[:80]!r}{similar(name, QUESTIONS)}")
    return QUESTIONS[name]


DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TYPES: dict[str, dict[str, Any]] = {
    "integer": {"type": ["integer", "null"]},
    "number": {"type": ["number", "null"]},
    "text": {"type": ["string", "null"]},
    "boolean": {"type": ["boolean", "null"]},
    "texts": {"type": ["array", "null"], "items": {"type": "string"}},
    "numbers": {"type": ["array", "null"], "items": {"type": "number"}},
    "object": {"type": ["object", "null"]},
    "objects": {"type": ["array", "null"], "items": {"type": "object"}},
}
#: Values of columns that depend on the run or on a query.
_OTHER: dict[str, Any] = {"type": ["number", "string", "boolean", "null"]}


def row_schema(spec: TableSpec) -> dict[str, Any]:
    """Return the schema of one row, as ``--jsonl`` prints it."""
    return {
        "$schema": DIALECT,
        "title": f"a row of the table {spec.name}",
        "description": f"{spec.description} {spec.others}".strip(),
        **_object(spec.columns, spec.optional),
        "additionalProperties": _OTHER if spec.others else False,
    }


def document_schema(spec: TableSpec) -> dict[str, Any]:
    """Return the schema of a whole table, as ``--json`` prints it."""
    row = {key: value for key, value in row_schema(spec).items() if key != "$schema"}
    text = {"type": "string"}
    column = {
        "type": "object",
        "properties": {"name": text, "type": {"enum": list(_TYPES)}, "unit": text, "description": text},
        "required": ["name", "type", "unit", "description"],
        "additionalProperties": False,
    }
    count = {"type": "integer", "minimum": 0}
    properties = {
        "table": {"const": spec.name},
        "about": {**_object(spec.about), "additionalProperties": False},
        "total": {**count, "description": "Number of rows that exist."},
        "offset": {**count, "description": "Number of rows before the first one."},
        "columns": {"type": "array", "items": column},
        "rows": {"type": "array", "items": row},
    }
    return {
        "$schema": DIALECT,
        "title": f"the table {spec.name}",
        "description": spec.description,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _object(columns: tuple[TableColumn, ...], optional: tuple[TableColumn, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {column.name: _property(column) for column in (*columns, *optional)},
        "required": [column.name for column in columns],
    }


def _property(column: TableColumn) -> dict[str, Any]:
    unit = f" In {column.unit}." if column.unit else ""
    return {**_TYPES[column.type], "description": f"{column.description}{unit}"}
