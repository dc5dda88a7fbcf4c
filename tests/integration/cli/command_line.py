"""Runs command lines within the process of the tests, or in one of their own at a terminal."""

from __future__ import annotations

import io
import os
import pty
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from rlpanel.cli import main

CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def environment() -> dict[str, str]:
    """Return the variables of a process that runs the code under test at a terminal without colours."""
    plain = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb", "PYTHONPATH": str(CHECKOUT)}
    return os.environ | plain


def shown_at_terminal(folder: Path, line: str) -> str:
    """Run a command line in a process of its own at a real terminal, and return all that appears there."""
    words = shlex.split(line)
    assert words[0] == "rlpanel"
    reading, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rlpanel", *words[1:]],
        cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
    ):  # fmt: skip
        os.close(terminal)
        shown = b""
        with open(reading, "rb", buffering=0) as screen, suppress(OSError):  # an error at its end
            while part := screen.read(65536):
                shown += part
    return shown.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def run_in(folder: Path, line: str, *more: str, terminal: bool = False, columns: int = 200) -> Done:
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
    """
    words = [*shlex.split(line), *more]
    assert words[0] == "rlpanel"
    out = _Terminal(newline="") if terminal else io.StringIO(newline="")
    errors, code = io.StringIO(), 0
    plain = {"NO_COLOR": "1", "COLUMNS": str(columns), "TERM": "dumb"}
    environment = patch.dict(os.environ, plain)
    with environment, patch("sys.argv", words), chdir(folder), redirect_stdout(out), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), errors.getvalue())
