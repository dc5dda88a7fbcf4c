"""`Barrier`: what one caller waits for, the lines that a run's files held when it asked.

A file that keeps growing is not waited for: only its bytes of that moment count.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from rlpanel.sources.files import file_access
from rlpanel.store.index.run_files import RunFile, RunFiles

#: Seconds between two looks at thousands of files that are being read.
_BETWEEN = 0.1


class Barrier:
    """Waits until the reader has passed the sizes that the files of a run had after a call.

    The reader's thread calls `arm` once and `update` after each reading; other threads read the attributes.

    Attributes
    ----------
    reached : Event
        Set once every line is in a snapshot, or once nobody waits any more.
    is_armed : bool
        True once the reader knows the sizes.
    behind : dict of str to int
        Files whose lines are missing, with the number of bytes; empty before `arm`.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.is_armed = False
        self.behind: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._due = 0.0

    def arm(self, files: RunFiles) -> None:
        """Note the sizes on disk now, and give each file that has changed a turn."""
        for file in files.numbered:
            if file.gone:
                continue
            if not file.more and (file.retry or file.reader.tail.changed()):
                files.wait(file)
            if file.more or file.is_rewritten:
                with suppress(OSError):  # its turn says why it cannot be read
                    self._sizes[file.number] = file_access.stat(file.reader.path).st_size
        self.is_armed = True

    def update(self, files: RunFiles) -> bool:
        """Return True if no file is behind its size of then; while files wait, it looks now and then."""
        now = time.monotonic()
        if now < self._due and files.has_waiting:
            return False
        self._due = now + _BETWEEN
        behind = {number: self._missing(files.numbered[number]) for number in self._sizes}
        self._sizes = {number: self._sizes[number] for number, missing in behind.items() if missing >= 0}
        self.behind = {files.numbered[number].reader.name: behind[number] for number in self._sizes}
        return not self._sizes

    def _missing(self, file: RunFile) -> int:
        """Return how many bytes of a file are missing; -1 if its lines of then are read or gone.

        An incomplete line at the end is not missing. A file that is being rewritten is held back as a whole.
        """
        size, tail = self._sizes[file.number], file.reader.tail
        if file.gone:
            return -1
        if file.is_rewritten:
            return size
        missing = size - tail.bytes_done - tail.partial
        return missing if file.more and missing > 0 else -1


def gained(files: RunFiles) -> dict[str, int]:
    """Return the bytes that the files of a run have and that were not read, by the file's name.

    Of a file that is not longer, but has changed, all bytes count. Files that are new are not looked for.
    """
    found = {}
    for file in files.numbered:
        tail = file.reader.tail
        with suppress(OSError):  # the file is gone
            if not file.gone and tail.changed():
                size = file_access.stat(file.reader.path).st_size
                missing = size - tail.bytes_done - tail.partial
                found[file.reader.name] = missing if missing > 0 else size
    return found
