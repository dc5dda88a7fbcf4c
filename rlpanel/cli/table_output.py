"""Prints a table: for a person, or as JSON, JSON lines or CSV with the same data for programs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import typer

from rlpanel.cli.terminal_messages import harmless_lines, say, uses_color
from rlpanel.errors import OutputError

if TYPE_CHECKING:
    from rlpanel.queries.table import Table


#: Characters that a terminal obeys, that are invisible or that reorder text; JSON can write all as escapes.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def one_format(*, as_json: bool, as_jsonl: bool, as_csv: bool) -> str:
    """Return the format that was asked for: ``json``, ``jsonl``, ``csv``, or ``text`` without one."""
    asked = [name for name, flag in (("json", as_json), ("jsonl", as_jsonl), ("csv", as_csv)) if flag]
    if len(asked) > 1:
        raise typer.BadParameter(f"give only one of --{' and --'.join(asked)}")
    return asked[0] if asked else "text"


def print_table(table: Table, form: str, *, raw: bool = False, sort: str = "") -> None:
    """Print a table to the standard output, and say on stderr if it has more rows than were printed.

    Parameters
    ----------
    table : Table
    form : str
        ``text``, ``json``, ``jsonl`` or ``csv``.
    raw : bool
        CSV: do not escape texts that spreadsheets take for formulas.
    sort : str
        Column that the rows are sorted by; a narrow terminal leaves out others first.
    """
    if form == "text" and table.name == "findings":
        from rlpanel.cli.terminal_text import print_findings

        print_findings(table)
    else:
        _write("".join(text_of(table, form, raw=raw, sort=sort)))
    if table.more > 0:
        shown = f"{table.offset + 1:,} to {table.offset + len(table.rows):,} of {_total_text(table)}"
        hint = "; --last 0 prints all" if table.name == "steps" else "; --limit 0 prints all"
        say(f"rows {shown}{hint}", typer.colors.BRIGHT_BLACK)
    elif table.name == "steps" and table.offset:
        say(f"the last {len(table.rows):,} of {table.total:,} steps; --last 0 prints all", "bright_black")
    if table.name == "runs" and table.about.get("unread"):
        say(table.about["unread"], typer.colors.YELLOW)


def _total_text(table: Table) -> str:
    """Return how many rows there are; a search that stopped early knows only those found so far."""
    searched, samples = table.about.get("searched"), table.about.get("samples")
    if table.name != "search" or searched == samples:
        return f"{table.total:,}"
    return (
        f"at least {table.total:,}, found in the newest {searched:,} of {samples:,} samples; --all counts all"
    )


def text_of(table: Table, form: str, *, raw: bool = False, sort: str = "") -> list[str]:
    """Return the text of a table in a format, in pieces."""
    if form == "json":
        return [json_text(table.document()), "\n"]
    if form == "jsonl":
        return [f"{json_text(row)}\n" for row in table.rows]
    if form == "csv":
        return [_csv_text(table, raw=raw)]
    from rlpanel.cli.terminal_text import plain_text, terminal_text

    if sys.stdout.isatty():
        width = shutil.get_terminal_size((100, 24)).columns
        return [terminal_text(table, width, color=uses_color(), sort=sort)]
    return [plain_text(table)]


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Return a value as JSON in one line, with the characters that a terminal obeys as escapes."""
    return _UNSAFE.sub(
        lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=ascii_only)
    )


def _csv_text(table: Table, *, raw: bool) -> str:
    """Return a table as CSV; lists and objects are JSON in their cells, and what is missing is empty."""
    from rlpanel.store.query.csv_text import defuse

    escape = (lambda cell: cell) if raw else defuse
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    names = [column.name for column in table.columns]
    writer.writerow([escape(name) for name in names])
    writer.writerows([[escape(_csv_cell(row[name])) for name in names] for row in table.rows])
    text = buffer.getvalue()
    return harmless_lines(text) if sys.stdout.isatty() else text


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return json_text(value) if isinstance(value, (list, dict)) else value


def write_file_part(data: bytes) -> None:
    """Write a part of a text file to the standard output: exactly, but to a terminal without its controls."""
    if sys.stdout.isatty():
        _write(harmless_lines(data.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(data)


def _write(text: str) -> None:
    """Write to the standard output; a lone surrogate of a log, or what the encoding lacks, is replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        sys.stdout.write(safe)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try again at exit
        raise OutputError(f"the output cannot be written: {error.strerror}") from error
