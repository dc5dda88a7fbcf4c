"""Messages on stderr, and texts of logs without the characters that control a terminal."""

from __future__ import annotations

import typer


def say(message: str, color: str) -> None:
    """Print one line to stderr; control characters, as in the names of files, are replaced by spaces."""
    typer.secho(printable(message), fg=color, err=True)


def printable(text: str) -> str:
    """Replace control and invisible characters by spaces, so that text of a log cannot control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
