"""What the index of a run knows of one of its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rlpanel.sources.files.unread import Unread
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import Mark
from rlpanel.sources.records.record_types import BadLine
from rlpanel.store.backlog.backlog import age
from rlpanel.store.backlog.range_reader import BAD_KEPT
from rlpanel.store.cache.run_cache import FileState, OpenFileState
from rlpanel.store.snapshot.snapshot import BadLineAt


@dataclass
class RunFile:
    """One file of a run.

    Attributes
    ----------
    number : int
    reader : JsonlFile
    generation : int
        The one whose rows live.
    bad : list of BadLineAt
        The first bad lines; line 0 while it is not known how many lines stand before.
    more : bool
        Whether lines may be waiting.
    modified : float
        When it was last written, as of the last listing of the folder.
    problem : Unread or None
        Why it cannot be read just now; None while it can.
    retry : bool
        Whether what keeps it from being read may end although the file stays as it is.
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

    def renewed(self) -> bool:
        """Whether what was read of it last is of another generation than what was read before."""
        before, self.generation = self.generation, self.reader.generation
        return before != self.generation

    def forget(self) -> None:
        """What was read of it is void."""
        self.bad, self.bad_count, self.blank_count = [], 0, 0

    def keep_bad(self, bad: list[BadLine], count: int) -> None:
        """Count bad lines, and keep the first with their reason."""
        self.bad_count += count
        name, room = self.reader.name, BAD_KEPT - len(self.bad)
        self.bad += [BadLineAt(name, line.line, line.offset, line.reason) for line in bad[:room]]

    def renumber(self, bad: list[BadLine]) -> None:
        """All bad lines that came in any order, with their numbers."""
        counted, self.bad_count = self.bad_count, 0
        self.bad = [line for line in self.bad if line.line]
        self.keep_bad(bad, counted)

    def state(self, since: int, mark: Mark, unsettled: OpenFileState | None) -> FileState:
        """As it is saved."""
        bad = [(line.line, line.offset, line.reason) for line in self.bad]
        adapter = self.reader.adapter.name
        counts = self.bad_count, self.blank_count
        return FileState(self.reader.name, self.number, adapter, since, mark, *counts, bad, unsettled)

    def restore(self, state: FileState) -> None:
        """As it was saved."""
        self.bad = [BadLineAt(self.reader.name, *bad) for bad in state.bad]
        self.bad_count, self.blank_count = state.bad_count, state.blank_count


def files_to_read(files: Iterable[RunFile], only: set[str] | None) -> tuple[list[RunFile], list[RunFile]]:
    """Files that changed, of those in ``only`` (all for None), and files with lines waiting, newest first."""
    changed, waiting = [], []
    for file in files:
        if file.gone:
            continue
        told = only is not None and file.reader.path in only
        if file.more:
            (changed if told else waiting).append(file)
        elif (told or only is None or file.problem) and (file.retry or file.reader.tail.changed()):
            changed.append(file)
    # Files that grew together take turns.
    waiting.sort(key=lambda file: (*age(file.reader.name, file.modified), file.reader.tail.done))
    return changed, waiting
