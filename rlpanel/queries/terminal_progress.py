"""Progress line on a terminal while a run is read."""

from __future__ import annotations

import sys

from rlpanel.store.snapshot.read_progress import Progress, describe


class TerminalProgress:
    """Progress line of a run on stderr; writes nothing if stderr is not a terminal."""

    def __init__(self, name: str) -> None:
        self._name = "".join(char if char.isprintable() else " " for char in name)  # it may hold escapes
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Overwrite the line with the current progress."""
        if sys.stderr.isatty():
            line = f"{self._name}: {describe(progress.bytes_read, progress.bytes_total, progress.rate)}"
            sys.stderr.write(f"\r{line:<{self._width}}")  # padded, to erase a longer line
            sys.stderr.flush()
            self._width = len(line)

    def end(self) -> None:
        """Finish the line with a newline."""
        if self._width:
            sys.stderr.write("\n")
