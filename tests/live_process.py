"""The process of `tests.live_writers`, and what an open run shows while it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import rlpanel
from tests.integration.forked import CHECKOUT


class LiveProcess:
    """A process that writes a run in a trainer's way, until the ``with`` block ends.

    Parameters
    ----------
    name : str
        Format of `tests.live_writers`.
    folder : Path
    """

    def __init__(self, name: str, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.live_writers", name, str(folder)]
        self._process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> LiveProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, step: int, rows: int, attempt: int = 0) -> None:
        """Let the process write a step; this does not wait."""
        assert self._process.stdin
        self._process.stdin.write(f"{step} {rows} {attempt}\n")
        self._process.stdin.flush()

    def done(self) -> float:
        """Wait until the step is complete, and return when that was."""
        assert self._process.stdout
        answer = self._process.stdout.readline().split()
        assert len(answer) == 4, "the writer failed; see its stderr"
        return float(answer[3])


class Shown(NamedTuple):
    """A step as the board shows it: its rows, and the mean, least and greatest reward."""

    samples: int
    mean: float
    least: float
    greatest: float


def shown(run: rlpanel.Run) -> dict[int, Shown]:
    """Return the steps of a run with one split, from one snapshot."""
    splits = list(run.splits)
    if not splits:
        return {}
    steps = run.split(splits[0]).steps
    if "reward_mean" not in steps:
        return {}
    columns = steps[["samples", "reward_mean", "reward_min", "reward_max"]].itertuples(index=False)
    return {int(step): Shown(int(row[0]), *row[1:]) for step, row in zip(steps["step"], columns, strict=True)}
