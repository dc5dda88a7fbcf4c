"""Reads ``.csv`` and ``.tsv`` files as files of lines: a row, written as a JSON object, is a line.

A row ends at a newline outside of quotes. The first row holds the names of the columns. A table whose first
row has a number where the rows below have one lacks names: its columns are ``column_1``, ``column_2``.

A cell is typed by itself. An empty one is missing, and what JSON has as a number is a number. Lists and
objects may be in JSON, in Python's notation as pandas writes it, or as numpy prints arrays. All else is text.
In a column of texts, such as ``response``, only messages are more than a text; in one of several texts, such
as ``responses``, or with a list of as many numbers in the row, lists of texts are, too.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import UTF16, open_plain
from rlpanel.sources.readers.compressed import CompressedFile, CompressedTail
from rlpanel.sources.readers.json_places import BOM
from rlpanel.sources.readers.jsonl import REASON_CHARS, JsonlFile
from rlpanel.sources.readers.tail import Block, Tail
from rlpanel.sources.records.json_parser import parse_value
from rlpanel.sources.records.messages import is_messages
from rlpanel.sources.records.record_types import BadLine, Chunk
from rlpanel.sources.records.tool_calls import python_value

SUFFIXES = (".csv", ".tsv")
#: Bytes of the first rows that are looked at; a longer header is not one.
HEAD_BYTES = 1 << 20
#: Longest cell. Python's own limit, 131,072 characters, is shorter than many responses.
_CELL_CHARS = 64 << 20
#: Longest name of a column, and fewest columns.
_NAME_CHARS, _MIN_COLUMNS = 200, 2
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_OTHER = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "true": "true", "false": "false"}
#: Columns, or ends of their names, whose cells are texts, also if they look like a number: 4.50 is not 4.5 in
#: an answer.
_TEXTS = frozenset(
    {
        *("prompt", "prompts", "question", "query", "input", "instruction", "problem", "context", "messages"),
        *("response", "responses", "completion", "completions", "output", "generation", "text", "prediction"),
        *("answer", "ground_truth", "gts", "gold", "target", "solution", "label", "reference"),
    }
)

_WORDS = re.compile(r"[^a-z]+")
#: Columns whose cells may hold several texts.
_SEVERAL = frozenset({"prompts", "responses", "completions"})
#: Lists and objects, a text in one of them, and a list of numbers as numpy prints it.
_NESTED = re.compile(r"\s*(?:\[.*\]|\{.*\})\s*", re.DOTALL)
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_ARRAY = re.compile(r"\[\s*[-+\d.eE]+(?:\s+[-+\d.eE]+)*\s*\]")
#: Rows that are compared with the first one.
_COMPARED = 5

#: Start and end of a row, and its cells.
Row = tuple[int, int, list[str]]


def split_rows(data: bytes, delimiter: str) -> Iterator[Row]:
    """Yield the rows of some bytes, which begin and end between two rows."""
    if csv.field_size_limit() < _CELL_CHARS:
        csv.field_size_limit(_CELL_CHARS)
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        while end < len(data):
            begin, newline = end, data.find(b"\n", end)
            end = newline + 1 if newline >= 0 else len(data)
            yield data[begin:end].decode("utf-8", "surrogateescape")

    start = 0
    for cells in csv.reader(lines(), delimiter=delimiter):
        yield start, end, cells
        start = end


def read_header(path: str) -> tuple[str, list[str], int]:
    """Return the delimiter, the names of the columns and the length of the header; no names without one.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with open_plain(path) as file:
        head = file.read(HEAD_BYTES)
    body = head.removeprefix(BOM)
    first = body.partition(b"\n")[0]
    wide = path.removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
    delimiter = "\t" if wide else max(",;\t", key=lambda each: first.count(each.encode()))
    _, end, names = next(split_rows(body, delimiter), (0, 0, []))
    if (count := _unnamed_columns(body, delimiter)) and body is head:
        return delimiter, [f"column_{at + 1}" for at in range(count)], 0
    is_whole = body[:end].endswith(b"\n") and len(names) >= _MIN_COLUMNS
    is_named = is_whole and all(len(name) <= _NAME_CHARS and name.isprintable() for name in names)
    return delimiter, names if is_named and len(set(names)) == len(names) else [], len(head) - len(body) + end


def _unnamed_columns(body: bytes, delimiter: str) -> int:
    """Return the number of columns of a table without their names; 0 if its first row names them."""
    rows = [cells for _, _, cells in islice(split_rows(body, delimiter), _COMPARED + 1)]
    first, others = (rows[0], rows[1:-1] or rows[1:]) if rows else ([], [])
    if len(first) < _MIN_COLUMNS or not others or any(len(row) != len(first) for row in others):
        return 0
    numbers = [at for at, cell in enumerate(first) if _NUMBER.fullmatch(cell)]
    if list(filter(None, first)) == [str(at) for at in range(len(numbers))]:
        return 0  # pandas counts columns that have no names
    return len(first) if any(all(_NUMBER.fullmatch(row[at]) for row in others) for at in numbers) else 0


def line_of(names: Sequence[str], cells: Sequence[str]) -> bytes:
    """Return a row as a JSON object; LineError if it has other columns or is not UTF-8."""
    if len(cells) != len(names):
        raise LineError(f"the row has {len(cells):,} cells, and the header {len(names):,}")
    values = [_read_nested(cell) if _is_nested(cell) else None for cell in cells]
    lists = [
        value
        for cell, value in zip(cells, values, strict=True)
        if cell[:1] == "[" and isinstance(value, list) and value
    ]
    counts = {len(value) for value in lists if all(map(_is_number, value))} if len(lists) > 1 else set()
    text = ", ".join(
        f"{json.dumps(name)}: {_value(name, cell, value, counts)}"
        for name, cell, value in zip(names, cells, values, strict=True)
        if name
    )
    try:
        return f"{{{text}}}".encode()
    except UnicodeEncodeError as error:
        raise LineError("the row holds invalid UTF-8") from error


def _value(name: str, cell: str, value: Any, counts: Collection[int]) -> str:
    """Return a cell as JSON.

    Parameters
    ----------
    name, cell : str
    value : Any
        The list or object in the cell; None for any other cell.
    counts : collection of int
        The lengths of the row's lists of numbers.
    """
    if not cell:
        return "null"
    if nested := _nested(name.lower(), value, counts):
        return nested
    if not _holds_texts(name):
        if _NUMBER.fullmatch(cell):
            return cell
        if (other := _OTHER.get(cell.lower())) is not None:
            return other
    return json.dumps(cell, ensure_ascii=False)


@lru_cache(maxsize=4096)
def _holds_texts(name: str) -> bool:
    """Return True if a column's name, or its last word, is one of texts."""
    return not _TEXTS.isdisjoint((name.lower(), _WORDS.split(name.lower())[-1]))


def _is_nested(cell: str) -> bool:
    return cell[-1:] in "]} \n" and _NESTED.fullmatch(cell) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _nested(name: str, value: Any, counts: Collection[int]) -> str:
    """Return the JSON of a cell's list or object; empty if the cell is a text."""
    if not isinstance(value, (list, dict)) or not value:
        return ""
    if name in _TEXTS and not is_messages(value):
        are_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        are_samples = name in _SEVERAL or len(value) in counts  # each text has a number
        return json.dumps(value, ensure_ascii=False) if are_samples and are_texts else ""
    return json.dumps(value, ensure_ascii=False)


def _read_nested(cell: str) -> Any:
    """Return the value of a cell in JSON's or Python's notation, or as numpy prints it; None for a text."""
    with suppress(LineError):
        return parse_value(cell)
    texts = _TEXT.findall(cell)
    if len(texts) > 1 and not _TEXT.sub("", cell.strip()[1:-1]).strip():  # Python would join such texts
        cell = f"[{', '.join(texts)}]"
    with suppress(ValueError):
        return python_value(cell)
    is_array = _ARRAY.fullmatch(cell) is not None
    with suppress(ValueError):
        return [float(number) for number in cell[1:-1].split()] if is_array else None
    return None


class _RowEnds(Tail):
    """Takes a newline inside of quotes for a part of the row."""

    _is_quoted = False  # at the end of the incomplete row

    def _last_end(self, fresh: bytes) -> int:
        data = np.frombuffer(fresh, np.uint8)
        newlines, quotes = np.flatnonzero(data == ord("\n")), np.flatnonzero(data == ord('"'))
        is_quoted = self._is_quoted if self.partial else False
        ends = newlines[(np.searchsorted(quotes, newlines) + is_quoted) & 1 == 0]
        end = int(ends[-1]) if len(ends) else -1
        after = len(quotes) - int(np.searchsorted(quotes, end))
        self._is_quoted = bool((after + (is_quoted if end < 0 else 0)) & 1)
        return end


class _RowTail(_RowEnds, Tail):
    pass


class _CompressedRowTail(_RowEnds, CompressedTail):
    pass


class CellsFile(JsonlFile):
    """Reads one ``.csv`` or ``.tsv`` file; see `record_types.RolloutFile`.

    A locator's offset and length are those of the row.
    """

    lines_on_disk = False
    _names: list[str] | None = None
    _delimiter = ","

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return _RowTail(self.path, line_bytes, end)

    def add_block(self, block: Block, chunk: Chunk) -> None:
        """Add the rows of a block to the chunk."""
        if block.skipped:
            self.lines += 1
            chunk.bad.append(BadLine(self.lines, block.offset, self._too_long(block.skipped)))
        else:
            self._add_rows(block.data[: block.length], block.offset, chunk)
        chunk.bytes += block.length
        chunk.more = block.more

    def _add_rows(self, data: bytes, offset: int, chunk: Chunk) -> None:
        header = 0
        if offset == 0 or self._names is None:
            self._delimiter, self._names, header = read_header(self.path)
        for start, end, cells in split_rows(data, self._delimiter):
            if offset + end <= header:
                continue
            if not cells:
                self.lines += 1
                chunk.blank_lines += 1
                continue
            try:
                self._add_line(line_of(self._names, cells), offset + start, chunk, end - start)
            except LineError as error:
                self.lines += 1
                chunk.bad.append(BadLine(self.lines, offset + start, str(error)[:REASON_CHARS]))

    def _is_whole(self, line: bytes) -> bool:
        rows = list(split_rows(line, self._delimiter))
        return not line.count(b'"') & 1 and bool(rows) and len(rows[-1][2]) == len(self._names or ())

    def _add_end(self, line: bytes, offset: int, chunk: Chunk) -> None:
        self._add_rows(line, offset, chunk)

    def _read_bytes(self, length: int, offset: int) -> bytes:
        row = super()._read_bytes(length, offset)
        if self._names is None:
            self._delimiter, self._names, _ = read_header(self.path)
        _, _, cells = next(split_rows(row, self._delimiter), (0, 0, []))
        try:
            return line_of(self._names, cells)
        except LineError:  # then it is found to be changed
            return row


class CompressedCellsFile(CellsFile, CompressedFile):
    """Reads one compressed ``.csv`` or ``.tsv`` file."""

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return _CompressedRowTail(self.path, line_bytes, self.packing)


class Utf16CellsFile(CompressedCellsFile):
    """Reads one ``.csv`` or ``.tsv`` file in UTF-16, as spreadsheets write it."""

    packing = UTF16


def first_lines(path: str, most: int) -> list[bytes]:
    """Return the first rows as lines; none if the first row does not name columns.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    delimiter, names, header = read_header(path)
    if not names:
        return []
    with open_plain(path) as file:
        data = file.read(HEAD_BYTES)[header:]
    found: list[bytes] = []
    for _, _, cells in split_rows(data, delimiter):
        with suppress(LineError):
            found.append(line_of(names, cells))
        if len(found) == most:
            break
    return found
