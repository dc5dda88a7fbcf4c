"""Runs command lines within the process of the tests, or in one of their own at a terminal."""

from __future__ import annotations

import io
import os
import pty
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from rlpanel.cli import main
from tests.integration.forked import start_module

#: Variables of a terminal without colours.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answered_at_terminal(folder: Path, line: str, typed: str) -> tuple[str, int]:
    """Run a command line that asks at a real terminal; return all that appears there and the exit code."""
    words = shlex.split(line)
    assert words[0] == "rlpanel"
    pid, screen = pty.fork()
    if not pid:  # the child
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", *words], os.environ | PLAIN)
    os.write(screen, typed.encode())
    shown = b""
    with suppress(OSError):  # an error at its end
        while part := os.read(screen, 65536):
            shown += part
    os.close(screen)
    _, status = os.waitpid(pid, 0)
    return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def shown_at_terminal(folder: Path, line: str) -> str:
    """Run a command line in a process of its own at a real terminal, and return all that appears there."""
    words = shlex.split(line)
    assert words[0] == "rlpanel"
    reading, terminal = pty.openpty()
    with start_module(*words, cwd=folder, env=PLAIN, stdout=terminal, stderr=terminal):
        os.close(terminal)
        shown = b""
        with open(reading, "rb", buffering=0) as screen, suppress(OSError):  # an error at its end
            while part := screen.read(65536):
                shown += part
    return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def run_in(
    folder: Path,
    line: str,
    *more: str,
    terminal: bool = False,
    columns: int = 200,
    typed: str | None = None,
) -> Done:
    """Run a command line in a folder until it ends.

    Parameters
    ----------
    folder : Path
    line : str
        Begins with ``rlpanel``.
    *more : str
        Further arguments.
    terminal : bool
        Whether the standard output is a terminal.
    columns : int
        Width of the terminal.
    typed : str, optional
        What is typed at a terminal; by default the standard input is no terminal.
    """
    words = [*shlex.split(line), *more]
    assert words[0] == "rlpanel"
    out = _Terminal(newline="") if terminal else io.StringIO(newline="")
    errors, code = io.StringIO(), 0
    environment = patch.dict(os.environ, PLAIN | {"COLUMNS": str(columns)})
    keys = io.StringIO() if typed is None else _Terminal(typed)
    with (
        environment,
        patch("sys.argv", words),
        patch("sys.stdin", keys),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), errors.getvalue())
