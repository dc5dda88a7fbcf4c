"""The command ``lint``, with progress on a terminal and an exit code for CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlpanel.cli.shared_options import (
    DefaultStep,
    FollowLinks,
    Jobs,
    Json,
    Map,
    RunFolder,
    Scheduler,
    SplitOption,
    Tokenizer,
    say_left_out,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.terminal_messages import FOUND, INCOMPLETE, printable, say, uses_color
from rlpanel.errors import SettingError

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.lint.lint_rule import RuleResult
    from rlpanel.lint.linter import LintProgress

_COLORS = {
    "failed": typer.colors.RED,
    "passed": typer.colors.GREEN,
    "not checkable": typer.colors.YELLOW,
}
#: Samples of a failed rule that are printed.
_SHOWN = 3
#: Seconds between two updates of the progress line.
_PAUSE = 0.2


def lint(
    run: RunFolder,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Name of a rule to check; repeat it for several.", show_default="all"),
    ] = None,
    per_step: Annotated[
        int, typer.Option(min=0, help="Samples of each step that are read; 0 reads all.")
    ] = 0,
    as_json: Json = False,
    split: SplitOption = "",
    jobs: Jobs = None,
    scheduler: Scheduler = "",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Prove for each sample that what was trained is what was sampled, or print what to log for it.

    The exit code is 1 if a rule failed, 2 after an error, and 3 if none failed but a file of the run was not
    read; otherwise it is 0. Rules that are not checkable do not change it.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    from rlpanel.api.open_run import open_run
    from rlpanel.cli.table_output import json_text
    from rlpanel.settings import Reading
    from rlpanel.store.snapshot.left_out import left_out

    names = _known(rule)
    with open_run(run, follow=False, jobs=jobs, scheduler=scheduler) as opened:
        checked = opened.split(split) if split else opened
        found = _linted(checked, names, per_step or None, Reading().jobs if jobs is None else jobs)
        snapshot = checked.snapshot
        unread, left = opened.snapshot.unread, left_out(snapshot)
    if as_json:
        document: dict[str, Any] = {
            "run": snapshot.name,
            "path": str(opened.path),
            "split": snapshot.split,
            "samples": found.samples,
            "read": found.read,
            "unreadable": found.unread,
            "tokenizer": found.tokenizer,
            "rules": [result.as_dict() for result in found.results],
            "unread": [{"file": skipped.file, "reason": skipped.reason} for skipped in unread],
        }
        typer.echo(json_text(document, ascii_only=True))
    else:
        _print(snapshot.name, found)
    say_left_out(left)
    say_unread(unread)
    if found.unread:
        say(f"{found.unread:,} samples were not checked: their lines have changed", typer.colors.YELLOW)
    if found.failed:
        raise typer.Exit(FOUND)
    if unread or found.unread or any(result.error for result in found.results):
        raise typer.Exit(INCOMPLETE)


def _known(names: Sequence[str] | None) -> list[str] | None:
    """Return the names of rules to check; None for all.

    Raises
    ------
    SettingError
        If there is no rule of a name.
    """
    from rlpanel.lint.linter import LINT_RULES
    from rlpanel.queries.run_columns import similar

    for name in names or ():
        if name not in LINT_RULES:
            raise SettingError(f"there is no lint rule {name[:80]!r}{similar(name, LINT_RULES)}")
    return list(names) if names else None


def _linted(run: Run, rules: Sequence[str] | None, most: int | None, jobs: int) -> LintProgress:
    """Lint a run with a progress line on a terminal."""
    from rlpanel.lint.linter import Linter

    shows, written, begin, width = sys.stderr.isatty(), 0.0, time.monotonic(), 0
    for progress in Linter(run.index, rules, most=most, jobs=jobs).update(run.view, time.time()):
        now = time.monotonic()
        if shows and now - written > _PAUSE and progress.total:
            left = (now - begin) * (progress.total / progress.read - 1)
            line = f"lint: {progress.read:,} of {progress.total:,} samples · {left:.0f} s left"
            sys.stderr.write(f"\r{line:<{width}}")
            sys.stderr.flush()
            written, width = now, len(line)
    if width:
        sys.stderr.write(f"\r{' ' * width}\r")
    return progress


def _print(name: str, found: LintProgress) -> None:
    """Print failed rules with samples, then one line for each other rule."""
    counts = {state: sum(each.state == state for each in found.results) for state in _COLORS}
    parts = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    typer.echo(printable(f"{name}: {parts or 'no rules'} in {found.samples:,} samples"))
    if found.read < found.samples:
        typer.echo(f"{found.read:,} samples were read; the others were checked by their columns")
    state = ""
    for result in found.results:
        if result.state != state:
            state = result.state
            typer.echo("")
            typer.echo(typer.style(state.upper(), fg=_COLORS[state]) if uses_color() else state.upper())
        for line in _lines(result):
            typer.echo(printable(line))


def _lines(result: RuleResult) -> list[str]:
    head = f"  {result.rule.name:<22} {result.rule.title}"
    if result.state == "not checkable":
        return [head, f"  {'':<22} log {result.log}{f' ({result.remark})' * bool(result.remark)}"]
    some = f": {result.checked:,} of {result.samples:,} samples" if result.checked < result.samples else ""
    if result.state == "passed":
        return [f"{head}{some}{f' ({result.remark})' * bool(result.remark)}"]
    share = f"{result.failed:,} of {result.checked:,} samples ({result.share:.1%}) from step {result.first:,}"
    lines = [
        f"{head}: {share}",
        f"    {result.rule.formula}",
        *([f"    {result.remark}"] if result.remark else []),
    ]
    lines += [
        f"    {each.file}:{each.line}  {each.detail}  ({each.uid})" for each in result.examples[:_SHOWN]
    ]
    more = result.failed - min(len(result.examples), _SHOWN)
    return [*lines, *([f"    … and {more:,} more"] if more else [])]


#: The command and an example of its use.
COMMANDS = {lint: "rlpanel lint runs/exp1 --rule mask_in_place"}
