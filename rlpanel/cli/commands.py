"""The command line ``rlpanel``: the list of its commands, and what applies to all of them.

Each command imports its modules only when it runs, so that ``rlpanel --help`` starts quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

import rlpanel
from rlpanel.cli import (
    address_commands,
    agent_commands,
    check_command,
    convert_commands,
    run_index_commands,
    sample_tables,
    serve_commands,
    tail_command,
)
from rlpanel.cli.completing_command import CompletingCommand
from rlpanel.cli.exit_codes import ERROR
from rlpanel.cli.output.terminal_messages import say
from rlpanel.cli.table_command import command_of
from rlpanel.errors import RLPanelError
from rlpanel.queries.catalogue import QUESTIONS

#: Modules of commands by panel of ``rlpanel --help``. A module's ``COMMANDS`` maps each command to an example
#: of its use. Other commands are made of questions.
_MODULES = {
    "Board": (serve_commands,),
    "Ask a run": (sample_tables, check_command, tail_command, address_commands),
    "Agents": (agent_commands,),
    "Files": (run_index_commands,),
}


def _commands() -> Iterator[tuple[str, Callable[..., None], str, str]]:
    """Yield the name of each command, the command, its example and its panel."""
    for panel, modules in _MODULES.items():
        if panel == "Ask a run":
            for question in QUESTIONS.values():
                if question.example:
                    yield question.name.replace("_", "-"), command_of(question), question.example, panel
        for module in modules:
            for command, example in module.COMMANDS.items():
                yield command.__name__.replace("_", "-"), command, example, panel


#: Name → command, its example and its panel.
COMMANDS = {name: (command, example, panel) for name, command, example, panel in _commands()}


def build_app(only: str = "") -> typer.Typer:
    """Return the command line, with all commands or with one, since describing all takes a tenth of a second.

    Parameters
    ----------
    only : str
        Name of a command; empty for all.
    """
    built = typer.Typer(
        name="rlpanel",
        help="Watch what a language model does while reinforcement learning trains it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    built.callback()(_options)
    for name, (command, example, panel) in COMMANDS.items():
        if only in ("", name):
            built.command(cls=CompletingCommand, rich_help_panel=panel, epilog=f"Example: {example}")(command)
    if not only:
        built.add_typer(convert_commands.app, name="convert", rich_help_panel="Files")
    return built


def main() -> None:
    """Run the command line; an `RLPanelError` is printed as one red line, with exit code 2."""
    _ensure_home()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    completes = "_RLPANEL_COMPLETE" in os.environ
    try:
        build_app(name if name in COMMANDS and not completes else "")(prog_name="rlpanel")
    except RLPanelError as error:
        say(f"rlpanel: {error}", typer.colors.RED)
        sys.exit(ERROR)


def _ensure_home() -> None:
    """Set HOME to a missing folder if the user has no home: importing Bokeh fails without one."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/nonexistent"


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"rlpanel {rlpanel.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle options that precede a command."""


app = build_app()
