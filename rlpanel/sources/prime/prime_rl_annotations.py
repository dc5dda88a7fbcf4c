"""Follows what prime-rl learns about traces after it wrote them: ``traces/annotations/{producer}``.

Each line is an update of one trace, and the newest wins. ``info`` holds the orchestrator's facts:
``effective`` (the trace is in a batch that was trained on), ``ship.step`` (the batch's step) and
``advantage``. ``branches`` hold arrays that cover all tokens of a branch, null where they are unknown: the
orchestrator's advantages, and the trainer's logprobs, entropies and ``is_masked`` (the loss had no policy
gradient for the token). Simpler lines have ``step``, ``subset`` and ``advantage`` themselves.

A producer's lines are in ``{producer}.jsonl`` or in numbered files of a folder with its name, which are
compressed when they are full. ``stream.index.jsonl`` says in which file of the stream a trace is.
"""

from __future__ import annotations

import io
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO

import xxhash

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import DecompressedStream
from rlpanel.sources.files.file_access import read, scan, stat, stream
from rlpanel.sources.prime.prime_rl_branches import paths
from rlpanel.sources.records.json_parser import parse, to_python

_PACKED, _INDEX = ".zst", "stream.index.jsonl"
_FILE = re.compile(r"(?!.*\.index\.jsonl)[^.].*\.jsonl(?:\.zst)?")
#: Longest line that is read, and bytes that are kept of a file for the lines that follow.
_LINE_BYTES, _WINDOW = 64 << 20, 4 << 20
#: Arrays of a branch, which become those of its messages.
_STREAMS = ("advantages", "trainer_logprobs", "entropies", "is_masked")

Facts = dict[str, Any]


@dataclass
class _File:
    """A file of updates and how much of it was read, in plain bytes."""

    path: str
    offset: int = 0
    stamp: tuple[int, int] = (-1, -1)
    starts: list[tuple[int, int]] | None = None
    window: tuple[int, bytes] = (0, b"")

    @property
    def packed(self) -> bool:
        return self.path.endswith(_PACKED)

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines with their offsets; OSError if the file cannot be read."""
        status = stat(self.path)
        before, self.stamp = self.stamp, (status.st_size, status.st_mtime_ns)
        if before == self.stamp:
            return
        with self._opened(self.offset) as opened:
            while line := opened.readline(_LINE_BYTES):
                start, whole = self.offset, line.endswith(b"\n")
                if not whole and len(line) < _LINE_BYTES:
                    return
                self.offset += len(line)
                if whole:
                    yield start, line

    def line_at(self, offset: int, length: int) -> bytes:
        """Return a line that was read before; neighbouring lines are read together."""
        start, data = self.window
        if not start <= offset <= offset + length <= start + len(data):
            start, data = self.window = offset, self._read(max(length, _WINDOW), offset)
        return data[offset - start : offset - start + length]

    def _read(self, length: int, offset: int) -> bytes:
        if not self.packed:
            try:
                return read(self.path, length, offset)
            except FileNotFoundError:
                self.path += _PACKED  # it is full by now
        with self._opened(offset) as opened:
            return opened.read(length)

    def _opened(self, offset: int) -> BinaryIO:
        if not self.packed:
            opened = stream(self.path)
            opened.seek(offset)
            return opened
        if self.starts is None:
            with DecompressedStream(self.path) as whole:
                whole.skip_to(1 << 62)
                self.starts = whole.starts
        before = max((each for each in self.starts if each[0] <= offset), default=(0, 0))
        plain = DecompressedStream(self.path, before[1], before[0])
        plain.skip_to(offset)
        return io.BufferedReader(plain)


@dataclass
class _Update:
    """The updates of one trace: merged facts, and the places of its arrays."""

    facts: Facts = field(default_factory=dict)
    arrays: list[tuple[_File, int, int]] = field(default_factory=list)


class Annotations:
    """All updates below a folder ``traces``, which are read as the files grow. Thread-safe."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._clear()

    def refresh(self) -> None:
        """Read what was appended; from the start if a file shrank."""
        with self._lock:
            found = self._list()
            if any(file.offset > 0 and self._shrank(file) for file in self._files.values()):
                self._clear()
            for stem, path in found.items():
                file = self._files.setdefault(stem, _File(path))
                if not file.packed:
                    file.path = path
            self._read_index()
            for stem in sorted(found):
                self._read_updates(self._files[stem])

    def version(self, chunk: int) -> str:
        """Return a text that changes if something was learned about a trace in this file of the stream."""
        with self._lock:
            return f"{self._digests[chunk] + self._digests[-1] & (1 << 64) - 1:x}"

    @property
    def found(self) -> bool:
        """True if there is a file of updates."""
        return bool(self._files)

    def annotated(self, trace: Mapping[str, Any]) -> dict[str, Any]:
        """Return a trace with the facts and arrays of its updates."""
        with self._lock:
            update = self._updates.get(str(trace.get("id")), _Update())
            result = dict(trace) | {"info": _merged(trace.get("info") or {}, update.facts)}
            if update.arrays:
                result["nodes"] = nodes = [dict(node) for node in trace.get("nodes") or ()]
                for file, offset, length in update.arrays:
                    _fold(nodes, to_python(parse(file.line_at(offset, length)).get("branches")))
        return result

    def _clear(self) -> None:
        self._files: dict[str, _File] = {}
        self._index = _File(f"{self.folder}/{_INDEX}")
        self._chunk_of: dict[str, int] = {}
        self._updates: defaultdict[str, _Update] = defaultdict(_Update)
        #: Sum of the hashes of all updates of a chunk's traces; -1 for traces that the index does not have.
        self._digests: defaultdict[int, int] = defaultdict(int)

    def _list(self) -> dict[str, str]:
        """Return the files of updates by their name without the suffix of compression; plain ones win."""
        paths: list[str] = []
        folders = [entry.path for entry in _entries(self.folder) if entry.name == "annotations"]
        for entry in _entries(folders[0]) if folders else ():
            if entry.is_dir(follow_symlinks=False):
                paths += [file.path for file in _entries(entry.path) if _is_updates(file)]
            elif _is_updates(entry):
                paths.append(entry.path)
        found: dict[str, str] = {}
        for path in sorted(paths, reverse=True):
            found[path.removesuffix(_PACKED)] = path
        return found

    def _shrank(self, file: _File) -> bool:
        try:
            return not file.packed and stat(file.path).st_size < file.offset
        except OSError:
            return False

    def _read_index(self) -> None:
        try:
            for _, line in self._index.new_lines():
                try:
                    row = parse(line)
                    chunk = row.get("chunk")
                    for name in to_python(row.get("trace_ids")) or ():
                        self._chunk_of[str(name)] = chunk if isinstance(chunk, int) else 0
                except LineError:
                    continue  # without it, updates of the trace count for all files
        except OSError:
            return

    def _read_updates(self, file: _File) -> None:
        try:
            for offset, line in file.new_lines():
                try:
                    self._add(file, offset, line)
                except LineError:
                    continue
        except OSError:
            return  # it is read later

    def _add(self, file: _File, offset: int, line: bytes) -> None:
        document = parse(line)
        name = document.get("trace_id")
        if not isinstance(name, str):
            return
        update = self._updates[name]
        update.facts = _merged(update.facts, _facts(document))
        if document.get("branches"):
            update.arrays.append((file, offset, len(line)))
        chunk = self._chunk_of.get(name, -1)
        self._digests[chunk] += xxhash.xxh3_64_intdigest(line)


@lru_cache(maxsize=8)
def annotations_of(folder: str) -> Annotations:
    """Return the updates below a folder ``traces``, which all runs share."""
    return Annotations(folder)


@lru_cache(maxsize=64)
def annotations_at(folder: str, version: str) -> Annotations:
    """Return the updates at a version or later, in any process."""
    found = annotations_of(folder)
    found.refresh()
    return found


def _entries(folder: str) -> list[Any]:
    """Return what is in a folder, without links: they may lead out of the root."""
    try:
        return [entry for entry in scan(folder) if not entry.is_symlink()]
    except OSError:
        return []


def _is_updates(entry: Any) -> bool:
    return entry.is_file(follow_symlinks=False) and _FILE.fullmatch(entry.name) is not None


def _facts(document: Mapping[str, Any]) -> Facts:
    """Return the facts of an update; those of a simpler line under the same names."""
    info = to_python(document.get("info"))
    facts: Facts = dict(info) if isinstance(info, dict) else {}
    if document.get("subset") is not None:
        facts["effective"] = document["subset"] == "effective"
    if document.get("step") is not None:
        facts["ship"] = {"step": document["step"]}
    if document.get("advantage") is not None:
        facts["advantage"] = document["advantage"]
    return facts


def _merged(old: Facts, new: Facts) -> Facts:
    """Return both; the newer value wins, and objects are merged."""
    both = {**old, **new}
    for name in old.keys() & new.keys():
        if isinstance(old[name], dict) and isinstance(new[name], dict):
            both[name] = _merged(old[name], new[name])
    return both


def _fold(nodes: list[dict[str, Any]], found: Any) -> None:
    """Give messages the arrays of their branches, one value for each token that the policy sampled.

    A message that an array does not cover, or for one of whose sampled tokens it is null, keeps what it has.
    """
    ways = paths(nodes)
    for branch in found if isinstance(found, list) else ():
        index = branch.get("index") if isinstance(branch, dict) else None
        if not isinstance(index, int) or not 0 <= index < len(ways):
            continue
        for name in _STREAMS:
            if isinstance(values := branch.get(name), list):
                _fold_array([nodes[at] for at in ways[index]], name, values)


def _fold_array(nodes: list[dict[str, Any]], name: str, values: list[Any]) -> None:
    start = 0
    for node in nodes:
        end = start + len(node.get("token_ids") or ())
        if end > len(values):
            return
        mask = node.get("mask") or ()
        own = [value for value, sampled in zip(values[start:end], mask, strict=False) if sampled]
        # Tokens that another loss trains have no decision; every other array must be complete.
        if any(value is not None for value in own) and (None not in own or name == "is_masked"):
            node[name] = own
        start = end
