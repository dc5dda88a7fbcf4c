"""Sessions in a terminal, recorded with runs that the package carries, for the README and pages."""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rlpanel.app.demo import Recording, write_recording
from rlpanel.cli import main

#: The lines that are typed for the page on the command line, in a folder with the GRPO run.
LINES = (
    "rlpanel steps runs/exp1 --columns reward_mean,kl_k3_mean,response_tokens_mean --last 3",
    "rlpanel samples runs/exp1 --filter 'reward < 0.5' --sort=-kl_k3_mean --limit 3",
    "rlpanel search runs/exp1 'the river' --filter 'step > 50' --limit 3 --around 20",
    "rlpanel contrast runs/exp1 51..60 1..10 --limit 4",
)
#: The lines of the README, in a folder with the run whose tool breaks.
SHORT_LINES = ("rlpanel contrast runs/exp1 21..25 16..20 --limit 4",)
#: Part of the tutorial → the line that is typed there.
TUTORIAL_LINES = {
    "curves": "rlpanel steps runs/exp1 --columns reward_mean,kl_k3_mean,response_tokens_mean --last 2",
    "findings": "rlpanel findings runs/exp1",
    "contrast": "rlpanel contrast runs/exp1 21..25 16..20 --limit 5",
    "samples": "rlpanel samples runs/exp1 --step 24 --filter 'tool_errors > 0' --limit 3",
    "tokens": "rlpanel tokens runs/exp1 --step 24 --metric kl_k3 --limit 3",
}
WIDTH = 100
#: How much of a run is read; it appears on slow machines, and a terminal overwrites it.
PROGRESS = re.compile(r"^\r?\S+:\s\d+%\sof\s[^\r\n]*[\r\n]+", re.MULTILINE)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def session(lines: Iterable[str], recording: Recording) -> str:
    """Return the typed lines, each with what the command printed, as a block of Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        write_recording(recording, Path(folder) / "runs" / "exp1")
        parts = [f"$ {line}\n{_printed(line, Path(folder))}" for line in lines]
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
    return PROGRESS.sub("", screen.getvalue())
