"""Finds how a file holds its records: as lines, rows, a document, or items of a list.

A file's suffix says what may be in it, and its first bytes what is. The first records are given as JSON
objects, whatever holds them, so that each format is recognised in each container. Only a bounded part of a
file is read for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rlpanel.errors import SourceUnready
from rlpanel.sources.files.decompress import SUFFIXES as PACKED
from rlpanel.sources.files.decompress import DecompressedStream, open_plain
from rlpanel.sources.readers import cells, document_items, eval_archive, table_files, whole_file
from rlpanel.sources.readers.compressed import CompressedFile, Utf16File
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.whole_file import SessionFile, events_line, is_session
from rlpanel.sources.records.json_parser import is_whole
from rlpanel.sources.records.record_types import Adapter

#: Suffixes of files that hold lines, and of documents. A suffix of compression may follow.
LINES_SUFFIXES, DOCUMENT_SUFFIXES = (".jsonl", ".ndjson"), (".json", ".traj")
#: Bytes and lines of a file that are searched for a line of a known format; the first line may be longer.
SNIFF_BYTES, SNIFF_LINES = 1 << 20, 20
#: Longest first line that is parsed, and longest document whose name says what it is.
SNIFF_LINE_BYTES = 64 << 20


@dataclass(frozen=True)
class Container:
    """How a file holds its records.

    Attributes
    ----------
    kind : str
        ``lines``, ``utf-16 lines``, ``document``, ``items``, ``cells``, ``utf-16 cells``, ``parquet``,
        ``arrow``, ``archive`` or ``sqlite``.
    keys : tuple of str or None
        Keys that lead to the list with the items; None for documents that follow one another.
    """

    kind: str
    keys: tuple[str, ...] | None = ()

    @property
    def grows(self) -> bool:
        """True if what was written is read while more is written."""
        return self.kind in ("lines", "utf-16 lines", "cells", "utf-16 cells")


UTF16_CELLS = Container("utf-16 cells")
LINES, UTF16_LINES, DOCUMENT = Container("lines"), Container("utf-16 lines"), Container("document")
CELLS, PARQUET, ARROW, ARCHIVE, SQLITE = map(Container, ("cells", "parquet", "arrow", "archive", "sqlite"))


@dataclass(frozen=True)
class Content:
    """First records of a file in one of the ways in which it may be read.

    Attributes
    ----------
    container : Container
    lines : list of bytes
        The first records, as JSON.
    final : bool
        Whether they are enough to decide, also while the file grows.
    is_document : bool
        Whether only formats that are documents are meant: what is in the document comes first otherwise.
    """

    container: Container
    lines: list[bytes]
    final: bool = False
    is_document: bool = False


def plain_name(name: str) -> str:
    """Return a name or path without the suffix of compression."""
    return name.rpartition(".")[0] if name.endswith(PACKED) else name


def container_of(name: str) -> Container | None:
    """Return the usual container of files with this name; None for files that are not read."""
    plain = plain_name(name)
    if plain.endswith(LINES_SUFFIXES):
        return LINES
    if plain.endswith(cells.SUFFIXES):
        return CELLS
    if plain.endswith(DOCUMENT_SUFFIXES) or (plain != name and "." not in plain):
        return DOCUMENT
    others = {
        table_files.SUFFIX: PARQUET,
        eval_archive.SUFFIX: ARCHIVE,
        table_files.SQLITE_SUFFIX: SQLITE,
        **dict.fromkeys(table_files.ARROW_SUFFIXES, ARROW),
    }
    return next((container for suffix, container in others.items() if name.endswith(suffix)), None)


def read_contents(path: str, *, most: int = 0) -> Iterator[Content]:
    """Yield what a file holds, in the ways in which it may be read, the likeliest first.

    Parameters
    ----------
    path : str
    most : int
        Bytes of a document that are read to decide what it is; only its head by default.

    Raises
    ------
    OSError
        If the file cannot be read.
    SourceUnready
        If it is a document that is incomplete or has more bytes.
    """
    container = container_of(path) or LINES
    if container in (PARQUET, ARROW):
        yield Content(container, table_files.first_lines(path, SNIFF_LINES), final=True)
    elif container == ARCHIVE:
        yield Content(container, eval_archive.first_lines(path, SNIFF_LINE_BYTES))
    elif container == SQLITE:
        yield Content(container, table_files.first_traces(path, SNIFF_LINES, SNIFF_LINE_BYTES))
    elif container == CELLS:
        with open_plain(path) as file:
            is_recoded = isinstance(file.raw, DecompressedStream) and not path.endswith(PACKED)
        container = UTF16_CELLS if is_recoded else container
        yield Content(container, cells.first_lines(path, SNIFF_LINES), final=True)
    elif container == LINES:
        lines, final, container = _first_lines(path)
        yield Content(container, lines, final)
        if not lines or not is_whole(lines[0]) or lines[0].lstrip().startswith(b"["):
            yield from _documents(path, most, is_named=False)
    else:
        yield from _documents(path, most, is_named=True)


def _documents(path: str, most: int, *, is_named: bool) -> Iterator[Content]:
    """Yield what a document holds; ``is_named`` if its name says that it is one."""
    head, is_end = document_items.read_head(path, most)
    text = head.strip()
    if not text.startswith((b"{", b"[")):
        if not text and is_named:
            raise SourceUnready("is incomplete or damaged (it is empty)")
        return
    first, _, rest = text.partition(b"\n")
    if is_named and rest.strip() and first.startswith(b"{") and is_whole(first):
        lines, final, container = _first_lines(path)
        yield Content(container, lines, final)
        return
    parts = document_items.find_parts(head)
    is_one = is_end and text.startswith(b"{") and all(part.keys is not None for part in parts)
    if is_end and not parts and text.startswith(b"["):  # perhaps the messages of one sample
        yield Content(DOCUMENT, [events_line(text)], is_document=True)
    if is_one and parts:
        yield Content(DOCUMENT, [text], is_document=True)
    for part in parts:
        yield Content(Container("items", part.keys), list(part.first))
    if is_one and (is_named or is_whole(text)):
        yield Content(DOCUMENT, [text])
    if is_named or first.strip() in (b"{", b"["):  # otherwise it is the first part of a line
        if is_one:
            whole_file.check_complete(text)
        elif not (is_end or parts):
            raise SourceUnready(f"has more than {len(head):,} bytes, which is the limit")


def first_lines(path: str) -> tuple[list[bytes], bool]:
    """Return the first records as JSON objects, at most 20, and whether they are enough to decide the format.

    Of a document with a list of samples, the samples are the records.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    found: Content | None = None
    for content in read_contents(path):
        if content.lines and not content.is_document and (found is None or content.container.kind == "items"):
            found = content
            if content.container.kind == "items":
                break
    return (found.lines[:SNIFF_LINES], found.final) if found else ([], False)


def _first_lines(path: str) -> tuple[list[bytes], bool, Container]:
    """Return the first complete non-blank lines, whether they are enough to decide, and their container.

    The last line is complete without a newline if it is a whole JSON value. Zero bytes around lines are left
    out.
    """
    lines: list[bytes] = []
    bytes_read = 0
    with open_plain(path) as file:
        is_recoded = isinstance(file.raw, DecompressedStream) and not path.endswith(PACKED)
        container = UTF16_LINES if is_recoded else LINES
        while bytes_read < SNIFF_BYTES and len(lines) < SNIFF_LINES:
            line = file.readline(SNIFF_LINE_BYTES)
            bytes_read += len(line)
            text = line.rstrip(b"\n").strip(b"\0")
            if not line.endswith(b"\n"):
                lines += [text] if text and is_whole(text) else []
                return lines, len(line) == SNIFF_LINE_BYTES, container
            if text and not text.isspace():
                lines.append(text)
    return lines, True, container


def open_reader(
    container: Container | None, path: str, name: str, adapter: Adapter, line_bytes: int
) -> JsonlFile:
    """Return the reader of a file in a container, by default the usual one of its name."""
    container, is_packed = container or container_of(name) or LINES, name.endswith(PACKED)
    readers: dict[str, Callable[[str, str, Adapter, int], JsonlFile]] = {
        "lines": CompressedFile if is_packed else JsonlFile,
        "utf-16 lines": Utf16File,
        "utf-16 cells": cells.Utf16CellsFile,
        "cells": cells.CompressedCellsFile if is_packed else cells.CellsFile,
        "document": whole_file.DocumentFile,
        "items": partial(document_items.ItemsFile, keys=container.keys),
        "parquet": table_files.ParquetFile,
        "arrow": table_files.ArrowFile,
        "archive": eval_archive.EvalArchive,
        "sqlite": table_files.SqliteFile,
    }
    opened = SessionFile if is_session(adapter) else readers[container.kind]
    reader = opened(path, name, adapter, line_bytes)
    reader.container = container
    return reader
