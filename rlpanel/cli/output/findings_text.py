"""Findings as plain text for a terminal."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from rlpanel.cli.output.terminal_messages import printable, uses_color

if TYPE_CHECKING:
    from rlpanel.queries.table import Table

#: Severities, the worst first, with their nouns for one and for several.
_NOUNS = {"alarm": ("alarm", "alarms"), "warning": ("warning", "warnings"), "info": ("earlier", "earlier")}
_COLORS = {"alarm": typer.colors.RED, "warning": typer.colors.YELLOW}


def print_findings(table: Table) -> None:
    """Print a run's findings with evidence, advice and symptoms; labels of the log are printed harmlessly."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label may not exist in the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    for line, severity in _lines(table):
        color = _COLORS.get(severity) if uses_color() else None
        typer.echo(typer.style(line, fg=color) if color else line)


def findings_text(table: Table) -> str:
    """Return the same text without colours."""
    return "".join(f"{line}\n" for line, _ in _lines(table))


def summary(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of findings by severity, such as ``1 alarm, 2 warnings``."""
    counts = Counter(finding["severity"] for finding in findings)
    parts = [f"{counts[each]:,} {nouns[counts[each] != 1]}" for each, nouns in _NOUNS.items() if counts[each]]
    return ", ".join(parts) or "no findings"


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
        lines += [
            ("", ""),
            (printable(f"{finding['severity'].upper()}  {finding['title']}"), finding["severity"]),
        ]
        lines += [(printable(f"  {text}"), "") for text in details(finding)]
    return lines
