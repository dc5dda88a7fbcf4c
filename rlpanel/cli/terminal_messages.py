"""Messages on stderr, texts of logs without the characters that control a terminal, and exit codes."""

from __future__ import annotations

import os

import typer

from rlpanel.texts.shorten import printable as printable


def say(message: str, color: str) -> None:
    """Print one line to stderr; control characters, as in the names of files, are replaced by spaces."""
    text = printable(message)
    typer.echo(typer.style(text, fg=color) if color and uses_color() else text, err=True)


def uses_color() -> bool:
    """Return False if the environment asks for no colours; pipes and files get none anyway."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def harmless_lines(text: str) -> str:
    """Return lines of a file for a terminal, each without the characters that control it."""
    return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))


#: The whole run was read, and `check` found nothing.
OK = 0
#: `check` found a problem that is at least as severe as ``--fail-on``.
FOUND = 1
#: An error; its message is on stderr.
ERROR = 2
#: The output is right for what was read, but a file of the run was not read, or a rule failed.
INCOMPLETE = 3
#: `gate` compared the runs, but the data do not show whether the new one is worse.
CANNOT_TELL = 4
