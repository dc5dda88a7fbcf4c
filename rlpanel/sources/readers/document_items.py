"""Reads the samples in a JSON document: items of a list, rows of a table, documents that follow one another.

Each item is a line of its own, found by its place in the document, so that any one can be read again alone. A
table has ``columns`` and ``data``, as W&B and pandas (``orient="split"``) write it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel.errors import LineError, SourceDamaged, SourceUnready
from rlpanel.sources.files.decompress import DecompressedStream, open_plain
from rlpanel.sources.readers.json_places import (
    BLOCK_BYTES,
    FoundList,
    Outline,
    Places,
    find_items,
    find_values,
    split_cells,
    text_start,
)
from rlpanel.sources.readers.jsonl import CHUNK_RECORDS
from rlpanel.sources.readers.whole_file import WholeFile
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import BadLine, Chunk

#: Bytes of a document in which its lists are searched, also if its first sample is longer.
HEAD_BYTES, _LONG_BYTES = 4 << 20, 64 << 20
#: A compressed document is refused if it grows more than this when it is decompressed, see `compressed`.
_WINDOW_BYTES, _MAX_RATIO = 32 << 20, 256
#: Keys of a table's column names and of its rows.
_COLUMNS, _ROWS = "columns", "data"


@dataclass(frozen=True)
class ListPart:
    """The part of a document whose items are samples.

    Attributes
    ----------
    keys : tuple of str or None
        Keys that lead to a list; None for documents that follow one another.
    offset : int
        Offset after the list's bracket.
    columns : tuple of bytes
        The columns' names with a colon, as JSON, if the items are the rows of a table.
    first : tuple of bytes
        Its first samples, as JSON objects.
    around : bytes
        Beginning of the object whose only value is an item, if the items are lists: ``{"messages": ``.
    """

    keys: tuple[str, ...] | None
    offset: int = 0
    columns: tuple[bytes, ...] = ()
    first: tuple[bytes, ...] = ()
    around: bytes = b""

    def places(self, blocks: Iterator[bytes]) -> Places:
        """Return the places of the items; ``blocks`` begin at `offset`."""
        return find_values(blocks) if self.keys is None else find_items(blocks, self.offset)

    def line_of(self, item: bytes) -> bytes:
        """Return an item as a JSON object; LineError if a row of a table has other columns."""
        if self.around:
            return b"%b%b}" % (self.around, item)
        if not self.columns:
            return item
        cells = split_cells(item)
        if len(cells) != len(self.columns):
            raise LineError(f"the row has {len(cells):,} values, and the table {len(self.columns):,} columns")
        return b"{" + b", ".join(map(bytes.__add__, self.columns, cells)) + b"}"


#: Keys under which programs write their list of samples, the usual ones first; others are tried last.
_LISTS = (
    *("samples", "trajectories", "rollouts", "results", "records", "examples", "items", "data", "rows"),
    *("outputs", "generations", "completions", "responses", "episodes", "predictions", "instances"),
)
#: Keys of lists that are a part of one sample.
_PARTS = {
    (name,)
    for name in (
        *("messages", "conversation", "conversations", "history", "chat", "dialog", "dialogue", "content"),
        *("steps", "turns", "trajectory", "trace", "events", "actions", "observations", "parts", "choices"),
        *("tools", "tool_calls", "logprobs", "children", "spans", "traces"),
    )
}
#: Start of a list whose first item may be too long for the head.
_LONG_ITEM = re.compile(rb"\[\s*[{\[]")
#: Words beside one another, or letters beyond ASCII: only texts have them.
_SENTENCE = re.compile(rb"\w \w|[\x80-\xff]{6}|(?:\\u[0-9a-f]{4}){2}", re.IGNORECASE)
#: Most bytes of a key and what follows it, of which a block may have the beginning.
_MAX_KEY_BYTES = 256
#: Longest list in a list that is looked at.
_NESTED_BYTES = 1 << 20
#: A list whose items have these keys is a conversation.
_MESSAGES = ({"role", "content"}, {"from", "value"})


def find_parts(head: bytes) -> list[ListPart]:
    """Return the parts of a document that may hold samples, the likeliest first, from its first bytes."""
    outline = Outline(head)
    found = outline.lists()
    tables = [part for each in found if (part := _table(each, found)) is not None]
    nested = [part for each in found if not each.keys and (part := _lists_in_list(each)) is not None]
    lists = [each for each in found if _may_hold_samples(each)]
    lists.sort(key=lambda each: _LISTS.index(each.keys[-1]) if each.keys and each.keys[-1] in _LISTS else 99)
    several = outline.values()
    if len(several) > 1:  # a list is in the first document only
        return [ListPart(None, 0, (), tuple(several))]
    return [*tables, *nested, *(ListPart(each.keys, each.offset, (), tuple(each.items)) for each in lists)]


def _may_hold_samples(found: FoundList) -> bool:
    """Return True for a list of objects that are not the parts of one sample."""
    if not found.items or not found.items[0].startswith(b"{") or found.keys[-1:] in _PARTS:
        return False
    try:
        keys = parse(found.items[0]).keys()
    except LineError:
        return True
    return not any(message <= keys for message in _MESSAGES)


def _lists_in_list(found: FoundList) -> ListPart | None:
    """Return the lists that a document's list holds; None if they are not conversations, texts or choices."""
    try:
        lists = [json.loads(item) for item in found.items if len(item) <= _NESTED_BYTES]
    except (ValueError, RecursionError):
        return None
    if not lists or not all(isinstance(each, list) and each for each in lists):
        return None
    items = [item for each in lists for item in each]
    if all(isinstance(item, str) for item in items):
        key = "completions"
    elif all(isinstance(item, dict) and any(keys <= item.keys() for keys in _MESSAGES) for item in items):
        key = "messages"
    elif all(isinstance(item, dict) and {"message", "text"} & item.keys() for item in items):
        key = "choices"
    else:
        return None
    around = b'{"%b": ' % key.encode()
    return ListPart(
        found.keys, found.offset, (), tuple(b"%b%b}" % (around, each) for each in found.items), around
    )


def _table(found: FoundList, lists: list[FoundList]) -> ListPart | None:
    """Return the rows of a table whose columns are named beside them; None if it is not one."""
    named = next((each for each in lists if each.keys == (*found.keys[:-1], _COLUMNS)), None)
    if found.keys[-1:] != (_ROWS,) or named is None or not named.is_whole:
        return None
    try:
        names = json.loads(b"[%b]" % b",".join(named.items))
    except ValueError:
        return None
    if not names or not all(isinstance(name, str) for name in names):
        return None
    part = ListPart(found.keys, found.offset, tuple(json.dumps(name).encode() + b": " for name in names))
    first = []
    for item in found.items:
        try:
            first.append(part.line_of(item))
        except LineError:
            continue
    return ListPart(part.keys, part.offset, part.columns, tuple(first))


class ItemsFile(WholeFile):
    """Reads the items of a list in a JSON document, or documents that follow one another, as lines.

    A locator's offset and length are those of the item.
    """

    def __init__(self, *arguments: object, keys: tuple[str, ...] | None, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._keys = keys
        self._part = ListPart(keys)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield the samples if the file changed, in chunks of about a thousand; ``budget`` is ignored.

        Raises
        ------
        OSError
            If the file cannot be read or is incomplete. Samples before its end are yielded if it had no rows.
        """
        if not self.tail.note_change():
            yield Chunk(self.generation)
            return
        self._part = self._find_part()
        with self._open(self._part.offset) as file:
            places = self._part.places(self._blocks(file))
            cut_off = isinstance(file.raw, DecompressedStream) and file.raw.is_cut
        if not places.is_whole and (self.tail.offset or not len(places.ends)):
            raise SourceUnready("is incomplete or damaged (it ends inside of a list or an object)")
        self.tail.mark_read()
        self.generation, self.lines = self.tail.generation, 0
        yield from self._chunks(places)
        if cut_off or not places.is_whole:
            raise SourceDamaged("is cut off, or still being written: it ends inside of a list or an object")

    def _further_lists(self, places: Places) -> list[BadLine]:
        """Return what says how many lists with the same key follow, as one for each model; else nothing."""
        keys = self._keys or ()
        if len(keys) < 2 or not len(places.ends):
            return []
        end, count, rest = int(places.ends[-1]), 0, b""
        pattern = re.compile(rb"%b\s*:\s*\[\s*\{" % re.escape(json.dumps(keys[-1]).encode()))
        with self._open(end) as file:
            for block in self._blocks(file):
                text = rest + block
                found = list(pattern.finditer(text))
                count += len(found)
                rest = text[max(found[-1].end() if found else 0, len(text) - _MAX_KEY_BYTES) :]
        if not count:
            return []
        path = ".".join(("*",) * (len(keys) - 1) + (keys[-1],))
        reason = (
            f"{count:,} more lists under {keys[-1]!r} are not read; --map with {path}.*.KEY reads them all"
        )
        self.lines += 1
        return [BadLine(self.lines, end, reason)]

    def _find_part(self) -> ListPart:
        head, _ = read_head(self.path)
        found = next((part for part in find_parts(head) if part.keys == self._keys), None)
        if found is None and self._keys is not None:
            where = ".".join(self._keys) or "the document"
            raise SourceUnready(f"is incomplete or damaged (there is no list of samples in {where})")
        return found or ListPart(None)

    def _open(self, offset: int) -> io.BufferedReader:
        file = open_plain(self.path)
        self.note_packing(file)
        self.lines_on_disk &= not (self._part.columns or self._part.around)
        if isinstance(file.raw, DecompressedStream):
            file.raw.skip_to(offset)
        else:
            file.seek(offset)
        return file

    def _blocks(self, file: io.BufferedReader) -> Iterator[bytes]:
        """Yield the file's further bytes; SourceDamaged if they took almost none on disk."""
        plain, most = 0, max(_WINDOW_BYTES, self.tail.size * _MAX_RATIO)
        while block := file.read(BLOCK_BYTES):
            plain += len(block)
            if plain > most and isinstance(file.raw, DecompressedStream):
                times = plain // max(self.tail.size, 1)
                raise SourceDamaged(f"it grows {times:,}-fold when decompressed, unlike any log")
            yield block

    def _chunks(self, places: Places) -> Iterator[Chunk]:
        chunk, size, at = Chunk(self.generation), self.tail.size, self._part.offset
        chunk.bytes = size
        with self._open(at) as file:
            for start, end in places:
                if end - start > self.tail.line_bytes:
                    self.lines += 1
                    chunk.bad.append(BadLine(self.lines, start, self._too_long(end - start)))
                    continue
                if start > at:
                    _skip(file, start - at)
                self._add_item(file.read(end - start), start, chunk)
                at = end
                if len(chunk) >= CHUNK_RECORDS:
                    yield chunk
                    chunk = Chunk(self.generation)
        chunk.bad += self._further_lists(places) if places.is_whole else []
        yield chunk

    def _add_item(self, item: bytes, offset: int, chunk: Chunk) -> None:
        blanks = b" \t\r\n,\0" if self._keys is None else b" \t\r\n\0"
        body = item.lstrip(blanks)
        offset, body = offset + len(item) - len(body), body.rstrip(blanks)
        if not body:
            return
        try:
            self._add_line(self._part.line_of(body), offset, chunk, len(body))
        except LineError as error:
            self.lines += 1
            chunk.bad.append(BadLine(self.lines, offset, str(error)))

    def _read_bytes(self, length: int, offset: int) -> bytes:
        item = super()._read_bytes(length, offset)
        try:
            return self._part.line_of(item)
        except LineError:  # then it is found to be changed
            return item


def _skip(file: io.BufferedReader, length: int) -> None:
    while length > 0 and (part := file.read(min(length, BLOCK_BYTES))):
        length -= len(part)


def _holds_samples_by_id(head: bytes) -> bool:
    """Return True for an object of objects with the same keys, the first of which holds a sentence."""
    if not head.lstrip().startswith(b"{"):
        return False
    members = Outline(head).members()[:3]
    if len(members) < 2 or not _SENTENCE.search(members[0]):
        return False
    try:
        shared = set.intersection(*(set(json.loads(each)) for each in members))
    except (ValueError, RecursionError):
        return False
    return len(shared) > 1


def read_head(path: str, most: int = 0) -> tuple[bytes, bool]:
    """Return the first bytes of a document, and whether they are all.

    These are ``most`` bytes. By default they are those of its head, or more if the first sample of a list is
    longer, or if its object holds samples by their ids. What comes before the first character is replaced by
    blanks: offsets stay those of the file.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with open_plain(path) as file:
        head = file.read(most or HEAD_BYTES)
        if not most and len(head) == HEAD_BYTES:
            is_long = _LONG_ITEM.search(head) is not None and not find_parts(head)
            if is_long or _holds_samples_by_id(head):
                head += file.read(_LONG_BYTES - len(head))
        is_end = not file.peek(1)
    start = text_start(head)
    return b" " * start + head[start:], is_end
