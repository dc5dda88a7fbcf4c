"""State of one file of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add, sub
from typing import NamedTuple

from rlpanel.sources.files.unreadable import Unread
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.sources.records.record_types import NO_HOLE, BadLine, Hole
from rlpanel.store.backlog.range_reader import MAX_BAD_LINES
from rlpanel.store.cache.saved_state import FileState, OpenFileState
from rlpanel.store.snapshot.snapshot import BadLineAt


class ReadCounts(NamedTuple):
    """What was read of a file, or of several together.

    Attributes
    ----------
    read, size : int
        Bytes read, and bytes on disk when the file was last checked.
    bad, blank : int
        Number of bad and of blank lines.
    """

    read: int = 0
    size: int = 0
    bad: int = 0
    blank: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:  # type: ignore[override]
        """Return the sum."""
        return ReadCounts(*map(add, self, other))

    def __sub__(self, other: ReadCounts) -> ReadCounts:
        """Return the difference."""
        return ReadCounts(*map(sub, self, other))


@dataclass
class RunFile:
    """One file of a run.

    Attributes
    ----------
    number : int
    reader : JsonlFile
    generation : int
        Generation of the file's content whose rows are valid; it rises when the file is replaced.
    bad : list of BadLineAt
        The first bad lines; their line number is 0 while the number of lines before is unknown.
    more : bool
        True if there may be unread lines; `RunFiles.wait` sets it outside of the file's turn.
    modified : float
        Modification time, as of the last listing of the folder.
    problem : Unread or None
        Reason why the file cannot be read at the moment; None if it can.
    hole : Hole
        Zero bytes in or beside its lines.
    retry : bool
        True if the unchanged file is read again, because the problem may be temporary.
    gone : bool
    is_rewritten : bool
        True while new content is held back, see `RewrittenFiles`.
    read_anew : bool
        True if it is read from its start although it was not rewritten.
    """

    number: int
    reader: JsonlFile
    generation: int = 0
    bad: list[BadLineAt] = field(default_factory=list)
    bad_count: int = 0
    blank_count: int = 0
    more: bool = True
    modified: float = 0.0
    problem: Unread | None = None
    hole: Hole = NO_HOLE
    retry: bool = False
    gone: bool = False
    is_rewritten: bool = False
    read_anew: bool = False

    @property
    def counts(self) -> ReadCounts:
        """What was read of the file; nothing once it is gone."""
        tail = self.reader.tail
        done, size = (0, 0) if self.gone else (tail.bytes_done, tail.size)
        return ReadCounts(done, size, self.bad_count, self.blank_count)

    @property
    def unread(self) -> Unread | None:
        """Why a part of the file was not read; None if all was."""
        if self.problem is None and self.is_rewritten:
            kept = "its former rows are shown until it is complete or rests"
            return Unread(self.reader.name, "is being rewritten", kept)
        if self.problem is not None or not self.hole.bytes or self.gone:
            return self.problem
        return Unread(
            self.reader.name,
            f"{self.hole.bytes:,} zero bytes in or beside its lines, the first at byte {self.hole.offset:,}, "
            "as after a crash of the machine or a lost write",
            "whole lines beside them were read",
        )

    def update_generation(self) -> bool:
        """Adopt the reader's generation; return whether it changed, that is, the file was replaced."""
        before, self.generation, self.read_anew = self.generation, self.reader.generation, False
        return before != self.generation

    def reset(self) -> None:
        """Discard the bad lines and counts read so far."""
        self.bad, self.bad_count, self.blank_count, self.hole = [], 0, 0, NO_HOLE

    def mark_gone(self) -> None:
        """Mark the file as deleted, so that it is read from its start if it comes back."""
        self.gone, self.more, self.problem, self.retry = True, False, None, False
        self.reader.tail.reset()

    def add_bad_lines(self, bad: list[BadLine], count: int) -> None:
        """Count bad lines, and keep the first ones with their reason."""
        self.bad_count += count
        name, room = self.reader.name, MAX_BAD_LINES - len(self.bad)
        self.bad += [BadLineAt(name, line.line, line.offset, line.reason) for line in bad[:room]]

    def number_bad_lines(self, bad: list[BadLine]) -> None:
        """Replace the bad lines without a number by ``bad``, which have one."""
        counted, self.bad_count = self.bad_count, 0
        self.bad = [line for line in self.bad if line.line]
        self.add_bad_lines(bad, counted)

    def state(self, mark: ReadPosition, unsettled: OpenFileState | None) -> FileState:
        """Return the file's state for the cache."""
        bad = [(line.line, line.offset, line.reason) for line in self.bad]
        adapter = self.reader.adapter.name
        counts = self.bad_count, self.blank_count
        return FileState(self.reader.name, self.number, adapter, mark, *counts, bad, unsettled, self.hole)

    def restore(self, state: FileState) -> None:
        """Restore bad lines and counts from the cache."""
        self.bad = [BadLineAt(self.reader.name, *bad) for bad in state.bad]
        self.bad_count, self.blank_count, self.hole = state.bad_count, state.blank_count, state.hole
