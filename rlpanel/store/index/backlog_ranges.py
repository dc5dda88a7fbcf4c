"""The backlog of a run: long files are read in ranges from their ends, and their results become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.store.backlog.backlog import open_near_end
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile


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
