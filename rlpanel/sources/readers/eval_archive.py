"""Reads Inspect's ``.eval`` logs: a zip file whose samples are members, read as a file of lines.

A line is a log in Inspect's other format, JSON, that holds what describes the evaluation and one sample.
Inspect writes the file anew after some samples, with the earlier ones unchanged: only new members are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rlpanel.errors import LineError, SourceChanged, SourceDamaged, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import Readable, reason_of
from rlpanel.sources.files.zip_members import MAGIC, Member, list_members, read_member
from rlpanel.sources.readers.jsonl import CHUNK_RECORDS, REASON_CHARS, JsonlFile
from rlpanel.sources.readers.tail import ReadPosition, Tail, line_hash, stamp_of
from rlpanel.sources.readers.whole_file import WholeFileTail
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import BadLine, Chunk, Locator

SUFFIX = ".eval"
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)
#: Members that describe the evaluation. The first is written at the start and never again.
_START, _HEADER = "_journal/start.json", "header.json"
_HEADER_BYTES = 16 << 20
#: What each line repeats of the description.
_SPEC = ("task", "task_id", "model", "headline_metric", "packages")


class ArchiveTail(WholeFileTail):
    """Tail of a zip file; ``offset`` counts the bytes of the members that were read.

    Attributes
    ----------
    done, waiting : list of Member
        Samples that were read, and that were not read yet.
    head, foot : bytes
        What the lines begin and end with.
    """

    def __init__(self, path: str, line_bytes: int) -> None:
        super().__init__(path, line_bytes)
        self.done: list[Member] = []
        self.waiting: list[Member] = []
        self.head = self.foot = b""

    def update(self, file: Readable) -> None:
        """List the members of an open file again if it changed; of a rewritten one, all are unread."""
        status = file.stat()
        if stamp_of(status) == self._stamp:
            return
        self._stamp, self.size, self.modified = stamp_of(status), status.st_size, status.st_mtime
        try:
            (head, foot), samples = _contents(file, status.st_size)
        except (SourceUnready, SourceDamaged):
            raise
        except OSError:
            self._stamp = ()  # read it again although it did not change
            raise
        same = (head, foot) == (self.head, self.foot) and samples[: len(self.done)] == self.done
        if not same and self.done:
            self.generation += 1
        if not same:
            self.done = []
        self.head, self.foot = head, foot
        self.waiting = samples[: len(self.done) - 1 : -1] if self.done else samples[::-1]
        self._count()

    def next_member(self) -> Member:
        """Return the next sample, which counts as read."""
        member = self.waiting.pop()
        self.done.append(member)
        self._count()
        return member

    def reset(self) -> None:
        """Start a new generation: rows returned before are invalid."""
        super().reset()
        self.done, self.waiting = [], []

    def _has_unread(self) -> bool:
        return bool(self.waiting)

    def _count(self) -> None:
        read = sum(member.packed for member in self.done)
        self.offset = read if self.waiting else self.size


class EvalArchive(JsonlFile):
    """Reads one ``.eval`` file; a locator's offset is that of the member's header."""

    tail: ArchiveTail
    lines_on_disk = False

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return ArchiveTail(self.path, line_bytes)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield the new samples from about ``budget`` bytes when they are unpacked.

        Raises
        ------
        OSError
            If the file cannot be read, is incomplete or exceeds a limit.
        """
        tail = self.tail
        with file_access.follow_file(self.path) as file:
            tail.update(file)
            if tail.generation != self.generation:
                self.generation, self.lines = tail.generation, 0
            chunk = Chunk(self.generation)
            while tail.waiting and budget > 0:
                budget -= self._add_member(file, tail.next_member(), chunk)
                if len(chunk) >= CHUNK_RECORDS:
                    chunk.more = bool(tail.waiting)
                    yield chunk
                    chunk = Chunk(self.generation)
        chunk.more = bool(tail.waiting)
        yield chunk

    def mark(self, generation: int) -> ReadPosition | None:
        """Return None: the file is read from its start again."""

    def raw(self, locator: Locator) -> bytes:
        """Return a sample as a line; SourceChanged if the file has another one at this place now."""
        try:
            stamp = stamp_of(file_access.stat(self.path))
            (head, foot), members = _contents_on_disk(self.path, stamp)
            with file_access.follow_file(self.path) as file:
                line = head + read_member(file, members[locator.offset]).strip() + foot
        except (OSError, KeyError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is no longer there"
            raise SourceChanged(f"{self.name}: sample {locator.line}: {reason}") from error
        if line_hash(line) != locator.hash:
            raise SourceChanged(f"{self.name}: sample {locator.line} was rewritten since it was indexed")
        return line

    def _add_member(self, file: Readable, member: Member, chunk: Chunk) -> int:
        """Add a sample to the chunk; return its size when it is unpacked."""
        chunk.bytes += member.packed
        try:
            if member.size > self.tail.line_bytes:
                raise SourceDamaged(self._too_long(member.size))
            sample = read_member(file, member).strip()
            if not (sample.startswith(b"{") and sample.endswith(b"}")):
                raise SourceDamaged(f"{member.name[:80]!r} is not a JSON object")
        except SourceDamaged as error:
            self.lines += 1
            chunk.bad.append(BadLine(self.lines, member.offset, str(error)[:REASON_CHARS]))
            return 0
        self._add_line(self.tail.head + sample + self.tail.foot, member.offset, chunk)
        return member.size


def first_lines(path: str, most: int) -> list[bytes]:
    """Return the first sample of at most ``most`` bytes as a line, and a line without samples.

    There is no line if the file is not a zip file.

    Raises
    ------
    OSError
        If the file cannot be read, is incomplete or exceeds a limit.
    """
    with file_access.follow_file(path) as file:
        size = file.stat().st_size
        if size and file.read(4, 0) != MAGIC[:size]:
            return []
        (head, foot), samples = _contents(file, size)
        first = next((member for member in samples if member.size <= most), None)
        try:
            lines = [head + read_member(file, first).strip() + foot] if first else []
        except SourceDamaged:
            lines = []
    return [*lines, head + foot]


@lru_cache(maxsize=4)
def _contents_on_disk(path: str, stamp: tuple[int, ...]) -> tuple[tuple[bytes, bytes], dict[int, Member]]:
    """Return the contents of a file with this stamp, cached: a page of the grid requests single samples."""
    with file_access.follow_file(path) as file:
        ends, samples = _contents(file, file.stat().st_size)
    return ends, {member.offset: member for member in samples}


def _contents(file: Readable, size: int) -> tuple[tuple[bytes, bytes], list[Member]]:
    """Return what lines begin and end with, and the members that are samples."""
    members = list_members(file, size)
    named = {member.name: member for member in members}
    found = next((named[name] for name in (_START, _HEADER) if name in named), None)
    if found is None:
        raise SourceUnready(f"is not read: it has neither {_START!r} nor {_HEADER!r}, as Inspect's logs have")
    if found.size > _HEADER_BYTES:
        raise SourceUnready(f"is not read: {found.name!r} has {found.size:,} bytes")
    try:
        log = {key: to_python(value) for key, value in parse(read_member(file, found)).items()}
    except LineError as error:
        raise SourceUnready(f"is not read: {found.name!r} is {str(error)[:120]}") from error
    spec = log.get("eval")
    kept: dict[str, Any] = {key: spec[key] for key in _SPEC if key in spec} if isinstance(spec, dict) else {}
    text = json.dumps({"version": log.get("version"), "status": "", "eval": kept}, ensure_ascii=False)
    return (text[:-1].encode("utf-8", "replace") + b', "samples": [', b"]}"), [
        member for member in members if _SAMPLE.fullmatch(member.name)
    ]
