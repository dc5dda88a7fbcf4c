"""The commands ``findings | check | contrast | compare``: what is wrong, and what is different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlpanel.cli import completion
from rlpanel.cli.exit_codes import FOUND, INCOMPLETE
from rlpanel.cli.options import (
    FailLevel,
    FailOn,
    FollowLinks,
    Jobs,
    Json,
    Map,
    RunFolder,
    Scheduler,
    Tokenizer,
)
from rlpanel.cli.reader_settings import say_unread, set_reader_environment
from rlpanel.cli.shared_options import Limit, Offset, none_if_zero
from rlpanel.cli.table_command import run_command

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.tables.table import Table

#: Severities for which `check` exits with 1.
_FAILING: dict[FailOn, Sequence[str]] = {
    FailOn.ALARM: ("alarm",),
    FailOn.WARNING: ("alarm", "warning"),
    FailOn.NEVER: (),
}
_At = Annotated[str, typer.Option(help="Samples that represent the run: newest, best, or a step.")]


@run_command
def findings(run: Run) -> Table:
    """Print what the rules find in the complete steps of a run; unlike `check`, it does not fail."""
    from rlpanel.tables.finding_rows import findings as findings_table

    return findings_table(run)


def check(
    run: RunFolder,
    as_json: Json = False,
    fail_on: FailLevel = FailOn.ALARM,
    split: Annotated[
        str, typer.Option(help="Split, for runs that log evaluations as well.", show_default="train")
    ] = "",
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Read a run once and print what the rules find in its complete steps, for scripts and CI.

    The exit code is 1 if a finding is at least as severe as --fail-on, 2 after an error, and 3 if there is no
    such finding but a file of the run was not read, or a rule failed; otherwise it is 0.
    """
    set_reader_environment(keys, tokenizer, follow_links)
    from rlpanel.api.open_run import open_run
    from rlpanel.cli.output.findings_text import print_findings
    from rlpanel.cli.output.table_output import json_text
    from rlpanel.findings.check import FAILED
    from rlpanel.tables.finding_rows import findings as findings_table

    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        table = findings_table(opened.split(split) if split else opened)
        unread = opened.snapshot.unread
    if as_json:
        about: dict[str, Any] = {name: table.about[name] for name in ("run", "path", "split", "steps")}
        document = about | {"findings": table.rows, "unread": table.about["unread"]}
        typer.echo(json_text(document, ascii_only=True))
    else:
        print_findings(table)
    say_unread(unread)
    # A rule that failed may have hidden anything, but it found nothing.
    failed = [finding for finding in table.rows if finding["rule"] == FAILED]
    if any(finding["severity"] in _FAILING[fail_on] for finding in table.rows if finding not in failed):
        raise typer.Exit(FOUND)
    if unread or failed:
        raise typer.Exit(INCOMPLETE)


@run_command
def contrast(
    run: Run,
    a: Annotated[
        str, typer.Argument(help="Samples: a step, steps (10..20), or a filter (reward < 0).", metavar="A")
    ],
    b: Annotated[
        str | None,
        typer.Argument(help="Samples to compare with.", metavar="B", show_default="the rest of the run"),
    ] = None,
    texts: Annotated[int, typer.Option(min=0, help="Maximum number of responses to read per set.")] = 4000,
    limit: Limit = 20,
    offset: Offset = 0,
) -> Table:
    """Print what is different between two sets of samples: numbers, labels, words and openings."""
    from rlpanel.tables.contrast_rows import contrast as contrast_table
    from rlpanel.tables.contrast_rows import selection_of

    other = None if b is None else selection_of(b)
    return contrast_table(run, selection_of(a), other, texts=texts, limit=none_if_zero(limit), offset=offset)


@run_command
def compare(
    run: Run,
    against: Annotated[
        str,
        typer.Argument(help="Folder of the other run.", metavar="AGAINST", autocompletion=completion.runs),
    ],
    at: _At = "newest",
    against_at: _At = "newest",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Table:
    """Print the prompts that two runs have in common, the largest loss of the first run first."""
    from rlpanel.api.open_run import open_run
    from rlpanel.tables.compare_rows import compare as compare_table

    with open_run(against, follow=False) as other:
        return compare_table(
            run, other, at=at, against_at=against_at, limit=none_if_zero(limit), offset=offset
        )


COMMANDS = {
    findings: "rlpanel findings runs/exp1",
    check: "rlpanel check runs/exp1 --fail-on never",
    contrast: "rlpanel contrast runs/exp1 50..60 1..10 --limit 5",
    compare: "rlpanel compare runs/exp1 runs/exp2 --limit 5",
}
