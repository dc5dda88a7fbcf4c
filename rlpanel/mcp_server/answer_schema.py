"""The JSON schemas that a client reads of each tool: of its answers, and of its arguments without ballast.

They are short, since a client reads them for each tool: ``schema://TABLE`` describes the columns of a table.
"""

from __future__ import annotations

from typing import Any

#: What every answer of a question has; a row has as many values as there are columns.
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "total": {"type": "integer"},
        "next": {"type": "string"},
        "untrusted": {
            "type": "object",
            "properties": {"columns": {"type": "array"}, "rows": {"type": "array"}},
            "required": ["columns", "rows"],
        },
    },
    "required": ["untrusted"],
}
#: The answers of the tools that give one text.
OWN_SCHEMAS: dict[str, dict[str, Any]] = {
    tool: {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    for tool, key in (("link", "link"), ("show", "shown"))
}
#: Keywords that only the server's own check needs; a value beyond them is refused with a sentence.
_OWN = ("title", "maxLength", "maxItems")
_NULL = {"type": "null"}


def brief_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments without titles, bounds of lengths, and empty defaults.

    An argument that may be null is one that may be left out, which the schema says by ``required``.

    Parameters
    ----------
    schema : dict
        As pydantic makes it.
    """
    properties = {name: _property(value) for name, value in schema.get("properties", {}).items()}
    rest = {key: value for key, value in schema.items() if key not in (*_OWN, "properties")}
    return {**rest, "properties": properties}


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in _OWN}
    if not kept.get("default", True):
        del kept["default"]
    if "anyOf" in kept:
        kinds = [_property(kind) for kind in kept.pop("anyOf") if kind != _NULL]
        kept |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return kept
