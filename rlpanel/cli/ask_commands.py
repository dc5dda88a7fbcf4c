"""The commands ``sample | tag | note | check | tail``, which are not made of questions."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlpanel.cli import completion, shared_options
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
    say_left_out,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.table_command import run_command
from rlpanel.cli.table_output import json_text
from rlpanel.cli.terminal_messages import FOUND, INCOMPLETE, printable, say

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.queries.table import Table
    from rlpanel.store.snapshot.left_out import Omissions


# -- tail command --------------------------------------------------------------------------------------
# The command ``tail``: prints each step of a growing run in one line, when the step is complete.


#: Seconds between two looks at the run while it does not change: a last step is complete after some time.
_PATIENCE = 0.5
#: Lines after which the names of the columns are printed again.
_HEADER_EVERY = 20


def tail(
    run: shared_options.Run,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns, separated by commas.",
            show_default="those most used",
            autocompletion=completion.step_columns,
        ),
    ] = "",
    last: Annotated[int, typer.Option(min=0, help="Number of steps to print at the start.")] = 10,
    as_jsonl: shared_options.AsJsonl = False,
    split: shared_options.Split = "",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Follow a run and print one line per step when the step is complete, until Ctrl-C.

    A finding is printed when it is new; --jsonl prints steps only.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    from rlpanel.api.open_run import open_run

    with open_run(run) as opened:
        changed = threading.Event()
        opened.listen(lambda _: changed.set())
        printer = StepPrinter(opened.split(split) if split else opened, names(columns), as_jsonl=as_jsonl)
        try:
            printer.print_new(last=last)
            say_left_out(printer.left_out)
            while True:
                changed.wait(_PATIENCE)
                changed.clear()
                printer.print_new()
        except KeyboardInterrupt:
            say("", "")


class StepPrinter:
    """Prints the complete steps of a run, each once.

    Parameters
    ----------
    run : Run
    columns : sequence of str or None
        Columns of the table of steps; None for those most used.
    as_jsonl : bool
        Print each step as a JSON object.
    """

    def __init__(self, run: Run, columns: Sequence[str] | None, *, as_jsonl: bool) -> None:
        self._run, self._columns, self._as_jsonl = run, columns, as_jsonl
        self._printed: int | None = None
        self._announced: set[tuple[str, ...]] = set()
        self._hidden: list[str] = []
        self._names: list[str] = []
        self._lines = 0

    def print_new(self, last: int | None = None) -> None:
        """Print the complete steps after the newest one that was printed; ``last`` limits their number."""
        from rlpanel.queries.steps import steps
        from rlpanel.store.snapshot.snapshot import newest_complete_step

        newest = newest_complete_step(self._run.snapshot, time.time())
        if newest is None or (self._printed is not None and newest <= self._printed):
            return
        # Columns without values in the first steps appear later; those of the header stay.
        table = steps(self._run.data, columns=self._columns)
        rows = [
            row
            for row in table.rows
            if row["complete"] and (self._printed is None or row["step"] > self._printed)
        ]
        self._printed = newest
        for row in rows if last is None else rows[max(len(rows) - last, 0) :]:
            self._print(table, row)
        if not self._as_jsonl:
            self._print_findings()

    def _print_findings(self) -> None:
        """Print the findings that go on and were not printed before."""
        from rlpanel.cli.terminal_text import finding_lines, print_lines
        from rlpanel.queries.findings import findings

        table = findings(self._run.data)
        for finding in table.rows:
            key = tuple(str(finding[name]) for name in ("rule", "subject", "rank", "category", "severity"))
            if finding["severity"] == "info" or key in self._announced:
                continue
            self._announced.add(key)
            print_lines([("", ""), *finding_lines(table, finding), ("", "")])
            self._lines = 0  # the names of the columns follow

    @property
    def left_out(self) -> Omissions:
        """Counts of what the printed numbers leave out."""
        from rlpanel.store.snapshot.left_out import left_out

        return left_out(self._run.snapshot)

    def _print(self, table: Table, row: dict[str, object]) -> None:
        if self._as_jsonl:
            line = json_text(row)
        else:
            line = self._text(table, row)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _text(self, table: Table, row: dict[str, object]) -> str:
        from rlpanel.number_text import number

        shown = self._fitting([column.name for column in table.columns if column.name != "complete"])
        cells = [
            str(row[name]) if name == "step" else "–" if row[name] is None else number(float(str(row[name])))
            for name in shown
        ]
        line = "  ".join(f"{cell:>{max(len(name), 8)}}" for cell, name in zip(cells, shown, strict=True))
        header = "  ".join(f"{name:>8}" for name in map(printable, shown))
        with_header = shown != self._names or self._lines % _HEADER_EVERY == 0
        self._lines = 1 if shown != self._names else self._lines + 1
        self._names = shown
        return f"{header}\n{line}" if with_header else line

    def _fitting(self, names: list[str]) -> list[str]:
        """Return the first columns that fit into a terminal, and say once on stderr which do not."""
        if not sys.stdout.isatty():
            return names
        free, shown = shutil.get_terminal_size((100, 24)).columns, []
        for name in names:
            free -= max(len(name), 8) + (2 if shown else 0)
            if free < 0 and shown:
                break
            shown.append(name)
        hidden = names[len(shown) :]
        if hidden and hidden != self._hidden:
            say(f"not shown in this width: {', '.join(hidden)}; choose with --columns", "bright_black")
        self._hidden = hidden
        return shown


# -- ask commands --------------------------------------------------------------------------------------


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
    from rlpanel.queries.reports.claim_report import annotate

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
    from rlpanel.queries.reports.claim_report import annotate

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
