"""Reads scalars from JSON lines: rlpanel's ``scalars.jsonl``, and the logs of trainers such as prime-rl."""

from __future__ import annotations

from rlpanel.errors import LineError
from rlpanel.sources.readers.tail import Tail
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import BadLine
from rlpanel.sources.scalars.scalar_source import Points, parse_row

LINE_BYTES = 16 << 20


class ScalarLines:
    """File with one object per line, a step and numbers; see `scalar_source.ScalarFile`."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._tail = Tail(path, LINE_BYTES)
        self._generation = 0
        self._lines = 0  # number of lines read in this generation

    def changed(self) -> bool:
        """Return True if the file's stat differs from the last check, or known bytes are still unread."""
        return self._tail.changed()

    def poll(self, budget: int) -> Points:
        """Read the new complete lines; an incomplete line waits for its end."""
        block = self._tail.read(budget)
        if block.generation != self._generation:
            self._generation, self._lines = block.generation, 0
        points = Points(block.generation, more=block.more)
        offset = block.offset
        if block.skipped:
            self._lines += 1
            points.bad.append(BadLine(self._lines, offset, f"the line has {block.skipped:,} bytes"))
        for line in block.lines():
            self._lines += 1
            if line and not line.isspace():
                try:
                    row = parse(line)
                    if "step" not in row or row["step"] is not None:  # prime-rl logs some over time alone
                        points.rows.append(parse_row(row))
                except LineError as error:
                    points.bad.append(BadLine(self._lines, offset, str(error)))
            offset += len(line) + 1
        return points

    def reset(self) -> None:
        """Start again at the beginning."""
        self._tail.reset()
