"""Detects changes of a file that is written in one go, and reads it whole each time it changed."""

from __future__ import annotations

from rlpanel.errors import SourceUnready
from rlpanel.sources.readers.tail import Tail, stamp_of


class WholeFileTail(Tail):
    """Tail of a file that is read whole; ``offset`` is the file's size after it was read."""

    def read_changed(self) -> bytes | None:
        """Return the whole file if it changed since the last read, successful or not; else None.

        Raises
        ------
        OSError
            If the file cannot be opened or read, or has more than ``line_bytes`` bytes.
        """
        with self._file as file:
            status = file.stat()
            if stamp_of(status) == self._stamp:
                return None
            # The stamp is stored first: bytes written meanwhile change it, so the file is read again.
            self._stamp, self.size, self.modified = stamp_of(status), status.st_size, status.st_mtime
            if status.st_size > self.line_bytes:
                raise SourceUnready(f"has {status.st_size:,} bytes; the limit is {self.line_bytes:,}")
            try:
                return file.read(status.st_size, 0)
            except OSError:
                self._stamp = ()  # read it again although it did not change
                raise

    def _has_unread(self) -> bool:
        """Return False: an invalid file stays invalid until it changes, and its error stays reported."""
        return False

    def mark_read(self) -> None:
        """Mark the whole file as read, in a new generation if it had rows before: those are invalid."""
        # Discarding rows is expensive in a run of many small files, most of which are read once.
        if self.offset:
            self.generation += 1
        self.offset = self.size
