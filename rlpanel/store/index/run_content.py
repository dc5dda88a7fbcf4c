"""What was read of a run's files: chunks of lines become rows and bad lines, those of replaced files go.

Everything comes in here: new lines, whole files that were replaced or deleted, and new content that is held
back while a file is being rewritten. `older_lines` adds the ranges of a backlog, and replaces lines that an
adapter reads otherwise now.

A trainer that resumes writes the file of a step again, in pieces. Until the new content has as many rows as
the former one, or the file rests, it is held back; then it replaces the former rows in one snapshot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rlpanel.errors import SourceDamaged, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import Unread, reason_of
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import BadLine, Chunk
from rlpanel.store.backlog.backlog import Backlog
from rlpanel.store.cache.saved_state import FileState
from rlpanel.store.columns.row_table import RowTable
from rlpanel.store.index.run_files import RunFile, RunFiles
from rlpanel.store.snapshot.sample_places import BadLineAt

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


class RunContent:
    """Rows and bad lines of a run, as its files are read.

    Parameters
    ----------
    files : RunFiles
    table : RowTable
    backlog : Backlog
    rest : float
        Seconds for which a file must not grow until it counts as complete.
    version : int
        Version of the next snapshot.
    bytes_read : int
        Bytes read before.

    Attributes
    ----------
    bytes_read : int
        Bytes read so far, including those of files that were replaced since.
    newest_line : float
        Modification time of the file with the newest line, in seconds since the epoch.
    changed : bool
        True if something was read or dropped since the last snapshot.
    has_new_lines : bool
        True if some of it are not old lines of a backlog.
    renumbered : bool
        True if line numbers of saved rows have changed since the last save.
    deleted : dict of str to int
        Files and objects that were deleted since the run was opened, with the number of their samples.
    """

    def __init__(
        self, files: RunFiles, table: RowTable, backlog: Backlog, rest: float, version: int, bytes_read: int
    ) -> None:
        self.files, self.table, self.backlog = files, table, backlog
        self.rewritten = RewrittenFiles(rest)
        self.version, self.bytes_read = version, bytes_read
        self.newest_line = 0.0
        self.changed = self.has_new_lines = self.renumbered = False
        self.deleted: dict[str, int] = {}
        self._rest = rest
        self._bad_lines: tuple[BadLineAt, ...] | None = ()

    @property
    def bad_lines(self) -> tuple[BadLineAt, ...]:
        """The first bad lines of each file."""
        if self._bad_lines is None:
            self._bad_lines = tuple(bad for file in self.files.numbered for bad in file.bad)
        return self._bad_lines

    def read(self, file: RunFile, chunks: Iterator[Chunk]) -> None:
        """Add what a file's reader yields, and note why it cannot be read."""
        try:
            for chunk in chunks:
                self._add_chunk(file, chunk)
            file.problem, file.retry = None, False
        except SourceDamaged as error:
            file.problem = Unread(file.reader.name, str(error), "what comes before is kept")
            file.more = False
        except OSError as error:
            file.problem = Unread(file.reader.name, reason_of(error))
            file.more, file.retry = False, not isinstance(error, SourceUnready)
        except BaseException:
            file.reader.tail.reset()  # bytes that were read but not added must be read again
            raise

    def read_ends(self, *, all_files: bool) -> None:
        """Read the last lines of files that have rested, or of all files; see `RestingFiles.due`."""
        for file, reported in self.files.resting.due(all_files=all_files):
            self.read(file, file.reader.read_end())
            if not (reported or file.retry):
                file.problem = None  # the writer may be about to complete it
            if file.more:
                self.files.wait(file)
            self.files.touch(file)
        if self.rewritten.held:
            self._show_rewritten(all_files=all_files)

    def commit(self) -> None:
        """Begin with the next version; what was read so far belongs to this one."""
        self.version += 1
        self.changed = self.has_new_lines = False

    def add_staged(self) -> None:
        """Add the rows that wait, and count the lines whose samples could not be converted to columns."""
        self.table.add_staged(self.version)
        stage = self.table.stage
        rejected, stage.rejected = stage.rejected, []
        for number, line in rejected:
            known = number not in self.backlog  # otherwise its number is counted from the start of a range
            file = self.files.numbered[number]
            file.add_bad_lines([line if known else replace(line, line=0)], 1)
            self.files.touch(file)
            self._bad_lines = None

    def add_bad_lines(self, file: RunFile, bad: list[BadLine]) -> None:
        """Add bad lines of a file, without their numbers while these are not known."""
        if not bad:
            return
        if file.number in self.backlog:
            self.backlog.add_live_bad_lines(file.number, bad)
            bad = [replace(line, line=0) for line in bad]
        self.count_bad_lines(file, bad, len(bad))

    def count_bad_lines(self, file: RunFile, bad: list[BadLine], count: int) -> None:
        """Count bad lines of a file, of which the first are kept."""
        file.add_bad_lines(bad, count)
        self._bad_lines = None

    def number_bad_lines(self, file: RunFile, bad: list[BadLine]) -> None:
        """Replace the bad lines of a file that have no number by ``bad``, which have one."""
        file.number_bad_lines(bad)
        self._bad_lines = None

    def restore(self, file: RunFile, state: FileState) -> None:
        """Restore what the cache says of a file."""
        file.restore(state)
        self._bad_lines = None

    def note_line(self, file: RunFile) -> None:
        """Note when the newest line of a file was written."""
        self.newest_line = max(self.newest_line, min(file.reader.tail.modified, time.time()))

    def discard(self, files: list[RunFile]) -> None:
        """Discard everything read from these files, because they were replaced or deleted."""
        if not files:
            return
        self.add_staged()
        for file in files:
            file.reset()
            self.files.touch(file)
            self.files.again.pop(file.number, None)
            self.rewritten.take(file)
            self.backlog.drop(file.number)
        self._bad_lines = None
        self.changed = True
        self.table.mark_dead([file.number for file in files], self.version)

    def read_anew(self, file: RunFile) -> None:
        """Read a file from its start; its rows are shown until its first chunk replaces them."""
        self.files.again.pop(file.number, None)
        self.rewritten.take(file)
        file.read_anew = True
        file.reader.tail.reset()
        self.files.wait(file)

    def open_anew(self, file: RunFile, reader: JsonlFile) -> None:
        """Read a file from its start with another reader, because it holds its records in another way now."""
        self.discard([file])
        file.reader, file.generation, file.problem = reader, reader.generation, None
        self.files.wait(file)

    def replace_lines(self, file: RunFile, chunk: Chunk) -> None:
        """Replace the rows of lines that were read again."""
        self.bytes_read += chunk.bytes
        self.table.replace_lines(file.number, chunk, self.version)
        self.add_bad_lines(file, chunk.bad)
        self.changed = self.has_new_lines = True

    def discard_all(self) -> None:
        """Discard everything, and read all files from their start."""
        files = [file for file in self.files.numbered if not file.gone]
        for file in files:
            file.reader.tail.reset()
            self.files.wait(file)
        self.discard(files)

    def begins_anew(self, file: RunFile) -> bool:
        """Return True if a file was emptied or begun again a moment ago, so no format accepts it yet."""
        if not file.reader.grows or not self.table.count_rows(file.number):
            return False
        try:
            changed = file_access.stat(file.reader.tail.path).st_mtime
        except OSError:  # deleted
            return False
        # The clock of another machine may have set the time.
        return abs(time.time() - changed) < self._rest

    # -- inside ----------------------------------------------------------------------------------

    def _add_chunk(self, file: RunFile, chunk: Chunk) -> None:
        """Add a chunk read from a file, unless it is held back because the file is being rewritten."""
        file.more = chunk.more
        self.bytes_read += chunk.bytes
        if file.generation == file.reader.generation:
            self._take_chunk(file, chunk)
            return
        self.table.add_staged(self.version)  # the rows of its former content are counted
        if file not in self.rewritten and not self._is_rewritten(file):
            self._replace(file, [chunk])
        elif self.rewritten.hold(file, chunk, self.table.count_rows(file.number)):
            self._replace(file, self.rewritten.take(file))

    def _is_rewritten(self, file: RunFile) -> bool:
        """Return True if the new content of a file may be incomplete, while its former rows are shown."""
        is_whole = file.read_anew or not file.reader.grows or file.number in self.table.backlog_starts
        return not is_whole and self.table.count_rows(file.number) > 0

    def _show_rewritten(self, *, all_files: bool) -> None:
        """Let the new content of files replace their former rows once it is complete."""
        for file in self.rewritten.due(all_files=all_files):
            self._replace(file, self.rewritten.take(file))

    def _replace(self, file: RunFile, chunks: list[Chunk]) -> None:
        """Let new content replace everything that was read from a file."""
        file.update_generation()
        self.discard([file])
        for chunk in chunks:
            self._take_chunk(file, chunk)

    def _take_chunk(self, file: RunFile, chunk: Chunk) -> None:
        file.blank_count += chunk.blank_lines
        file.empty_count += chunk.empty_lines
        file.hole = file.hole.joined(chunk.hole)
        if len(chunk):
            self.table.add_chunk(file.number, chunk, self.version)
        self.add_bad_lines(file, chunk.bad)
        if len(chunk) or chunk.bad:
            self.note_line(file)
            self.changed = self.has_new_lines = True
