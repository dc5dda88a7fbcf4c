"""Files that only grow by whole lines, whatever the disk does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from rlpanel.safe_files import SafeFolder

#: Bytes of lines in one compressed frame.
FRAME_BYTES = 1 << 20


class Sink(Protocol):
    """Where lines go."""

    def write(self, lines: bytes) -> None:
        """Append whole lines; OSError where the disk refuses."""

    def flush(self) -> None:
        """Bring to the file what is held back."""

    def close(self) -> None:
        """Flush and let go of the file."""


class PlainSink:
    """Appends lines to a file, each call in one write, so that no other writer's line is cut in two.

    Made with the first line: a rank that records nothing leaves no file. The folder's path is a real one; a
    link in it or in the place of the file raises `UnsafePath` with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._rest = b""  # of a write that the disk took only in part

    def write(self, lines: bytes) -> None:
        """Append whole lines; OSError where the disk refuses. Half a line is finished next time."""
        if self._descriptor < 0:
            self._open()
        self._finish()
        taken = os.write(self._descriptor, lines)
        self._rest = lines[taken:]
        self._finish()

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _finish(self) -> None:
        """Write what is left of a line before anything else follows it."""
        while self._rest:
            taken = os.write(self._descriptor, self._rest)
            self._rest = self._rest[taken:]

    def _open(self) -> None:
        with SafeFolder.open(self.path.parent) as folder:
            self._descriptor = folder.open_to_write(self.path.name, append=True)
        size = os.fstat(self._descriptor).st_size
        if size:
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            # A process that was killed may have left half a line; ours must not be glued to it. Compressed
            # files are never opened twice.
            if os.read(self._descriptor, 1) != b"\n":
                self._rest = b"\n"


class ZstandardSink:
    """Lines in zstd frames of about a megabyte, each cut at a line end: any frame can be read alone."""

    def __init__(self, path: Path) -> None:
        from zstandard import ZstdCompressor  # optional: only who asks for it needs it

        self._compressor: Any = ZstdCompressor(level=3)
        self._file = PlainSink(path)
        self._held: list[bytes] = []
        self._bytes = 0

    def write(self, lines: bytes) -> None:
        """Hold lines until they fill a frame."""
        self._held.append(lines)
        self._bytes += len(lines)
        if self._bytes >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held as a frame of its own."""
        if self._held:
            lines, self._held, self._bytes = b"".join(self._held), [], 0
            self._file.write(self._compressor.compress(lines))

    def close(self) -> None:
        """Write the last frame."""
        self.flush()
        self._file.close()
