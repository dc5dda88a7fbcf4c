"""How far the reading of a run is, said on a terminal."""

from __future__ import annotations

import sys

from rlpanel.store.backlog.throughput import describe
from rlpanel.store.snapshot.snapshot import Progress


class TerminalProgress:
    """How far a run is read, on stderr where that is a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = 0

    def __call__(self, progress: Progress) -> None:
        """Say it anew on the same line."""
        if sys.stderr.isatty():
            line = f"{self._name}: {describe(progress.bytes_read, progress.bytes_total, progress.rate)}"
            sys.stderr.write(f"\r{line:<{self._shown}}")  # spaces over what a longer line left
            sys.stderr.flush()
            self._shown = len(line)

    def end(self) -> None:
        """Leave the line."""
        if self._shown:
            sys.stderr.write("\n")
