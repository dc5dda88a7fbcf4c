"""Findings as plain text for a terminal."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Sequence

import typer

from rlpanel.cli.serving import printable
from rlpanel.findings.engine.finding import SEVERITIES, Finding

_COLORS = {"alarm": typer.colors.RED, "warning": typer.colors.YELLOW}


def print_findings(name: str, findings: Sequence[Finding], steps: int) -> None:
    """Print a run's findings with evidence, advice and symptoms; labels of the log are printed harmlessly.

    Parameters
    ----------
    name : str
        Name of the run.
    findings : sequence of Finding
    steps : int
        Number of complete steps.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label may not exist in the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    _print(f"{name}: {summary(findings)} in {steps:,} complete step{'s' if steps != 1 else ''}")
    for finding in findings:
        typer.echo()
        _print(f"{finding.severity.upper()}  {finding.title}", _COLORS.get(finding.severity))
        for text in details(finding):
            _print(f"  {text}")


def summary(findings: Sequence[Finding]) -> str:
    """Return the number of findings by severity, such as ``1 alarm, 2 warnings``."""
    counts = Counter(finding.severity for finding in findings)
    nouns = {"alarm": ("alarm", "alarms"), "warning": ("warning", "warnings"), "info": ("earlier", "earlier")}
    parts = [f"{counts[each]:,} {nouns[each][counts[each] != 1]}" for each in SEVERITIES if counts[each]]
    return ", ".join(parts) or "no findings"


def details(finding: Finding) -> list[str]:
    """Return a finding's sentence, evidence, advice and symptoms, one line each."""
    advice = [f"Check next: {finding.advice}"] if finding.advice else []
    symptoms = [f"Also seen: {symptom.sentence}" for symptom in finding.symptoms]
    return [finding.sentence, *finding.evidence, *advice, *symptoms]


def _print(line: str, color: str | None = None) -> None:
    typer.secho(printable(line), fg=color)
