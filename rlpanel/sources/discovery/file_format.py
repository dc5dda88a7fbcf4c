"""The format of a file, and what is looked up in its name and its first lines to find it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.adapters import INSPECT, NATIVE, TRL, trl
from rlpanel.sources.discovery.file_names import document_adapter
from rlpanel.sources.inference.inference import Inference
from rlpanel.sources.readers.containers import ARCHIVE, DOCUMENT, LINES, Container, container_of
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import MAX_SAMPLES, Adapter

#: Files whose names start like this are rollouts even if none of their lines can be parsed.
NAMED = ("rollout_data", "data_rank")
#: The status of a format that belongs to no file yet.
NO_STATUS = os.stat_result([0] * 10)


@dataclass(frozen=True)
class FileFormat:
    """Format of a file when its stat was ``status``.

    Attributes
    ----------
    adapter : Adapter or None
        Adapter that reads the file; None if it holds no rollouts.
    final : bool
        Whether the result stays valid while the file grows; otherwise only while it does not change.
    status : os.stat_result
    problem : str
        Reason why the file could not be read; empty if it could.
    rewarded : bool
        Whether a sample of the first line that the adapter accepts has a reward.
    newer : str
        Says that a newer version of the trainer than the tested one wrote the file; empty otherwise.
    inference : Inference or None
        Fields of a file that no format's adapter accepts; None for other files.
    keys : frozenset of str
        Keys of the first records, inner ones with dots, if a mapping or an inference depends on them.
    absent : tuple of str
        Names that the user mapped to keys that no first record has.
    container : Container or None
        How the file holds its records; None for the usual one of its name.
    """

    adapter: Adapter | None
    final: bool
    status: os.stat_result
    problem: str = ""
    rewarded: bool = False
    newer: str = ""
    inference: Inference | None = None
    keys: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    container: Container | None = None

    @property
    def is_sample(self) -> bool:
        """True for a document whose fields were inferred and which is one sample."""
        return self.inference is not None and self.inference.is_one and not self.inference.of_objects

    def holds(self, now: os.stat_result) -> bool:
        """Return True if the file need not be read again. A file that shrank may have been replaced."""
        if self.final:
            return now.st_size >= self.status.st_size
        return _stamp(now) == _stamp(self.status)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def records_of(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects in lines."""
    for line in lines:
        if document := parsed(line):
            yield {key: to_python(value) for key, value in document.items()}


def adapter_by_name(name: str) -> Adapter | None:
    """Return the adapter of a file whose name alone shows that it holds rollouts."""
    name = name.rpartition("/")[2]
    usual = container_of(name)
    if usual == ARCHIVE:
        return INSPECT
    if usual == DOCUMENT:
        return document_adapter(name)
    if usual == LINES and name.startswith(NAMED):
        return NATIVE
    return TRL if trl.NAME.fullmatch(name) else None


def parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return the object in a line; None for any other line. A document may have a key for each sample."""
    try:
        return parse(line, MAX_SAMPLES)
    except LineError:
        return None


def has_reward(adapter: Adapter, path: str, document: Any) -> bool:
    """Return True if a sample of a line has a finite reward; a line that cannot be read has none."""
    try:
        records = read_samples(adapter, document, path, full=False)
    except (LineError, MemoryError):
        return False
    return any(math.isfinite(record.numbers.get("reward", math.nan)) for record in records)
