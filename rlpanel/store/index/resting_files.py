"""Files whose end waits for a newline or for more bytes: tells when one has not grown for long enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from heapq import heappop, heappush

from rlpanel.store.index.run_file import RunFile

#: Seconds after which an end that cannot be read is reported. Writers keep half lines in memory for minutes.
QUIET = 600.0


class RestingFiles:
    """Files by the time at which their end is due.

    Parameters
    ----------
    rest : float
        Seconds for which a file must not grow until its end is read.
    """

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self._due: dict[int, tuple[float, bool, RunFile]] = {}  # the newest entry of each file
        self._queue: list[tuple[float, int]] = []  # heap, also of entries that are outdated

    def note(self, file: RunFile) -> None:
        """Note a file after it was read: it waits if its end is incomplete."""
        tail = file.reader.tail
        if file.gone or file.more or file.problem is not None or not (tail.partial or tail.cut_off):
            self._due.pop(file.number, None)
        else:
            self._wait(file, self._rest, reported=False)

    def due(self, *, all_files: bool = False) -> Iterator[tuple[RunFile, bool]]:
        """Yield the files whose end is due, and whether it is reported if it cannot be read.

        Parameters
        ----------
        all_files : bool
            Whether the end of all files is due and reported now.
        """
        now, again = time.monotonic(), []
        while self._queue and (all_files or self._queue[0][0] <= now):
            at, number = heappop(self._queue)
            entry = self._due.get(number)
            if entry is None or entry[0] != at:
                continue
            _, reported, file = self._due.pop(number)
            if not file.gone:
                yield file, reported or all_files
                again += [] if reported or all_files else [file]
        for file in again:
            if file.problem is None and (file.reader.tail.partial or file.reader.tail.cut_off):
                self._wait(file, QUIET, reported=True)

    def _wait(self, file: RunFile, seconds: float, *, reported: bool) -> None:
        # The clock of another machine may have set the time of the change: it can only shorten the wait.
        age = max(0.0, time.time() - file.reader.tail.modified)
        at = time.monotonic() + max(0.0, seconds - age)
        self._due[file.number] = at, reported, file
        heappush(self._queue, (at, file.number))
