"""A session in a terminal, recorded with a run that the package carries, for the README."""

from __future__ import annotations

import io
import os
import shlex
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rlpanel.app.demo import write_recording
from rlpanel.cli import main

#: The lines that are typed, in a folder with one run.
LINES = (
    "rlpanel steps runs/exp1 --columns reward_mean,kl_k3_mean,response_tokens_mean --last 3",
    "rlpanel samples runs/exp1 --filter 'reward < 0.5' --sort=-kl_k3_mean --limit 3",
    "rlpanel search runs/exp1 'the river' --filter 'step > 50' --limit 3 --around 20",
    "rlpanel contrast runs/exp1 51..60 1..10 --limit 4",
)
WIDTH = 100


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def session() -> str:
    """Return the typed lines, each with what the command printed, as a block of Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        write_recording("grpo_couplets", Path(folder) / "runs" / "exp1")
        parts = [f"$ {line}\n{_printed(line, Path(folder))}" for line in LINES]
    return "\n".join(["```console", "\n".join(parts).rstrip(), "```"])


def _printed(line: str, folder: Path) -> str:
    """Return what a command prints on a terminal without colours."""
    screen = _Screen()
    environment = patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "dumb"})
    typed = patch("sys.argv", shlex.split(line))
    with environment, typed, chdir(folder), redirect_stdout(screen), redirect_stderr(screen):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{line}: {screen.getvalue()}") from end
    return screen.getvalue()
