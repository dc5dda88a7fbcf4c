"""Lines that are read again, because the adapter of their file has changed since they were read."""

from __future__ import annotations

from collections.abc import Mapping

from rlpanel.errors import SourceChanged
from rlpanel.sources.readers.jsonl import ChangedLine
from rlpanel.sources.records.record_types import Adapter, changed_lines
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile

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
