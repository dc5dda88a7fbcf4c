"""The command line ``rlpanel``: the list of its commands, and what applies to all of them.

Each command imports its modules only when it runs, so that ``rlpanel --help`` starts quickly. A command's
options complete values that begin with a minus sign, such as ``--sort=-reward``.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import rlpanel
from rlpanel.cli.terminal_messages import ERROR, say
from rlpanel.errors import RLPanelError

#: Key of the words before the one that is completed, in the context's ``meta``.
_WORDS = "rlpanel.words"
#: The line that zsh, fish and PowerShell pass; bash passes words, and splits them at ``=``.
_LINE = "_TYPER_COMPLETE_ARGS"


class CompletingCommand(TyperCommand):
    """A command that completes a value, where click would offer options: it takes a minus sign for one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            param.shell_complete = partial(_whole_words, param.shell_complete)  # type: ignore[method-assign]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the one that is completed, and remember them."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the completions of an option's value, or of the names of options."""
        words: list[str] = [word for word in ctx.meta.get(_WORDS, []) if word != "="]
        name = _joined_option(incomplete).removesuffix("=") or next(reversed(words), "")
        for param in self.get_params(ctx):
            if name in param.opts and not getattr(param, "is_flag", False):
                return param.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


def _whole_words(complete: Callable[[Any, str], list[Any]], ctx: Any, incomplete: str) -> list[Any]:
    """Return completions that begin with the whole word: shells other than bash take no others."""
    option, found = _joined_option(incomplete), complete(ctx, incomplete)
    for item in found:
        item.value = f"{option}{item.value}"
    return found


def _joined_option(value: str) -> str:
    """Return the beginning of the completed word before its value, such as ``--sort=``; empty without one."""
    name, equals, rest = os.environ.get(_LINE, "").rpartition(" ")[2].partition("=")
    return name + equals if name.startswith("--") and rest == value else ""


#: Commands that are not made of questions, by panel of ``rlpanel --help`` and by module of this room. A
#: module's ``COMMANDS`` maps each to an example of its use. Their names stand here, so that a command imports
#: its own module alone: importing all of them takes a tenth of a second.
MODULES: dict[str, dict[str, tuple[str, ...]]] = {
    "Board": {"serve_commands": ("serve", "demo", "app-path", "top")},
    "Ask a run": {
        "ask_commands": ("sample", "tag", "note", "check", "tail"),
        "link_commands": ("link", "schema"),
        "lint_command": ("lint",),
        "gate_commands": ("gate", "halt"),
        "curriculum_command": ("curriculum",),
        "report_command": ("report",),
    },
    "Agents": {"agent_commands": ("mcp", "skill")},
    "Files": {"map_command": ("map",), "file_commands": ("index", "export")},
}


#: A command, its example and its panel.
_Declared = tuple[Callable[..., None], str, str]


def _own_commands(panel: str, only: str = "") -> Iterator[tuple[str, _Declared]]:
    """Yield a panel's commands that are not made of questions: all, or those of the module of one."""
    for module, names in MODULES[panel].items():
        if only and only not in names:
            continue
        declared: dict[Callable[..., None], str] = import_module(f"rlpanel.cli.{module}").COMMANDS
        for command, example in declared.items():
            yield command.__name__.replace("_", "-"), (command, example, panel)


@cache
def commands() -> dict[str, _Declared]:
    """Return each command with its example and its panel, by name, in the order of the help."""
    from rlpanel.cli.table_command import command_of
    from rlpanel.queries.catalogue import QUESTIONS

    found: dict[str, _Declared] = {}
    for panel in MODULES:
        if panel == "Ask a run":
            found |= {
                question.name.replace("_", "-"): (command_of(question), question.example, panel)
                for question in QUESTIONS.values()
                if question.example
            }
        found |= dict(_own_commands(panel))
    return found


def _chosen(only: str) -> dict[str, _Declared]:
    """Return one command, or all; the questions are not loaded for a command that is not made of one."""
    own = [each for panel in MODULES for each in _own_commands(panel, only)] if only else []
    for name, declared in own:
        if name == only:
            return {name: declared}
    return {only: commands()[only]} if only in commands() else commands()


def build_app(only: str = "") -> typer.Typer:
    """Return the command line, with all commands or with one, since describing all takes a tenth of a second.

    Parameters
    ----------
    only : str
        Name of a command; all are described for another text.
    """
    chosen = _chosen(only)
    built = typer.Typer(
        name="rlpanel",
        help="Watch what a language model does while reinforcement learning trains it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # The options that install a completion stand before a command; typer loads pydantic to read them.
        add_completion=only not in chosen,
    )
    built.callback()(_options)
    for command, example, panel in chosen.values():
        built.command(cls=CompletingCommand, rich_help_panel=panel, epilog=f"Example: {example}")(command)
    if only not in chosen:
        from rlpanel.cli import file_commands

        built.add_typer(file_commands.app, name="convert", rich_help_panel="Files")
    return built


def main() -> None:
    """Run the command line; an `RLPanelError` is printed in red, with exit code 2."""
    _ensure_home()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    completes = "_RLPANEL_COMPLETE" in os.environ
    try:
        build_app("" if completes else name)(prog_name="rlpanel")
    except RLPanelError as error:
        first, *others = error.lines
        for line in (f"rlpanel: {first}", *others):
            say(line, typer.colors.RED)
        sys.exit(ERROR)
    finally:
        gc.enable()


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
    gc.freeze()  # what was imported stays: no later collection looks at it
    gc.enable()


def __getattr__(name: str) -> Any:
    """Describe all commands only for a program that asks for ``app`` or ``COMMANDS``."""
    if name not in ("app", "COMMANDS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole_app() if name == "app" else commands()


@cache
def _whole_app() -> typer.Typer:
    return build_app()
