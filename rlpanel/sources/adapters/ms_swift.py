"""Reads ``completions.jsonl`` of ms-swift, which is appended: tables of samples, on Ray samples.

Its GRPO trainer logs each step once, and then a table for each evaluation at that step. Both come from one
queue of the last samples, so a table may begin with samples of the table before. Nothing in a table names
the split: **the first table of a step belongs to training, and a later one to an evaluation, if none of its
new samples has a prompt that was trained on in that step.** Samples with these prompts are of a resumed job,
which logs the step again. A table of step 0 comes before the first update, so it belongs to an evaluation. If
a step generates nothing, its table repeats what the queue holds: samples of an evaluation are left out then.

The trainer on Megatron logs no evaluations, and has ``gen_step`` in place of ``step``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters.columnar import Columnar, is_list
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import stat
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.row_overlap import overlap

_NAMES = {"gen_step": "step", "completion": "response"}
#: Keys of a table of the trainer that evaluates as well.
_TABLE = ("step", "prompt", "completion", "advantages")
#: Longest line that is taken for a table, and number of files whose tables are remembered.
_LINE_BYTES, _FILES = 64 << 20, 64

#: Splits of an evaluation's samples, and of those that a table of a later step repeats.
_EVAL, _AGAIN = "eval", "discarded eval"

#: Prompt and response of a sample.
Row = tuple[str, str]


class SwiftTables(Columnar):
    """Adapter for ms-swift's tables of training and evaluations.

    Parameters
    ----------
    file : str
        Path of the file, in which the tables before a line decide what it is.
    """

    name = "ms-swift"
    looks = "completions.jsonl with lists under 'step', 'prompt', 'completion' and 'advantages' (ms-swift)"
    shares_evaluation = "ms-swift logs evaluations into the same tables"
    once_per_step = "line"

    def __init__(self, file: str = "") -> None:
        self.file = file

    def for_file(self, path: str) -> SwiftTables:
        """Return the adapter of the file at a path."""
        return SwiftTables(path)

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has the table's keys, with lists as values."""
        return all(is_list(document.get(key)) for key in _TABLE)

    def place(self, records: Sequence[Record], offset: int) -> None:
        """Set the split of the samples that belong to an evaluation."""
        splits = _tables_of(self.file).splits_at(offset) if self.file else ()
        for record, split in zip(records, splits, strict=False):
            if split:
                record.labels.setdefault("split", split)
            if split == _AGAIN:
                record.labels |= {"status": "discarded", "status_reason": "logged in an earlier step"}


@dataclass
class _Tables:
    """The tables of a file in their order, as far as they were read.

    Attributes
    ----------
    file : str
    identity : tuple of int
        Device and number of the file that was read.
    end : int
        Offset after the last line that was read.
    """

    file: str
    identity: tuple[int, int] = (0, 0)
    end: int = 0
    _step: str = ""
    _rows: list[Row] = field(default_factory=list)  # of the last table
    _splits: list[str] = field(default_factory=list)  # of these rows; empty for training
    _trained: set[str] = field(default_factory=set)  # prompts of training in the last table's step
    _found: dict[int, list[str]] = field(default_factory=dict)  # by offset, of tables with evaluations
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def splits_at(self, offset: int) -> list[str]:
        """Return the split of each sample of the table at an offset; an empty list if all were trained on."""
        with self._lock:
            status = stat(self.file)
            if (status.st_dev, status.st_ino) != self.identity or status.st_size < self.end:
                self._restart((status.st_dev, status.st_ino))
            if offset >= self.end:
                self._read_to(offset)
            return self._found.get(offset, [])

    def _restart(self, identity: tuple[int, int]) -> None:
        self.identity, self.end, self._step = identity, 0, ""
        self._rows, self._splits, self._trained, self._found = [], [], set(), {}

    def _read_to(self, offset: int) -> None:
        """Read the tables up to the one at an offset."""
        with open_plain(self.file) as lines:
            can_seek = lines.seekable()
            _skip(lines, self.end)
            # A compressed file is read to its end, because it cannot be opened in the middle.
            while (self.end <= offset or not can_seek) and (line := lines.readline(_LINE_BYTES)):
                is_whole = line.endswith(b"\n") or len(line) == _LINE_BYTES
                if is_whole or self.end == offset:
                    self._add(line, self.end)
                if not is_whole:  # its end may be written later
                    return
                self.end += len(line)

    def _add(self, line: bytes, offset: int) -> None:
        """Add the table of a line; another line is left out."""
        try:
            document = parse(line.strip(b"\0\n"))  # the reader leaves out zero bytes around a line, too
            steps, prompts, responses = (to_python(document.get(key)) for key in _TABLE[:3])
        except LineError:
            return
        if not all(isinstance(column, list) for column in (steps, prompts, responses)) or not steps:
            return
        rows = list(zip(map(str, prompts), map(str, responses), strict=False))
        step, known = str(steps[0]), overlap(self._rows, rows)
        splits = [*self._splits[len(self._splits) - known :], *[""] * (len(rows) - known)]
        if step != self._step:
            self._trained = set()
            splits = [split and _AGAIN for split in splits]
        new = {prompt for prompt, _ in rows[known:]}
        if step == "0" or (step == self._step and not new & self._trained):
            splits[known:] = [_EVAL] * (len(rows) - known)
        self._trained |= {row[0] for row, split in zip(rows, splits, strict=True) if not split}
        self._step, self._rows, self._splits = step, rows, splits
        if any(splits):
            self._found[offset + len(line) - len(line.lstrip(b"\0"))] = splits


def _skip(lines: Any, end: int) -> None:
    """Skip the bytes that were read before; a compressed file cannot be sought in."""
    if lines.seekable():
        lines.seek(end)
        return
    while end > 0 and (skipped := len(lines.read(min(end, 1 << 20)))):
        end -= skipped


#: The tables of a few files. Of the process: adapters get a path only, and hold nothing of a run.
_files: dict[str, _Tables] = {}
_files_lock = threading.Lock()


def _tables_of(file: str) -> _Tables:
    """Return the tables of a file; those of the files that were asked for last are remembered."""
    with _files_lock:
        tables = _files.pop(file, None) or _Tables(file)
        _files[file] = tables
        while len(_files) > _FILES:
            del _files[next(iter(_files))]
        return tables


class SwiftRay:
    """Adapter for ms-swift's samples on Ray."""

    name = "ms-swift on Ray"
    looks = "*.jsonl with 'gen_step', 'prompt' and 'completion' (ms-swift on Ray)"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line has ms-swift's keys, and one step rather than a list of steps."""
        has_keys = {"gen_step", "prompt", "completion"} <= document.keys()
        return has_keys and not is_list(document["gen_step"])

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the line's only sample."""
        if "gen_step" not in document:
            raise LineError("no 'gen_step'")
        if "prompt" not in document and "completion" not in document:
            raise LineError("neither 'prompt' nor 'completion'")
        fields = ((_NAMES.get(key, key), value) for key, value in document.items())
        return [build_record(document["gen_step"], fields, path, full=full)]
