"""Reads beside the newest lines: the backlog, lines that are read again, and remote bytes all at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from rlpanel.errors import SourceChanged
from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.sources.files.file_access import (
    AnyPath,
    drop_fetched,
    fetch_ahead,
    is_remote,
    listing_version,
)
from rlpanel.sources.files.storage_requests import Span
from rlpanel.sources.readers.jsonl import ChangedLine
from rlpanel.sources.records.record_types import Adapter, changed_lines
from rlpanel.store.backlog.backlog import open_near_end
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile, RunFiles

# -- older lines ---------------------------------------------------------------------------------------
# Lines from before those that are being written: the backlog of a run, and lines that are read again.
#
# Long files are read in ranges from their ends, and their results become rows. Lines are read again if the
# adapter of their file has changed since they were read.


class BacklogRanges:
    """Queues the ranges of a run's backlog and adds their results to its content.

    Parameters
    ----------
    content : RunContent
    least_bytes : int
        Unread bytes from which on long files are read in ranges.
    """

    def __init__(self, content: RunContent, least_bytes: int) -> None:
        self._content, self._least_bytes = content, least_bytes

    def queue(self, seen: Mapping[str, RolloutFileInfo]) -> None:
        """If much is unread, queue long files in ranges, newest first, and follow them from their ends."""
        content, backlog = self._content, self._content.backlog
        unread = [
            (file, found.status)
            for name, found in seen.items()
            if (file := content.files.by_name[name]).number not in backlog
            and file not in content.rewritten
            and not file.reader.tail.open_end  # its next bytes belong to the line before
            and found.status.st_size > file.reader.tail.bytes_done
        ]
        waiting = sum(status.st_size - file.reader.tail.bytes_done for file, status in unread)
        if waiting < self._least_bytes:
            return
        opened = [
            open_near_end(file.number, file.reader, status, len(unread), backlog.range_bytes)
            for file, status in unread
        ]
        for file, _ in unread:
            content.files.wait(file)  # a reader that was moved knows the file as it is: no change is seen
        content.discard(
            [file for file, _ in unread if file.update_generation()]
        )  # replaced since the last read
        files = [unfinished for unfinished in opened if unfinished is not None]
        content.table.open_files({unfinished.file: unfinished.start for unfinished in files}, content.version)
        backlog.add(files)

    def read(self) -> None:
        """Add the results of the ranges that were read since the last time."""
        for byte_range, result in self._content.backlog.results():
            self._add(byte_range, result)

    def _add(self, byte_range: ByteRange, result: RangeResult | OSError) -> None:
        content = self._content
        file = content.files.numbered[byte_range.file]
        content.files.touch(file)
        if isinstance(result, OSError) or result.outdated:
            content.backlog.drop(byte_range.file)
            file.reader.tail.reset()  # reading the file from its start reports the problem
            content.files.wait(file)
            return
        content.bytes_read += result.bytes
        file.blank_count += result.blank_count
        file.empty_count += result.empty_count
        file.hole = file.hole.joined(result.hole)
        content.changed = True
        if result.rows is not None:
            content.table.add_rows(result.rows, content.version)
            content.note_line(file)
        if result.bad:
            content.count_bad_lines(file, [replace(bad, line=0) for bad in result.bad], result.bad_count)
        if content.backlog.add_result(byte_range, result):
            self._finish(file)

    def _finish(self, file: RunFile) -> None:
        """Assign line numbers to a file whose ranges have all been read."""
        content, finished = self._content, self._content.backlog.finish_file(file.number)
        file.reader.lines += finished.lines_before_end
        content.table.finish_file(file.number, finished.starts, finished.before, content.version)
        content.renumbered = True
        content.number_bad_lines(file, finished.bad)


#: Bytes of a compressed file that are read for one line of it.
_STRIDE = 4 << 20


class LinesAgain:
    """Reads lines again, those of `RunFiles.again`.

    Parameters
    ----------
    content : RunContent
    turn_bytes : int
        Most bytes of a file that are read in one turn.
    """

    def __init__(self, content: RunContent, turn_bytes: int) -> None:
        self._content, self._turn_bytes = content, turn_bytes

    def change_adapter(self, file: RunFile, adapter: Adapter) -> None:
        """Read a file with another adapter: the lines that read otherwise, or all if these are not known."""
        content, again = self._content, self._content.files.again
        changed = changed_lines(adapter, file.reader.adapter)
        if changed is not None and (file.number in content.backlog or file.number in again):
            return  # once these are read
        content.table.add_staged(content.version)
        lines = None if changed is None else self._lines_to_read(file, changed)
        file.reader.use(adapter)
        if lines is None:
            content.read_anew(file)
        elif lines:
            again[file.number] = lines

    def read(self) -> None:
        """Read lines again, at most ``turn_bytes`` of each file."""
        content = self._content
        for number, lines in list(content.files.again.items()):
            file, size, part = content.files.numbered[number], 0, list[ChangedLine]()
            while lines and size < self._turn_bytes:
                part.append(lines.pop())
                size += part[-1][0].length
            try:
                chunk = file.reader.read_again(part)
            except SourceChanged:  # it was rewritten, or the adapter was wrong about the lines
                content.read_anew(file)
                continue
            if not lines:
                del content.files.again[number]
            content.replace_lines(file, chunk)

    def _lines_to_read(self, file: RunFile, changed: Mapping[int, set[str]]) -> list[ChangedLine] | None:
        """Return the lines at these offsets; None if reading the whole file again is safer or faster."""
        tail = file.reader.tail
        read = {offset for offset in changed if offset < tail.offset}  # later ones are read anyway
        lines = self._content.table.locators(file.number, read)
        # A compressed file is read from a place before each line on.
        cost = sum(line.length + (0 if file.reader.lines_on_disk else _STRIDE) for line in lines)
        if len(lines) < len(read) or cost >= tail.offset or file.reader.generation != file.generation:
            return None
        return [(line, changed[line.offset]) for line in lines]


# -- remote fetch --------------------------------------------------------------------------------------
# Fetches the bytes of many remote files at once before they are read, and says whether any has changed.


#: Most files whose bytes are fetched at the same time, and most bytes.
AT_ONCE, MAX_BYTES = 1024, 32 << 20
#: Seconds after which the files are looked at although no listing has changed, and most share of such looks.
LOOK_AGAIN, SHARE = 15.0, 0.05


class RemoteFetch:
    """Fetches what the next turns of a run's files will read.

    Parameters
    ----------
    path : path
        The run's folder.
    files : RunFiles
    budget : int
        Most bytes that are read of a file in one turn.
    """

    def __init__(self, path: AnyPath, files: RunFiles, budget: int) -> None:
        self._path, self._files, self._budget = path, files, budget
        self._fetched: set[int] = set()
        self._version, self._looked, self._look_again = -1, 0.0, LOOK_AGAIN

    @classmethod
    def of(cls, path: AnyPath, files: RunFiles, budget: int) -> RemoteFetch | None:
        """Return the fetcher of a run; None for a run on this machine."""
        return cls(path, files, budget) if is_remote(path) else None

    def is_same(self) -> bool:
        """Return True if the listings show what they showed at the last call that returned False.

        It is False if a listing fails, and every `LOOK_AGAIN` seconds, or less often where looks take long.
        """
        try:
            version = listing_version(self._path)
        except OSError:
            version = -1
        now = time.monotonic()
        if version >= 0 and version == self._version and now < self._looked + self._look_again:
            return True
        self._version, self._looked = version, now
        return False

    def note_look(self) -> None:
        """Note that the files were looked at, after `is_same` returned False: that takes long if many."""
        self._look_again = max(LOOK_AGAIN, (time.monotonic() - self._looked) / SHARE)

    def before(self, file: RunFile) -> None:
        """Fetch the bytes of a file whose turn it is, and of those that follow, unless that was done."""
        if file.number not in self._fetched:
            self._fetch([file, *self._files.upcoming(AT_ONCE - 1)])
        self._fetched.discard(file.number)

    def end(self) -> None:
        """Free what was fetched and not read, once no file has unread lines."""
        if self._fetched and not self._files.has_waiting:
            self._fetched.clear()
            drop_fetched(self._path)

    def _fetch(self, files: list[RunFile]) -> None:
        spans: list[Span] = []
        self._fetched, left = set(), MAX_BYTES
        for file in files:
            wanted = file.reader.tail.next_spans(self._budget)
            left -= sum(span.end - span.start for span in wanted)
            if left < 0 and spans:
                break
            spans += wanted
            self._fetched.add(file.number)
        fetch_ahead(spans)
