"""Files that are being rewritten: their former rows are shown until their new content can replace them.

A trainer that resumes writes the file of a step again, in pieces. Until the new content has as many rows as
the former one, or the file rests, it is held back; then it replaces the former rows in one snapshot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.index.run_files import RunFile

#: Bytes of lines and number of rows of all files together that are held back at most.
MAX_BYTES, MAX_ROWS = 128 << 20, 1 << 18
#: A file that grows without a rest is held back for this many times its rest: it may be a restarted log.
MAX_RESTS = 10


@dataclass
class HeldBack:
    """New content of a file that is not shown yet; ``former`` is the number of rows that it has to reach."""

    file: RunFile
    former: int
    began: float
    generation: int
    due: float = 0.0
    rows: int = 0
    bytes: int = 0
    chunks: list[Chunk] = field(default_factory=list)


class RewrittenFiles:
    """Holds back what was read of files that are being rewritten.

    Parameters
    ----------
    rest : float
        Seconds for which a file must not grow until it counts as complete.

    Attributes
    ----------
    held : dict of int to HeldBack
        What is held back, by file number.
    """

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self.held: dict[int, HeldBack] = {}

    def __contains__(self, file: RunFile) -> bool:
        """Return True if something of a file is held back."""
        return file.number in self.held

    def hold(self, file: RunFile, chunk: Chunk, former: int) -> bool:
        """Hold back what was read of a file; return True if it is complete enough to be taken now.

        Parameters
        ----------
        file : RunFile
        chunk : Chunk
        former : int
            Number of rows that are shown; it counts when the first chunk is held back.
        """
        now = time.monotonic()
        held = self.held.setdefault(file.number, HeldBack(file, former, now, chunk.generation))
        if chunk.generation != held.generation:  # it was rewritten again
            held = self.held[file.number] = HeldBack(file, held.former, held.began, chunk.generation)
        held.chunks.append(chunk)
        held.rows += len(chunk)
        held.bytes += chunk.bytes
        # The clock of another machine may have set the time of the change: it can only shorten the wait.
        age = max(0.0, time.time() - file.reader.tail.modified)
        held.due = min(now + max(0.0, self._rest - age), held.began + MAX_RESTS * self._rest)
        file.is_rewritten = True
        return held.rows >= held.former or self._is_too_much

    def take(self, file: RunFile) -> list[Chunk]:
        """Return what is held back of a file, which is not held back any longer."""
        held = self.held.pop(file.number, None)
        file.is_rewritten = False
        return held.chunks if held is not None else []

    @property
    def next_due(self) -> float:
        """Seconds until a file is due; infinite if nothing is held back."""
        now = time.monotonic()
        return min((max(0.0, held.due - now) for held in self.held.values()), default=math.inf)

    def due(self, *, all_files: bool) -> Iterator[RunFile]:
        """Yield the files that have rested, or have grown for too long, or all files."""
        now = time.monotonic()
        for held in list(self.held.values()):
            file, most = held.file, held.began + MAX_RESTS * self._rest
            grows = now >= held.due and (file.more or file.reader.tail.changed())
            if all_files or now >= (most if grows else held.due):
                yield file
            elif grows:  # nothing was told of it yet
                held.due = min(now + self._rest, most)

    @property
    def _is_too_much(self) -> bool:
        held = self.held.values()
        return sum(each.bytes for each in held) > MAX_BYTES or sum(each.rows for each in held) > MAX_ROWS
