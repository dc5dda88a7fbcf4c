"""The commands ``gate | halt``: a verdict on a run, and the end of a training that a finding asks for."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlpanel.cli import completion
from rlpanel.cli.shared_options import (
    DefaultStep,
    FollowLinks,
    Jobs,
    Json,
    Map,
    RunFolder,
    SplitOption,
    Tokenizer,
    declared,
    names,
    say_left_out,
    say_unread,
    set_reader_environment,
)
from rlpanel.cli.terminal_messages import CANNOT_TELL, FOUND, INCOMPLETE, printable, say, uses_color
from rlpanel.errors import SettingError
from rlpanel.halt_file import HALT, parse_halt_on, remove_halt
from rlpanel.queries import gate as gate_question
from rlpanel.queries.question_options import option_of

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.gate.gate_files import SampleTexts
    from rlpanel.gate.gate_result import GateResult


# -- gate command --------------------------------------------------------------------------------------
# The command ``gate``, with reports for CI and an exit code for each verdict.


_COLORS = {
    "worse": typer.colors.RED,
    "passed": typer.colors.GREEN,
    "cannot tell": typer.colors.YELLOW,
}


def gate(
    run: RunFolder,
    more: Annotated[
        list[str] | None,
        typer.Argument(help="Further baselines.", metavar="[BASELINE]...", autocompletion=completion.runs),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder of a baseline; further ones may follow it.", autocompletion=completion.runs
        ),
    ] = None,
    on: Annotated[str, declared(option_of(gate_question.On))] = "",
    windows: Annotated[
        int, typer.Option(min=1, max=100, help="Number of windows over the common range.")
    ] = 10,
    align: Annotated[
        str, typer.Option(help="What the runs are aligned by: step, samples or tokens.")
    ] = "step",
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit XML to this file.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report as one HTML page to this file.", show_default=False)
    ] = None,
    board: Annotated[
        str, typer.Option(help="Address of the board that the report links to.", show_default=False)
    ] = "",
    as_json: Json = False,
    split: SplitOption = "",
    jobs: Jobs = None,
    keys: Map = None,
    default_step: DefaultStep = None,
    follow_links: FollowLinks = False,
) -> None:
    """Compare a new run with baselines: find whether it is worse than their spread allows.

    The exit code is 0 if it passed, 1 if it is worse, 2 after an error, 3 if it is not worse but a file was
    not read, and 4 if it cannot be told. Two baselines or more can prove a worsening; four or five find small
    ones.
    """
    if align not in ("step", "samples", "tokens"):
        raise SettingError(f"--align is step, samples or tokens, not {align[:40]!r}")
    folders = [*(against or ()), *(more or ())]
    if not folders:
        raise SettingError("give baselines: rlpanel gate NEW --against A B C")
    set_reader_environment(keys, None, follow_links, default_step)
    from rlpanel.api.open_run import open_run
    from rlpanel.cli.table_output import json_text
    from rlpanel.store.snapshot.left_out import left_out

    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_run(folder, follow=False, jobs=jobs)) for folder in (run, *folders)
        ]
        chosen = [each.split(split) if split else each for each in opened]
        new, *others = (each.data for each in chosen)
        found = gate_question.gate_result(new, others, names(on), windows, align)
        table = gate_question.gate_table(new, found)
        if junit is not None:
            from rlpanel.gate.gate_files import junit_text

            _write(junit, '<?xml version="1.0" encoding="utf-8"?>\n' + junit_text(found))
        if html is not None:
            from rlpanel.board_url import USUAL_ADDRESS
            from rlpanel.gate.gate_files import page_text

            _write(html, page_text(found, _texts(chosen[0], found), board or USUAL_ADDRESS))
        if as_json:
            typer.echo(json_text(table.document(), ascii_only=True))
        else:
            _print(found)
        unread = [skipped for each in opened for skipped in each.snapshot.unread]
        for each in chosen:
            say_left_out(left_out(each.snapshot))
    say_unread(unread)
    if found.state == "worse":
        raise typer.Exit(FOUND)
    if unread:
        raise typer.Exit(INCOMPLETE)
    if found.state == "cannot tell":
        raise typer.Exit(CANNOT_TELL)


def _texts(run: Run, found: GateResult) -> dict[str, SampleTexts]:
    """Read the texts of the samples that are shown."""
    import numpy as np

    from rlpanel.gate.gate_files import SampleTexts
    from rlpanel.store.query.fetch_sample import fetch_all_texts

    shown = {sample.uid: sample.row for number in found.numbers for sample in number.samples}
    read = fetch_all_texts(run.index, run.snapshot, np.array(list(shown.values()), int))
    texts = (each or {} for each in read)
    return {
        uid: SampleTexts(each.get("prompt"), each.get("response"))
        for uid, each in zip(shown, texts, strict=True)
    }


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror or error}") from error


def _print(found: GateResult) -> None:
    """Print the verdict, notes, and one paragraph for each number."""
    typer.echo(printable(found.sentence))
    if found.windows:
        typer.echo(
            printable(
                f"{found.windows} windows over {found.align} {found.low:,.0f} to {found.high:,.0f}, "
                f"{found.steps:,} steps; {found.tests} tests"
            )
        )
    for note in found.notes:
        typer.echo(printable(f"note: {note}"))
    for each in found.numbers:
        state = each.state.upper()
        typer.echo("")
        typer.echo(typer.style(state, fg=_COLORS[each.state]) if uses_color() else state)
        typer.echo(printable(f"  {each.sentence}"))
        for sample in each.samples:
            typer.echo(printable(f"    step {sample.step:,}  {sample.value:.4g}  {sample.uid}"))


# -- halt command --------------------------------------------------------------------------------------
# The command ``halt``: checks a growing run, and asks its training to stop once a finding is confirmed.


def halt(
    run: RunFolder,
    severity: Annotated[
        str, typer.Option(help="Lowest severity that stops the training: alarm or warning.")
    ] = "alarm",
    rule: Annotated[
        list[str] | None,
        typer.Option(help="Name of a rule that may stop it; repeat it for several.", show_default="all"),
    ] = None,
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Follow a run until a finding is confirmed; then write the file HALT into its folder, and exit with 1.

    The training stops itself: it calls rlpanel.should_halt(folder) after each step, or its script looks for
    the file. A finding counts if it is still found two steps later. Ctrl-C ends the command.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    asked = parse_halt_on({"severity": severity, "rules": rule or ()})
    assert asked is not None
    folder = Path(run).resolve()
    if not folder.is_dir():
        raise SettingError(f"{folder} is not a folder on this machine, into which {HALT} could be written")
    from rlpanel.checks.halt_watch import HaltWatch, follow
    from rlpanel.store.backlog.workers import yield_processor

    watch = HaltWatch(folder, asked)
    if remove_halt(folder):
        say(f"{folder / HALT} was of an earlier training and is deleted", typer.colors.YELLOW)
    yield_processor()
    try:
        reason = follow(watch)
    except KeyboardInterrupt:
        say("", "")
        return
    finally:
        watch.close()
    typer.echo(printable(f"{reason} ({folder / HALT})"))
    raise typer.Exit(FOUND)


#: The command and an example of its use.
COMMANDS: dict[Any, str] = {
    gate: "rlpanel gate runs/exp2 --against runs/exp1",
    halt: "rlpanel halt runs/exp1 || kill -TERM $TRAINING",
}
