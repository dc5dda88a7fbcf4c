"""The command ``report``: evaluates the claims of a run's reports, with an exit code for CI."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli.shared_options import (
    DefaultStep,
    FollowLinks,
    Jobs,
    Json,
    Map,
    RunFolder,
    say_left_out,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.terminal_messages import FOUND, INCOMPLETE, printable, say, uses_color

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.investigations.claim_marks import EvaluationProgress, MarkedEntry

_COLORS = {
    "holds": typer.colors.GREEN,
    "changed": typer.colors.YELLOW,
    "broken": typer.colors.RED,
    "not evaluated": typer.colors.YELLOW,
}
#: Seconds between two updates of the progress line.
_PAUSE = 0.2


class FailingMark(StrEnum):
    """Mark of a claim for which `report` exits with 1: at least as bad."""

    CHANGED = "changed"
    BROKEN = "broken"
    NEVER = "never"


def report(
    run: RunFolder,
    name: Annotated[str, typer.Option(help="Only the report of this name.", show_default="all")] = "",
    html: Annotated[
        Path | None, typer.Option(help="Write the reports with their evidence to this HTML file.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="Folder below which other runs are found.", show_default="that of the run"),
    ] = None,
    board: Annotated[
        str, typer.Option(help="Address of the board that the file links to.", show_default=False)
    ] = "",
    fail_on: Annotated[
        FailingMark, typer.Option(help="Mark of a claim that makes the exit code 1.")
    ] = FailingMark.BROKEN,
    as_json: Json = False,
    jobs: Jobs = None,
    keys: Map = None,
    default_step: DefaultStep = None,
    follow_links: FollowLinks = False,
) -> None:
    """Evaluate the claims of a run's reports: each holds, has changed, or is broken.

    The exit code is 1 if a claim is broken (with --fail-on changed also if one has changed), 2 after an
    error, and 3 if a claim was not evaluated, or a line or file was not read; otherwise it is 0.
    """
    set_reader_environment(keys, None, follow_links, default_step)
    from rlpanel.api.open_run import open_run
    from rlpanel.cli.table_output import json_text
    from rlpanel.investigations.report_file import ReportFile
    from rlpanel.queries.reports.claim_report import report_table
    from rlpanel.store.snapshot.left_out import left_out

    with open_run(run, follow=False, jobs=jobs) as opened:
        found = _evaluated(opened, name, root)
        stored = ReportFile(opened.path)
        stored.entries()
        problems = stored.problems
        if html is not None:
            _write_html(html, opened, found, problems, board)
        if as_json:
            typer.echo(json_text(report_table(opened.data, found).document(), ascii_only=True))
        else:
            _print(opened.name, found)
        left, unread = left_out(opened.snapshot), opened.snapshot.unread
    for problem in problems:
        say(problem, typer.colors.YELLOW)
    say_left_out(left)
    say_unread(unread)
    failing = {
        FailingMark.BROKEN: ("broken",),
        FailingMark.CHANGED: ("broken", "changed"),
        FailingMark.NEVER: (),
    }
    if any(found.counts.get(mark) for mark in failing[fail_on]):
        raise typer.Exit(FOUND)
    if unread or problems or found.counts.get("not evaluated"):
        raise typer.Exit(INCOMPLETE)


def _evaluated(run: Run, name: str, root: Path | None) -> EvaluationProgress:
    """Evaluate the claims with a progress line on a terminal."""
    from rlpanel.queries.reports.claim_report import evaluated

    shows, written, width = sys.stderr.isatty(), 0.0, 0
    for progress in evaluated(run.data, name, root.resolve() if root is not None else None):
        if shows and time.monotonic() - written > _PAUSE and not progress.is_last:
            line = f"report: {progress.done:,} of {progress.total:,} claims"
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            written, width = time.monotonic(), len(line)
    if width:
        sys.stderr.write(f"\r{' ' * width}\r")
    return progress


def _write_html(
    path: Path, run: Run, found: EvaluationProgress, problems: tuple[str, ...], board: str
) -> None:
    from rlpanel.board_url import USUAL_ADDRESS
    from rlpanel.errors import OutputError
    from rlpanel.number_text import utc_text
    from rlpanel.panels.investigations.report_html import report_html
    from rlpanel.safe_files import replace_file

    text = report_html(run.name, found, problems, utc_text(time.time()) or "", board or USUAL_ADDRESS)
    try:
        replace_file(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error


def _print(name: str, found: EvaluationProgress) -> None:
    """Print the counts, then one paragraph for each claim; passages are left out."""
    counts = ", ".join(f"{count:,} {mark}" for mark, count in found.counts.items() if count)
    typer.echo(printable(f"{name}: {counts or 'no claims'}"))
    report = ""
    for each in found.entries:
        if not each.mark:
            continue
        if each.entry.report != report:
            report = each.entry.report
            typer.echo(f"\n{printable(report)}")
        for number, line in enumerate(_lines(each)):
            text = printable(line)
            color = _COLORS[each.mark] if number == 0 and uses_color() else None
            typer.echo(typer.style(text, fg=color) if color else text)


def _lines(each: MarkedEntry) -> list[str]:
    from rlpanel.investigations.claim_marks import about_text

    lines = [f"  {each.mark:<13} {about_text(each.entry)}  ({each.entry.id})"]
    if each.mark == "holds":
        return lines
    values = f"claimed {each.expected}" + (f", now {each.found}" if each.found else "")
    return [*lines, f"    {values}", f"    {each.reason}"]


#: The command and an example of its use.
COMMANDS = {report: "rlpanel report runs/exp1 --html report.html"}
