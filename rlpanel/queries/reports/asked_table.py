"""Asks a question by its name, and reduces its table to a digest that is equal for equal rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.queries.question import Parameter, Question
from rlpanel.queries.question_options import MAX_ROWS
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import Table

#: Significant digits of a number that count; sums in another order differ in the last ones.
DIGITS = 9
#: Most characters of an excerpt of a table.
_EXCERPT = 1_500


def askable() -> dict[str, Question[...]]:
    """Return the questions that a claim may ask: those of one run, but the one about claims."""
    from rlpanel.queries.catalogue import QUESTIONS

    return {
        name: each
        for name, each in QUESTIONS.items()
        if each.has_tool
        and not each.of_root
        and name != "report"
        and not any(parameter.type is RunData or parameter.is_runs for parameter in each.parameters)
    }


def asked_table(run: RunData, name: str, options: Mapping[str, Any]) -> Table:
    """Return the answer to a question, with the defaults and limits of a tool.

    Raises
    ------
    SettingError
        If a claim cannot ask it, or an option is not valid.
    RLPanelError
        As the question.
    """
    from rlpanel.queries.run_columns import similar

    known = askable()
    if name not in known:
        raise SettingError(f"a claim cannot ask {name[:80]!r}{similar(name, known)}")
    question = known[name]
    names = [parameter.name for parameter in question.parameters]
    for option in options:
        if option not in names:
            raise SettingError(
                f"the question {name!r} has no option {str(option)[:80]!r}{similar(str(option), names)}"
            )
    given = question.arguments(question.checked(options), attrgetter("tool_default"), _value)
    try:
        table = question(run, **given)
        _ = table.rows  # a column may be computed only now
    except RLPanelError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingError(f"the options of {name} have no valid values") from error
    return table


def _value(parameter: Parameter, given: Any) -> Any:
    option = parameter.option
    if option.read is not None:
        return option.read(str(given)) if given not in ("", None) else None
    if option.most_rows is not None:
        is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
        return min(given, MAX_ROWS) if is_count else MAX_ROWS
    if not _fits(parameter.type, given):
        raise SettingError(f"{parameter.name} has no valid value")
    is_number = isinstance(given, int | float)
    if is_number and not (option.min is None or given >= option.min):
        raise SettingError(f"{parameter.name} is at least {option.min}")
    if is_number and not (option.max is None or given <= option.max):
        raise SettingError(f"{parameter.name} is at most {option.max}")
    return given


def _fits(kind: Any, given: Any) -> bool:
    """Return whether a value of JSON has the type of a parameter."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(_fits(part, given) for part in get_args(kind))
    if origin is Literal:
        return given in get_args(kind)
    if origin is Sequence or kind is Sequence:
        return isinstance(given, list) and all(isinstance(item, str) for item in given)
    if kind in (None, type(None)):
        return given is None
    if kind in (int, float):
        return not isinstance(given, bool) and isinstance(given, int | kind)
    return kind not in (bool, str) or isinstance(given, kind)


def digest(table: Table) -> str:
    """Return the digest of a table's columns and rows: 16 hexadecimal digits of SHA-256."""
    columns = [column.name for column in table.columns]
    rows = [[_rounded(row[name]) for name in columns] for row in table.rows]
    text = json.dumps([columns, rows], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def excerpt(table: Table) -> str:
    """Return the first rows as JSON, one a line, as far as they fit."""
    lines: list[str] = []
    size = 0
    for row in table.rows:
        filled = {name: _rounded(value) for name, value in row.items() if value not in (None, "", [], {})}
        line = json.dumps(filled, ensure_ascii=False)
        size += len(line) + 1
        if size > _EXCERPT:
            lines.append(f"{line[: max(0, _EXCERPT - size + len(line))]}…" if not lines else "…")
            break
        lines.append(line)
    return "\n".join(lines)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
