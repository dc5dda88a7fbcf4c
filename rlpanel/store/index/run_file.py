"""State of one file of a run, and the choice of the files to read next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rlpanel.sources.files.unreadable import Unread
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.sources.records.record_types import BadLine
from rlpanel.store.backlog.backlog import reading_order
from rlpanel.store.backlog.range_reader import MAX_BAD_LINES
from rlpanel.store.cache.saved_state import FileState, OpenFileState
from rlpanel.store.snapshot.snapshot import BadLineAt


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
        True if there may be unread lines.
    modified : float
        Modification time, as of the last listing of the folder.
    problem : Unread or None
        Reason why the file cannot be read at the moment; None if it can.
    retry : bool
        True if the unchanged file is read again, because the problem may be temporary.
    gone : bool
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
    retry: bool = False
    gone: bool = False

    def update_generation(self) -> bool:
        """Adopt the reader's generation; return whether it changed, that is, the file was replaced."""
        before, self.generation = self.generation, self.reader.generation
        return before != self.generation

    def reset(self) -> None:
        """Discard the bad lines and counts read so far."""
        self.bad, self.bad_count, self.blank_count = [], 0, 0

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

    def state(self, since: int, mark: ReadPosition, unsettled: OpenFileState | None) -> FileState:
        """Return the file's state for the cache."""
        bad = [(line.line, line.offset, line.reason) for line in self.bad]
        adapter = self.reader.adapter.name
        counts = self.bad_count, self.blank_count
        return FileState(self.reader.name, self.number, adapter, since, mark, *counts, bad, unsettled)

    def restore(self, state: FileState) -> None:
        """Restore bad lines and counts from the cache."""
        self.bad = [BadLineAt(self.reader.name, *bad) for bad in state.bad]
        self.bad_count, self.blank_count = state.bad_count, state.blank_count


def files_to_read(files: Iterable[RunFile], only: set[str] | None) -> tuple[list[RunFile], list[RunFile]]:
    """Return the files that changed, and the unchanged ones with unread lines, newest first.

    Parameters
    ----------
    files : iterable of RunFile
    only : set of str or None
        Paths that may have changed; None checks all files.
    """
    changed, waiting = [], []
    for file in files:
        if file.gone:
            continue
        listed = only is not None and file.reader.path in only
        if file.more:
            (changed if listed else waiting).append(file)
        elif (listed or only is None or file.problem) and (file.retry or file.reader.tail.changed()):
            changed.append(file)
    # Files written at about the same time take turns: the one with fewer bytes read goes first.
    waiting.sort(
        key=lambda file: (*reading_order(file.reader.name, file.modified), file.reader.tail.bytes_done)
    )
    return changed, waiting
