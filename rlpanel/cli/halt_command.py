"""The command ``halt``: checks a growing run, and asks its training to stop once a finding is confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlpanel.cli.reader_settings import set_reader_environment
from rlpanel.cli.shared_options import DefaultStep, FollowLinks, Map, RunFolder, Tokenizer
from rlpanel.cli.terminal_messages import FOUND, printable, say
from rlpanel.errors import SettingError
from rlpanel.halt_file import HALT, parse_halt_on, remove_halt


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
    from rlpanel.checks.halt_process import follow
    from rlpanel.checks.halt_watch import HaltWatch
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
COMMANDS = {halt: "rlpanel halt runs/exp1 || kill -TERM $TRAINING"}
