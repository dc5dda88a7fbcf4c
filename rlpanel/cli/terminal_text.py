"""Tables, samples and findings as text: as wide as a terminal with sparklines, or whole for pipes."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

import typer
from rich.cells import cell_len

from rlpanel.board_url import board_link
from rlpanel.cli.people_tables import colored_sample, runs_for_people
from rlpanel.cli.terminal_messages import printable, uses_color
from rlpanel.number_text import number
from rlpanel.queries.table import Table, TableColumn
from rlpanel.schema import TEXTS
from rlpanel.terminal_ui.cell_texts import sparkline as sparkline


def record_text(table: Table, width: int = 0) -> str:
    """Return a table of one sample as lines; control characters of the log are replaced by spaces.

    With a width, as on a terminal, texts are broken between words, the numbers take few lines, and those that
    follow from others are left out.
    """
    [row] = table.rows
    lines = [f"{table.about['run']} · {row['uid']} · step {row['step']}"]
    lines += [f"{name}: {row[name]}" for name in ("tag", "note") if row[name]]
    lines += _main_values(table, width) if width else _pairs(row["labels"]) + _pairs(row["numbers"])
    lines += [f"remark: {remark}" for remark in row["remarks"]]
    for name in TEXTS:
        if row[name] is not None:
            cut = f", cut from {row['chars'][name]:,} characters" if name in row["cut"] else ""
            lines += ["", f"── {name}{cut} ──", *row[name].splitlines()]
    parts = (part for line in lines for part in wrapped(printable(line).rstrip(), width))
    return "".join(f"{part}\n" for part in parts)


def _main_values(table: Table, width: int) -> list[str]:
    """Return labels and numbers one after the other, and how many numbers were left out."""
    [row] = table.rows
    brief = next(column.brief for column in table.columns if column.name == "numbers")
    numbers = row["numbers"]
    main = {name: value for name, value in numbers.items() if brief is None or brief(name, numbers, row)}
    values = [f"{name} {value}" for name, value in row["labels"].items()]
    values += [f"{name} {number(value)}" for name, value in main.items()]
    # A name and its value stay on one line.
    joined = " · ".join(value.replace(" ", "\N{NO-BREAK SPACE}") for value in values)
    lines = wrapped(f"  {joined}", width)
    left = len(numbers) - len(main)
    return [*lines, *([f"  {left} numbers that follow from these: --json"] if left else [])]


def _pairs(values: dict[str, Any]) -> list[str]:
    """Return names and values in aligned lines."""
    width = max(map(len, values), default=0)
    texts = {name: value if isinstance(value, str) else number(value) for name, value in values.items()}
    return [f"  {name:<{width}}  {text}" for name, text in texts.items()]


#: Severities, the worst first, with their nouns for one and for several.
_NOUNS = {"alarm": ("alarm", "alarms"), "warning": ("warning", "warnings"), "info": ("earlier", "earlier")}
_COLORS = {"alarm": typer.colors.RED, "warning": typer.colors.YELLOW}


def print_findings(table: Table) -> None:
    """Print a run's findings with evidence, advice and symptoms; labels of the log are printed harmlessly."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label may not exist in the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    print_lines(_lines(table))


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print lines, wrapped at words and coloured by their severity on a terminal; a command stays whole."""
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 0
    for line, severity in lines:
        color = _COLORS.get(severity) if uses_color() else None
        for part in [line] if severity == "command" else wrapped(line, width):
            typer.echo(typer.style(part, fg=color) if color else part)


def _from_here(path: str) -> str:
    """Return a path relative to the working directory if it lies in it."""
    folder = os.path.join(os.getcwd(), "")
    return path.removeprefix(folder) or path


def wrapped(line: str, width: int) -> list[str]:
    """Return the parts of a line that fit a width in cells, broken between words; 0 stands for any width."""
    from rich.console import Console
    from rich.text import Text

    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    if not width or cell_len(line) <= width or width - len(indent) < _MIN_TEXT:
        return [line]
    console = Console(file=StringIO(), width=width)
    return [f"{indent}{part.plain.rstrip()}" for part in Text(words).wrap(console, width - len(indent))]


def findings_text(table: Table) -> str:
    """Return the same text without colours."""
    return "".join(f"{line}\n" for line, _ in _lines(table))


def summary(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of findings by severity, such as ``1 alarm, 2 warnings``."""
    counts = Counter(finding["severity"] for finding in findings)
    parts = [f"{counts[each]:,} {nouns[counts[each] != 1]}" for each, nouns in _NOUNS.items() if counts[each]]
    return ", ".join(parts) or "no findings"


def finding_lines(table: Table, finding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a finding, each with the severity that colours it, or ``command``."""
    lines = [(printable(f"{finding['severity'].upper()}  {finding['title']}"), finding["severity"])]
    lines += [(printable(f"  {text}"), "") for text in details(finding)]
    lines += [(printable(f"  $ {command}"), "command") for command in next_commands(table, finding)]
    return [*lines, (f"  {link_of(table, finding)}", "command")]


def link_of(table: Table, finding: Mapping[str, Any]) -> str:
    """Return the board's address of a finding: its worst step, its filter and its example."""
    return board_link(
        os.path.basename(table.about["path"]),
        step=finding["worst"],
        sample=finding["uid"] or "",
        filter=finding["filter"] or "",
        sort=finding["sort"] or "",
        split="" if table.about["split"] == "train" else table.about["split"],
    )


def details(finding: Mapping[str, Any]) -> list[str]:
    """Return a finding's sentence, evidence, advice and symptoms, one line each."""
    advice = [f"Check next: {finding['advice']}"] if finding["advice"] else []
    symptoms = [f"Also seen: {symptom['sentence']}" for symptom in finding["symptoms"]]
    return [finding["sentence"], *finding["evidence"], *advice, *symptoms]


def _lines(table: Table) -> list[tuple[str, str]]:
    """Return the lines, each with the severity that colours it."""
    steps = table.about["steps"]
    head = (
        f"{table.about['run']}: {summary(table.rows)} in {steps:,} complete step{'s' if steps != 1 else ''}"
    )
    lines = [(printable(head), "")]
    for finding in table.rows:
        lines += [("", ""), *finding_lines(table, finding)]
    return lines


def next_commands(table: Table, finding: Mapping[str, Any]) -> list[str]:
    """Return the commands that print the finding's samples and its example."""
    run, split = _from_here(table.about["path"]), table.about["split"]
    of_split = [] if split in ("", "train") else ["--split", split]
    commands = []
    if finding["filter"] or finding["sort"]:
        options = [("--step", _affected(finding)), ("--filter", finding["filter"])]
        words = ["rlpanel", "samples", run, *of_split]
        words += [word for name, value in options if value not in (None, "") for word in (name, str(value))]
        words += [f"--sort={finding['sort']}"] if finding["sort"] else []
        commands.append([*words, "--text", "--limit", "5"])
    if finding["uid"]:
        commands.append(["rlpanel", "sample", run, finding["uid"], *of_split])
    return [shlex.join(words) for words in commands]


def _affected(finding: Mapping[str, Any]) -> str:
    """Return the worst step of a finding, else all steps that it is about; empty if it names none."""
    if finding["worst"] is not None:
        return str(finding["worst"])
    ends = finding["onset"], finding["last"]
    return "..".join("" if end is None else str(end) for end in ends) if ends != (None, None) else ""


#: Columns that only programs need, by table.
_HIDDEN = {
    "runs": ("path", "files"),
    "groups": ("uids", "filter"),
    "prompts": ("prompt_key", "filter"),
    "tokens": ("logged",),
    "contrast": ("uids_a", "uids_b", "size_a", "size_b", "error"),
    "compare": ("against_step", "step", "in_win_rate", "samples", "against_samples", "against_uid"),
    "search": ("rank", "at"),
    "reward_pays": ("uids", "link", "error", "prompts"),
    "reward_parts": ("correlations",),
    "learned": ("error",),
    "changed_tokens": ("logged",),
    "trend": ("error_by_prompts", "error_by_steps"),
    "samples": ("rank",),
    "update": ("uid",),
    "what_if": ("mass", "approximated", "formula", "source"),
    "sample_tokens": ("logged",),
}
#: Tables that are printed in another form than a grid.
_FORMS: dict[str, Callable[[Table], str]] = {"sample": record_text, "findings": findings_text}
#: Most characters of a text in a block of `samples --text`; `sample` prints all of them.
_BLOCK = 1200
#: Fewest characters of a column of texts before columns are left out of a narrow terminal.
_MIN_TEXT = 12


def plain_text(table: Table, width: int = 0) -> str:
    """Return a table with aligned columns, without colours, and with every cell in full.

    Samples with their texts are blocks, whose lines are broken at ``width`` characters unless it is 0.
    """
    if table.name in _FORMS:
        return _FORMS[table.name](table)
    if _has_texts(table):
        return _blocks(table, width)
    columns = _shown(table)
    cells = [[printable(column.name) for column in columns]]
    cells += [[_cell(row[column.name], column) for column in columns] for row in table.rows]
    widths = [max(cell_len(line[at]) for line in cells) for at in range(len(columns))]
    lines = [
        "  ".join(
            _aligned(text, width, column) for text, width, column in zip(line, widths, columns, strict=True)
        )
        for line in cells
    ]
    return "".join(f"{line.rstrip()}\n" for line in [*_headline(table), *lines])


def terminal_text(table: Table, width: int, *, color: bool = True, sort: str = "") -> str:
    """Return a table for a terminal: cut to its width, with sparklines above the steps.

    Parameters
    ----------
    table : Table
    width : int
        Number of characters in a line.
    color : bool
        Use bold and dim text.
    sort : str
        Column that the rows are sorted by, which is not left out.
    """
    if table.name == "sample":
        return record_text(table, width)
    if table.name in _FORMS or _has_texts(table):
        return plain_text(table, width)
    if table.name == "sample_tokens" and color and (colored := colored_sample(table, width)):
        return colored
    if table.name == "runs":
        table = runs_for_people(table)
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    output = StringIO()
    console = Console(
        file=output, width=width, color_system="standard" if color else None, force_terminal=color,
        legacy_windows=False, highlight=False, emoji=False, markup=False,
    )  # fmt: skip
    for line in [*_headline(table), *_trends(table)]:
        console.print(Text(line))
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    widths = _widths(table, width, sort)
    columns = [column for column in _shown(table, sort) if column.name in widths]
    for column in columns:
        grid.add_column(
            Text(printable(column.name)), justify="right" if _is_number(column) else "left", no_wrap=True,
            overflow="ellipsis", width=widths[column.name],
        )  # fmt: skip
    for row in table.rows:
        grid.add_row(*(Text(_cell(row[column.name], column)) for column in columns))
    if columns:
        console.print(grid)
    left_out = [column.name for column in _shown(table) if column not in columns]
    if left_out:
        console.print(Text(printable(f"not shown in this width: {', '.join(left_out)}")), style="dim")
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def _has_texts(table: Table) -> bool:
    return table.name == "samples" and any(column.name in TEXTS for column in table.columns)


def _blocks(table: Table, width: int) -> str:
    """Return samples one below the other: a line of numbers, then each text under its name."""
    lines = _headline(table)[:1]
    numbers = [column for column in _shown(table) if column.name not in (*TEXTS, "cut", "uid", "step")]
    for row in table.rows:
        shown = [(column.name, _cell(row[column.name], column)) for column in numbers]
        facts = [f"{name} {text}" for name, text in shown if row[name] not in (None, "", [])]
        lines += ["", f"── {row['uid']} · step {row['step']}", *wrapped(f"  {' · '.join(facts)}", width)]
        for name in TEXTS:
            text = row.get(name)
            if text is None:
                continue
            most = _BLOCK if width else len(text)  # nothing is cut in a pipe
            rest = f" … ({len(text) - most:,} more characters)" if len(text) > most else ""
            lines.append(f"  {name}:")
            for line in f"{text[:most]}{rest}".splitlines() or [""]:
                lines += wrapped(f"    {line}", width)
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def _widths(table: Table, width: int, sort: str = "") -> dict[str, int]:
    """Return the width of each column that fits, the first ones; texts share what numbers leave."""
    longest: dict[str, int] = {}
    widths: dict[str, int] = {}
    for column in _shown(table, sort):
        cells = [_cell(row[column.name], column) for row in table.rows]
        longest[column.name] = max(map(cell_len, [column.name, *cells]))
        short = column.type == "text" and column.name != "uid"
        needs = min(longest[column.name], _MIN_TEXT) if short else longest[column.name]
        if column.name == "run":  # its end tells runs apart
            needs = min(longest[column.name], max(_MIN_TEXT, width * 2 // 5))
        if sum(widths.values()) + 2 * len(widths) + needs <= width or not widths:
            widths[column.name] = min(needs, width)
    free = width - sum(widths.values()) - 2 * (len(widths) - 1)
    for name, current in widths.items():
        more = max(min(longest[name] - current, free), 0)
        widths[name] += more
        free -= more
    return widths


def _is_number(column: TableColumn) -> bool:
    return column.type in ("integer", "number")


def _shown(table: Table, sort: str = "") -> list[TableColumn]:
    """Return the columns for a person: the one sorted by and texts come early, and no column is empty."""
    hidden = _HIDDEN.get(table.name, ())
    texts = [column for column in table.columns if column in table.spec.optional]
    place, rest = table.columns[:2], table.columns[2:]
    early = [*(column for column in rest if column.name == sort), *texts]
    ordered = [*place, *early, *(column for column in rest if column not in early)]
    return [
        column
        for column in ordered
        if column.name not in hidden
        and (not table.rows or any(row[column.name] not in (None, "", [], {}) for row in table.rows))
    ]


#: Facts of a table that are its answer in words, and those that are sentences on what its numbers leave open.
_ANSWERS = ("sentence", "advice", "removal")
_SAID = ("remarks", "caveats", "unknown", "notes")
_UNSAID = ("trend", "path", "left_out", "unread")


def _headline(table: Table) -> list[str]:
    """Return the facts about the table in one line, a line for each sentence, and an empty line."""
    facts = []
    for name, value in table.about.items():
        if value in (None, "") or isinstance(value, list) or name in (*_ANSWERS, *_UNSAID):
            continue
        if isinstance(value, dict) and value.get("of") == 0:  # a share of nothing
            continue
        facts.append(f"{name.replace('_', ' ')} {_fact(value)}")
    count = "no rows" if not table.rows else ""
    remarks = [remark for name in _SAID for remark in table.about.get(name) or () if isinstance(remark, str)]
    answers: list[str] = []
    for text in (str(table.about.get(name) or "") for name in _ANSWERS):
        if text and text.lower() not in "".join(answers).lower():  # a sentence may end with the advice
            answers.append(text)
    head = " · ".join(filter(None, [table.name, *facts, count]))
    return [*map(printable, (head, *answers, *remarks)), ""]


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{name} {number(part) if part is not None else '–'}" for name, part in value.items()]
        return f"({', '.join(parts)})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, (int, float)) else str(value)


def _trends(table: Table) -> list[str]:
    """Return one line for each column with a trend: its name, bars, and the first and the last value."""
    trends: dict[str, Sequence[float | None]] = table.about.get("trend") or {}
    name_width = max(map(len, trends), default=0)
    lines = []
    for name, values in trends.items():
        finite = [value for value in values if value is not None]
        if len(finite) > 1:
            ends = f"{number(finite[0])} → {number(finite[-1])}"
            lines.append(printable(f"{name:<{name_width}}  {sparkline(values)}  {ends}"))
    return [*lines, ""] if lines else []


def _cell(value: Any, column: TableColumn) -> str:
    """Return a value in one line."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.type == "numbers":
        return sparkline(value)
    if isinstance(value, list):
        return printable(", ".join(map(str, value)))
    if isinstance(value, dict):
        return printable(", ".join(f"{name}: {each}" for name, each in value.items()))
    if isinstance(value, int) and column.name in ("step", "onset", "last", "worst", "position", "line"):
        return str(value)
    if isinstance(value, (int, float)):
        return number(value)
    return printable(" ".join(str(value).split()) if column.name != "token" else repr(value)[1:-1])


def _aligned(text: str, width: int, column: TableColumn) -> str:
    padding = " " * (width - cell_len(text))
    return f"{padding}{text}" if _is_number(column) else f"{text}{padding}"
