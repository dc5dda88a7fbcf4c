"""The commands ``sample | tag | note | check | tail``, which are not made of questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlpanel.cli import completion
from rlpanel.cli.reader_settings import say_left_out, say_unread, set_reader_environment
from rlpanel.cli.shared_options import (
    Chars,
    DefaultStep,
    FailLevel,
    FailOn,
    FollowLinks,
    Jobs,
    Json,
    Map,
    RunFolder,
    Scheduler,
    SplitOption,
    Tokenizer,
    TokenLimit,
    Uid,
    names,
    none_if_zero,
)
from rlpanel.cli.table_command import run_command
from rlpanel.cli.tail_command import tail
from rlpanel.cli.terminal_messages import FOUND, INCOMPLETE

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.queries.table import Table


@run_command
def sample(
    run: Run,
    uid: Uid,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print the response's tokens with their metrics instead.")
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            help="Token metrics, separated by commas, with --tokens.",
            show_default="all",
            autocompletion=completion.token_metrics,
        ),
    ] = "",
    limit: TokenLimit = 0,
    offset: Annotated[int, typer.Option(min=0, help="Number of tokens, or of characters, to skip.")] = 0,
    chars: Chars = 0,
) -> Table:
    """Print one sample with its texts and numbers, or its tokens."""
    from rlpanel.queries.sample import sample, sample_tokens

    if tokens or metric:
        return sample_tokens(run.data, uid, metrics=names(metric), limit=none_if_zero(limit), offset=offset)
    return sample(run.data, uid, chars=none_if_zero(chars), start=offset)


@run_command
def tag(
    run: Run,
    uid: Uid,
    tag: Annotated[str, typer.Argument(help="The tag; an empty text removes it.", metavar="TAG")],
) -> Table:
    """Tag a sample, as on the board; every viewer of the run sees it."""
    from rlpanel.queries.reports.notes import annotate

    return annotate(run.data, uid, tag=tag)


@run_command
def note(
    run: Run,
    uid: Annotated[
        str, typer.Argument(help="The sample's uid, or step:412 for the whole step.", metavar="UID")
    ],
    note: Annotated[str, typer.Argument(help="The note; an empty text removes it.", metavar="TEXT")],
) -> Table:
    """Write a note for a sample or a step, as on the board; every viewer of the run sees it."""
    from rlpanel.queries.reports.notes import annotate

    return annotate(run.data, uid, note=note)


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
    split: SplitOption = "",
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Read a run once and print what the rules find in its complete steps, for scripts and CI.

    The exit code is 1 if a finding is at least as severe as --fail-on, 2 after an error, and 3 if there is no
    such finding but a file of the run was not read, or a rule failed; otherwise it is 0.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    from rlpanel.api.open_run import open_run
    from rlpanel.cli.table_output import json_text
    from rlpanel.cli.terminal_text import print_findings
    from rlpanel.findings.check import FAILED
    from rlpanel.queries.findings import findings
    from rlpanel.store.snapshot.left_out import left_out

    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        checked = opened.split(split) if split else opened
        table = findings(checked.data)
        unread, left = opened.snapshot.unread, left_out(checked.snapshot)
    if as_json:
        about: dict[str, Any] = {name: table.about[name] for name in ("run", "path", "split", "steps")}
        document = about | {
            "findings": table.rows,
            **{name: table.about[name] for name in ("unread", "left_out")},
        }
        typer.echo(json_text(document, ascii_only=True))
    else:
        print_findings(table)
    say_left_out(left)
    say_unread(unread)
    # A rule that failed may have hidden anything, but it found nothing.
    failed = [finding for finding in table.rows if finding["rule"] == FAILED]
    if any(finding["severity"] in _FAILING[fail_on] for finding in table.rows if finding not in failed):
        raise typer.Exit(FOUND)
    if unread or failed:
        raise typer.Exit(INCOMPLETE)


#: Each command and an example of its use, in the order of the help.
COMMANDS = {
    sample: "rlpanel sample runs/exp1 rollout_data_rank_0.jsonl:0 --tokens --metric kl_k3 --limit 10",
    tag: "rlpanel tag runs/exp1 rollout_data_rank_0.jsonl:0 odd",
    note: 'rlpanel note runs/exp1 rollout_data_rank_0.jsonl:0 "ends in the middle of a word"',
    check: "rlpanel check runs/exp1 --fail-on never",
    tail: "rlpanel tail runs/exp1 --columns reward_mean,kl_k3_mean",
}
