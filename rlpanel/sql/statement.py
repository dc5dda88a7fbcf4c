"""Parses a query with duckdb's own parser and refuses all but one SELECT over the run's tables.

This is the second of two bounds. The first is the connection, which has no access to files or settings
(`rlpanel.sql.sql_worker`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlpanel.errors import QueryError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The table functions of tokens, texts and turns, each of a step or of several.
TOKENS, TEXTS, TURNS = "tokens", "texts", "turns"
OF_STEPS = (TOKENS, TEXTS, TURNS)
#: Table functions that a query may call. Others read files or settings, or take addresses in memory.
_TABLE_FUNCTIONS = frozenset({*OF_STEPS, "unnest", "range", "generate_series"})
#: Functions that read settings, which hold paths of this machine.
_FORBIDDEN = frozenset({"current_setting"})


@dataclass(frozen=True)
class Statement:
    """What a query reads.

    Attributes
    ----------
    text : str
    tables : frozenset of str
        The tables of the run that it names.
    names : frozenset of str, or None
        All names in the query, in lower case; None if it may read every column, as ``*`` does.
    steps : mapping of str to tuple of (int, int)
        First and last step of each call of ``tokens``, ``texts`` and ``turns``, by the function's name.
    """

    text: str
    tables: frozenset[str]
    names: frozenset[str] | None
    steps: Mapping[str, tuple[tuple[int, int], ...]]

    def reads(self, column: str) -> bool:
        """Return True if the query may read a column of this name."""
        return self.names is None or column.lower() in self.names


def parse(connection: DuckDBPyConnection, text: str, tables: Collection[str]) -> Statement:
    """Parse a query without running it.

    Parameters
    ----------
    connection : DuckDBPyConnection
    text : str
    tables : collection of str
        The tables that a query can name, in lower case.

    Raises
    ------
    QueryError
        If it is not valid, is not a single SELECT, or reads anything but the run's tables.
    """
    [[serialized]] = connection.execute("select json_serialize_sql(?)", [text]).fetchall()
    parsed = json.loads(serialized)
    if parsed["error"]:
        raise _syntax_error(parsed, text)
    statements = parsed["statements"]
    if len(statements) != 1:
        raise QueryError(f"a query is one SELECT statement; this text has {len(statements)}")
    nodes = list(_nodes(statements[0]))
    _check_functions(nodes, tables)
    steps = {name: tuple(_steps_of(name, nodes)) for name in OF_STEPS}
    return Statement(text, _tables(nodes, tables), _names(nodes, tables), steps)


def readable(tables: Collection[str]) -> str:
    """Return the tables that a query can name, and the table functions, as a text."""
    functions = [f"{name}(FIRST, LAST)" for name in OF_STEPS]
    return f"{', '.join([*tables, *functions[:-1]])} and {functions[-1]}"


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects of the syntax tree."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)


def _syntax_error(parsed: Mapping[str, Any], text: str) -> QueryError:
    message = str(parsed.get("error_message", "not valid"))
    if parsed.get("error_type") != "parser":
        return QueryError("a query is one SELECT statement; it cannot change data or settings")
    if 'near "group"' in message or "group" in text.lower():
        message += '; the column "group" needs double quotes, because group is a word of SQL'
    return QueryError(message)


def _check_functions(nodes: list[Mapping[str, Any]], tables: Collection[str]) -> None:
    """Refuse table functions and functions that have nothing to do with the run."""
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION":
            name = _function_name(node["function"])
            if name not in _TABLE_FUNCTIONS:
                raise QueryError(f"a query cannot call {name}: it reads only {readable(tables)}")
        elif node.get("class") == "FUNCTION" and _function_name(node) in _FORBIDDEN:
            raise QueryError(f"a query cannot call {_function_name(node)}")


def _tables(nodes: list[Mapping[str, Any]], tables: Collection[str]) -> frozenset[str]:
    """Return the tables of the run that the query names; others must be defined by WITH."""
    defined = {
        str(entry["key"]).lower()
        for node in nodes
        for entry in (node.get("cte_map") or {}).get("map", ())
        if isinstance(entry, dict)
    }
    defined |= {str(node["cte_name"]).lower() for node in nodes if node.get("cte_name")}
    named = set()
    for node in nodes:
        if node.get("type") == "SHOW_REF" and not node.get("query"):
            raise QueryError(f"a query reads only {readable(tables)}")
        if node.get("type") == "BASE_TABLE":
            path = [str(part) for part in (node.get("qualified_name") or {}).get("path", ())]
            path = path or [part for part in (node["schema_name"], node["table_name"]) if part]
            table = path[-1].lower()
            if len(path) > 1 or table not in {*tables, *defined}:
                raise QueryError(f"no table {'.'.join(path)[:120]!r}; a query reads only {readable(tables)}")
            named.add(table)
    return frozenset(named & {*tables})


def _names(nodes: list[Mapping[str, Any]], tables: Collection[str]) -> frozenset[str] | None:
    """Return all names of columns in the query; None if it may read every column."""
    names: set[str] = set()
    sources: set[str] = {*tables, *OF_STEPS}
    for node in nodes:
        if node.get("class") in {"STAR", "POSITIONAL_REFERENCE"} or node.get("type") == "SHOW_REF":
            return None
        if node.get("ref_type") == "NATURAL" or node.get("column_name_alias"):
            return None
        names |= {str(name).lower() for name in node.get("using_columns") or ()}
        names |= {str(name).lower() for name in node.get("column_names") or ()}
        if node.get("type") in {"BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY"} and node.get("alias"):
            sources.add(str(node["alias"]).lower())
    whole_row = any(
        len(node["column_names"]) == 1 and str(node["column_names"][0]).lower() in sources
        for node in nodes
        if node.get("column_names")
    )
    return None if whole_row else frozenset(names)


def _steps_of(name: str, nodes: list[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield the range of steps of each call of a function."""
    for node in nodes:
        if node.get("type") == "TABLE_FUNCTION" and _function_name(node["function"]) == name:
            given = [argument["expression"] for argument in node["function"]["arguments"]]
            steps = [_whole_number(expression) for expression in given]
            numbers = [step for step in steps if step is not None]
            if len(numbers) != len(given) or len(numbers) not in {1, 2}:
                raise QueryError(f"write {name}(STEP) or {name}(FIRST, LAST), with whole numbers as steps")
            yield numbers[0], numbers[-1]


def _whole_number(expression: Mapping[str, Any]) -> int | None:
    literal = expression.get("literal") or {}
    try:
        return int(literal["text"]) if literal.get("kind") == "INTEGER" else None
    except (KeyError, ValueError):
        return None


def _function_name(node: Mapping[str, Any]) -> str:
    return str(node.get("function_name", "")).lower()
