"""The command ``check``: reads a run and fails if the rules find something severe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

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
    Split,
    Tokenizer,
)
from rlpanel.cli.reader_settings import say_unread, set_reader_environment

#: Severities for which `check` exits with 1.
_FAILING: dict[FailOn, Sequence[str]] = {
    FailOn.ALARM: ("alarm",),
    FailOn.WARNING: ("alarm", "warning"),
    FailOn.NEVER: (),
}


def check(
    run: RunFolder,
    as_json: Json = False,
    fail_on: FailLevel = FailOn.ALARM,
    split: Split = "",
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
    from rlpanel.queries.findings import findings

    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        table = findings(opened.split(split).data if split else opened.data)
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


COMMANDS = {check: "rlpanel check runs/exp1 --fail-on never"}
