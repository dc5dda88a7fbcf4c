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
import itertools
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO

import xxhash

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import DecompressedStream
from rlpanel.sources.files.file_access import read, reason_of, scan, stat, stream
from rlpanel.sources.prime.prime_rl import paths
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import BadLine, BesideFile

PACKED = ".zst"
#: Longest line that is read, and bytes that are kept of a file for the lines that follow.
_LINE_BYTES, _WINDOW = 64 << 20, 4 << 20
#: Bad lines that are kept with their reasons, and the longest reason, which may quote the line.
_MAX_BAD, _REASON_CHARS = 100, 300
#: Seconds after which a last line without a newline is reported.
_REST = 3.0


@dataclass
class AnnotationFile:
    """A file that grows, and how much of it was read, in plain bytes.

    Attributes
    ----------
    path : str
    offset, lines : int
        Plain bytes and lines that were read.
    bad, bad_count
        The first lines that could not be read, and the number of all.
    problem : str
        Reason why the file, or its end, is not read at the moment; empty if all was.
    """

    path: str
    offset: int = 0
    lines: int = 0
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    problem: str = ""
    _stamp: tuple[int, int] = (-1, -1)
    _starts: list[tuple[int, int]] | None = None
    _window: tuple[int, bytes] = (0, b"")
    _open_end: int = 0

    @property
    def packed(self) -> bool:
        """True if the file is compressed."""
        return self.path.endswith(PACKED)

    @property
    def state(self) -> BesideFile:
        """Bad lines and problem, as they are reported."""
        return BesideFile(self.bad_count, tuple(self.bad), self.problem)

    def shrank(self) -> bool:
        """Return True if the file has fewer bytes than were read."""
        try:
            return self.offset > 0 and not self.packed and stat(self.path).st_size < self.offset
        except OSError:
            return False

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines with their offsets; `problem` says why there may be more."""
        try:
            status = stat(self.path)
            before, self._stamp = self._stamp, (status.st_size, status.st_mtime_ns)
            if before != self._stamp:
                self.problem = ""
                yield from self._read_lines()
        except OSError as error:
            self._stamp = (-1, -1)  # it is read later
            gone = isinstance(error, FileNotFoundError)
            self.problem = "" if gone else reason_of(error)
            return
        if self._open_end and time.time() - status.st_mtime > _REST:
            self.problem = f"its last line is incomplete ({self._open_end:,} bytes)"

    def _read_lines(self) -> Iterator[tuple[int, bytes]]:
        self._open_end = 0
        with self._opened(self.offset) as opened:
            while line := opened.readline(_LINE_BYTES):
                start, whole = self.offset, line.endswith(b"\n")
                if not whole and len(line) < _LINE_BYTES:
                    self._open_end = len(line)
                    return
                self.offset += len(line)
                if whole:
                    self.lines += 1
                    yield start, line

    def add_bad(self, offset: int, reason: str) -> None:
        """Note that the line that was yielded last cannot be read."""
        self.bad_count += 1
        if len(self.bad) < _MAX_BAD:
            self.bad.append(BadLine(self.lines, offset, reason[:_REASON_CHARS]))

    def line_at(self, offset: int, length: int) -> bytes:
        """Return a line that was read before; neighbouring lines are read together."""
        start, data = self._window
        if not start <= offset <= offset + length <= start + len(data):
            start, data = self._window = offset, self._read(max(length, _WINDOW), offset)
        return data[offset - start : offset - start + length]

    def _read(self, length: int, offset: int) -> bytes:
        if not self.packed:
            try:
                return read(self.path, length, offset)
            except FileNotFoundError:
                self.path += PACKED  # it is full by now
        with self._opened(offset) as opened:
            return opened.read(length)

    def _opened(self, offset: int) -> BinaryIO:
        if not self.packed:
            opened = stream(self.path)
            opened.seek(offset)
            return opened
        if self._starts is None:
            with DecompressedStream(self.path) as whole:
                whole.skip_to(1 << 62)
                self._starts = whole.starts
        before = max((each for each in self._starts if each[0] <= offset), default=(0, 0))
        plain = DecompressedStream(self.path, before[1], before[0])
        plain.skip_to(offset)
        return io.BufferedReader(plain)


_FOLDER, _INDEX = "annotations", "stream.index.jsonl"
_FILE = re.compile(r"(?!.*\.index\.jsonl)[^.].*\.jsonl(?:\.zst)?")
_LINK = "a link, which may lead out of the run"
#: Stands for any file of the stream, or any offset: the index does not have the trace.
_ANY = -1
_editions = itertools.count()
#: Arrays of a branch, which become those of its messages.
_STREAMS = ("advantages", "trainer_logprobs", "entropies", "is_masked")

Facts = dict[str, Any]
#: How much was learned: edition of the annotations, and number of updates of a file and of any file.
Mark = tuple[int, int, int]


@dataclass
class _Update:
    """The updates of one trace: merged facts, and the places of its arrays."""

    facts: Facts = field(default_factory=dict)
    arrays: list[tuple[AnnotationFile, int, int]] = field(default_factory=list)


class Annotations:
    """All updates below a folder ``traces``, which are read as the files grow. Thread-safe."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._skipped: dict[str, str] = {}
        self._clear()

    def refresh(self) -> None:
        """Read what was appended; from the start if a file shrank."""
        with self._lock:
            paths, self._skipped = self._list()
            if any(file.shrank() for file in (self._index, *self._files.values())):
                self._clear()
            for stem, path in paths.items():
                file = self._files.setdefault(stem, AnnotationFile(path))
                if not file.packed:
                    file.path = path
            changed = [update for stem in sorted(paths) for update in self._read_updates(self._files[stem])]
            # prime-rl writes a trace's row of the index before any update of it, so it is read afterwards.
            self._read_index()
            for name, digest in changed:
                chunk, offset = self._places.get(name, (_ANY, _ANY))
                self._digests[chunk] += digest
                self._changed[chunk].append((offset, name))

    def version(self, chunk: int) -> str:
        """Return a text that changes if something was learned about a trace in this file of the stream."""
        with self._lock:
            return f"{self._digests[chunk] + self._digests[_ANY] & (1 << 64) - 1:x}"

    def mark(self, chunk: int) -> Mark:
        """Return how much was learned about the traces in this file of the stream."""
        with self._lock:
            return self._edition, len(self._changed[chunk]), len(self._changed[_ANY])

    def changed_since(self, chunk: int, mark: Mark) -> dict[int, set[str]] | None:
        """Return the traces about which something was learned, by the offset of their episode.

        None if that is not known of all.
        """
        with self._lock:
            edition, known, of_any = mark
            if (edition, of_any) != (self._edition, len(self._changed[_ANY])):
                return None
            found: dict[int, set[str]] = {}
            for offset, name in self._changed[chunk][known:]:
                found.setdefault(offset, set()).add(name)
            return None if _ANY in found else found

    @property
    def found(self) -> bool:
        """True if there is a file of updates."""
        return bool(self._files)

    def states(self) -> dict[str, BesideFile]:
        """Return bad lines and problems of the files, by their paths below the folder."""
        with self._lock:
            files = [file for file in (self._index, *self._files.values()) if file.bad or file.problem]
            start = len(self.folder) + 1
            found = {file.path[start:]: file.state for file in files}
            return found | {path[start:]: BesideFile(0, (), reason) for path, reason in self._skipped.items()}

    def annotated(self, trace: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return a trace with the facts and arrays of its updates, and what of them cannot be used."""
        problems: list[str] = []
        with self._lock:
            update = self._updates.get(str(trace.get("id")), _Update())
            result = dict(trace) | {"info": _merged(trace.get("info") or {}, update.facts)}
            if update.arrays:
                result["nodes"] = nodes = [dict(node) for node in trace.get("nodes") or ()]
                for file, offset, length in update.arrays:
                    found = to_python(parse(file.line_at(offset, length)).get("branches"))
                    problems += _fold(nodes, found)
        return result, problems

    def _clear(self) -> None:
        self._edition = next(_editions)
        self._files: dict[str, AnnotationFile] = {}
        self._index = AnnotationFile(f"{self.folder}/{_INDEX}")
        #: File of the stream in which a trace is, and the offset of its episode.
        self._places: dict[str, tuple[int, int]] = {}
        self._updates: defaultdict[str, _Update] = defaultdict(_Update)
        #: Sum of the hashes of all updates of a file's traces, and these traces in order.
        self._digests: defaultdict[int, int] = defaultdict(int)
        self._changed: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)

    def _list(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the files of updates by their name without the suffix of compression; plain ones win.

        Also return what is not read, with the reason.
        """
        paths: list[str] = []
        skipped: dict[str, str] = {}

        def entries(folder: str) -> list[Any]:
            try:
                found = list(scan(folder))
            except FileNotFoundError:
                return []
            except OSError as error:
                skipped[folder] = reason_of(error)
                return []
            skipped.update({entry.path: _LINK for entry in found if entry.is_symlink() and is_ours(entry)})
            return [entry for entry in found if not entry.is_symlink() and is_ours(entry)]

        def is_ours(entry: Any) -> bool:
            inside = entry.path.startswith(f"{self.folder}/{_FOLDER}/")
            return inside or entry.name == _FOLDER

        for folder in entries(self.folder):
            for entry in entries(folder.path):
                if entry.is_dir(follow_symlinks=False):
                    paths += [file.path for file in entries(entry.path) if _is_updates(file)]
                elif _is_updates(entry):
                    paths.append(entry.path)
        return {path.removesuffix(PACKED): path for path in sorted(paths, reverse=True)}, skipped

    def _read_index(self) -> None:
        for start, line in self._index.new_lines():
            try:
                row = parse(line)
                chunk, offset = row.get("chunk"), row.get("offset")
                place = chunk if isinstance(chunk, int) else 0, offset if isinstance(offset, int) else _ANY
                for name in to_python(row.get("trace_ids")) or ():
                    self._places[str(name)] = place
            except LineError as error:  # without it, updates of the trace count for all files
                self._index.add_bad(start, str(error))

    def _read_updates(self, file: AnnotationFile) -> Iterator[tuple[str, int]]:
        """Read the new updates of a file; yield the trace that each is about, and a hash of it."""
        for offset, line in file.new_lines():
            try:
                document = parse(line)
                name = document.get("trace_id")
                if not isinstance(name, str):
                    raise LineError("no 'trace_id'")
                facts = _facts(document)
            except LineError as error:
                file.add_bad(offset, str(error))
                continue
            update = self._updates[name]
            update.facts = _merged(update.facts, facts)
            if document.get("branches"):
                update.arrays.append((file, offset, len(line)))
            yield name, xxhash.xxh3_64_intdigest(line)


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


def _is_updates(entry: Any) -> bool:
    return entry.is_file(follow_symlinks=False) and _FILE.fullmatch(entry.name) is not None


def _facts(document: Mapping[str, Any]) -> Facts:
    """Return the facts of an update; those of a simpler line under the same names.

    Raises
    ------
    LineError
        If a fact cannot be used.
    """
    info = to_python(document.get("info"))
    if info is not None and not isinstance(info, dict):
        raise LineError("'info' is not an object")
    facts: Facts = dict(info or {})
    if document.get("subset") is not None:
        facts["effective"] = document["subset"] == "effective"
    if document.get("step") is not None:
        facts["ship"] = {"step": document["step"]}
    if document.get("advantage") is not None:
        facts["advantage"] = document["advantage"]
    ship, advantage = facts.get("ship") or {}, facts.get("advantage")
    step = ship.get("step") if isinstance(ship, dict) else ship
    if step is not None and (not isinstance(step, int) or isinstance(step, bool)):
        raise LineError(f"the step is not a whole number: {str(step)[:40]!r}")
    if advantage is not None and not isinstance(advantage, int | float):
        raise LineError(f"the advantage is not a number: {str(advantage)[:40]!r}")
    return facts


def _merged(old: Facts, new: Facts) -> Facts:
    """Return both; the newer value wins, and objects are merged."""
    both = {**old, **new}
    for name in old.keys() & new.keys():
        if isinstance(old[name], dict) and isinstance(new[name], dict):
            both[name] = _merged(old[name], new[name])
    return both


def _fold(nodes: list[dict[str, Any]], found: Any) -> list[str]:
    """Give messages the arrays of their branches, one value for each token that the policy sampled.

    A message that an array does not cover, or for one of whose sampled tokens it is null, keeps what it has.
    Returns what cannot be used.
    """
    ways, problems = paths(nodes), []
    for branch in found if isinstance(found, list) else [found]:
        index = branch.get("index") if isinstance(branch, dict) else None
        if not isinstance(index, int) or not 0 <= index < len(ways):
            problems.append(f"an annotation is about a branch that the trace does not have: {index!r:.40}")
            continue
        for name in _STREAMS:
            if isinstance(values := branch.get(name), list):
                _fold_array([nodes[at] for at in ways[index]], name, values)
            elif values is not None:
                problems.append(f"{name!r} of an annotation is not a list")
    return problems


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
