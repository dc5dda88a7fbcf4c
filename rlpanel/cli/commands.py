"""The command line ``rlpanel``: the list of its commands, and what applies to all of them.

Each command imports its modules only when it runs, so that ``rlpanel --help`` starts quickly.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import rlpanel
from rlpanel.cli import (
    address_commands,
    agent_commands,
    cause_tables,
    convert_commands,
    run_index_commands,
    run_tables,
    sample_tables,
    serve_commands,
    sql_command,
    tail_command,
)
from rlpanel.cli.exit_codes import ERROR
from rlpanel.cli.output.terminal_messages import say
from rlpanel.errors import RLPanelError

#: Panels of ``rlpanel --help``, each with the modules whose commands it lists. A module's ``COMMANDS`` maps
#: each command to an example of its use.
GROUPS = {
    "Board": (serve_commands,),
    "Ask a run": (run_tables, sample_tables, cause_tables, sql_command, tail_command, address_commands),
    "Agents": (agent_commands,),
    "Files": (run_index_commands,),
}

app = typer.Typer(
    name="rlpanel",
    help="Watch what a language model does while reinforcement learning trains it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _panel, _modules in GROUPS.items():
    for _module in _modules:
        for _command, _example in _module.COMMANDS.items():
            app.command(rich_help_panel=_panel, epilog=f"Example: {_example}")(_command)
app.add_typer(convert_commands.app, name="convert", rich_help_panel="Files")


def main() -> None:
    """Run the command line; an `RLPanelError` is printed as one red line, with exit code 2."""
    _ensure_home()
    try:
        app(prog_name="rlpanel")
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


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Handle options that precede a command."""
