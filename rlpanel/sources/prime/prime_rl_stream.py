"""Reads prime-rl's stream of episodes, ``monitors/file/traces/stream/{N}.jsonl``, with its annotations.

Each episode is written once, when it arrives. Whether it was trained on, and in which step, is known later:
see `prime_rl_annotations`. Until then, and for ever if it was dropped, a trace is in the split discarded.

Reads the episodes of prime-rl's ``all`` files that are not in the ``effective`` file of the same batch.

prime-rl writes each episode to ``all`` when it arrives, and those it trains on to ``effective`` when the
batch is final. The others failed or were discarded. They form a split of their own, so they stay visible but
do not enter the means of training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.prime.prime_rl import (
    DISCARDED,
    Field,
    PrimeRL,
    branch_record,
    branches,
    episode_fields,
    step_of,
    traces_of,
)
from rlpanel.sources.prime.prime_rl_annotations import Mark, annotations_at, annotations_of
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Adapter, BesideFile, Record

#: A file of the stream: a numbered one of its folder, the only one, or one of a run that is that folder.
_STREAM = re.compile(r"(?:^|(?<=/))(?:stream/(\d{1,9})|stream|^(\d{5,9}))\.jsonl(?:\.zst)?$")
_WAITING = "not in a batch that was trained on, until now"
_UNKNOWN = "no folder 'annotations' beside the stream says whether it was trained on"


@dataclass(frozen=True)
class AnnotatedTraces:
    """Adapter for a file of the stream.

    Attributes
    ----------
    folder, shown : str
        Folder with the annotations, and its name as seen from the run's folder; empty if it is unknown.
    chunk : int
        Number of the file.
    version : str
        Version of what the annotations say about traces of this file.
    mark : tuple
        How much they say (see `Annotations.mark`).
    """

    folder: str
    shown: str
    chunk: int
    version: str
    mark: Mark = field(compare=False)
    looks = PrimeRL.looks
    path_in_run = PrimeRL.path_in_run

    @property
    def name(self) -> str:
        """Name that is unique for this version of the annotations."""
        return f"{PrimeRL.name} with {self.folder}/annotations of {self.version}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is an episode."""
        return PrimeRL().accepts(path, document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read an episode's samples with what was learned about their traces."""
        episode = {key: to_python(value) for key, value in document.items()}
        known = annotations_at(self.folder, self.version) if self.folder else None
        unknown = _WAITING if known is not None and known.found else _UNKNOWN
        records = []
        for logged in traces_of(episode):
            trace, problems = known.annotated(logged) if known is not None and logged else (logged, [])
            info = trace.get("info") or {}
            fields = [*episode_fields(episode, trace, path), *_learned(info)]
            split = dict(fields).get("split")
            step = _step(info, episode, path, evaluated=split == "eval")
            if split == "train" and not info.get("effective"):
                fields.append(("split", DISCARDED))
                if dict(fields)["status"] == "ok":
                    fields += [("status", DISCARDED), ("status_reason", unknown)]
            elif split == "train":
                # prime-rl counts steps from 1 and starts with version 0: step N trains version N - 1.
                fields.append(("trainer_version", step - 1))
            ways = branches(trace.get("nodes", []))
            found = [branch_record(way, step, fields, path, full=full) for way in ways]
            for record in found:
                record.notes += problems
            records += found
        return records

    def beside(self) -> Mapping[str, BesideFile]:
        """Return bad lines and problems of the annotations."""
        states = annotations_of(self.folder).states().items() if self.folder else ()
        return {f"{self.shown}/{name}".removeprefix("./"): state for name, state in states}

    def changed_lines(self, before: Adapter) -> Mapping[int, set[str]] | None:
        """Return the lines about which the annotations say more than before; None if any may be."""
        if not isinstance(before, AnnotatedTraces):
            return None
        if not self.folder or (before.folder, before.chunk) != (self.folder, self.chunk):
            return None
        return annotations_of(self.folder).changed_since(self.chunk, before.mark)


def follow_annotations(run_folder: AnyPath, name: str) -> Adapter | None:
    """Return the adapter of a file of the stream, by its name below the run; None for other files."""
    match = _STREAM.search(name)
    if match is None:
        return None
    if match[2] and run_folder.name != "stream":
        return AnnotatedTraces("", "", 0, "", (0, 0, 0))
    parent = PurePosixPath(name).parent
    if match[2]:  # the run is the folder of the stream, and the annotations are beside it
        folder, shown = run_folder.parent, ".."
    else:
        inside = parent.parent if match[1] else parent
        folder, shown = run_folder / inside, str(inside)
    known = annotations_of(str(folder))
    known.refresh()
    chunk = int(match[1] or match[2] or 0)
    version = f"{known.version(chunk)}{'' if known.found else ' (none)'}"
    return AnnotatedTraces(known.folder, shown, chunk, version, known.mark(chunk))


def _learned(info: Mapping[str, Any]) -> Iterator[Field]:
    if info.get("advantage") is not None:
        yield "advantage", info["advantage"]


def _step(info: Mapping[str, Any], episode: Mapping[str, Any], path: str, *, evaluated: bool) -> int:
    """Return the step of the batch; until it is known that of the arrival, or else of the dispatch.

    An evaluation belongs to the step that it was dispatched for.
    """
    for event in () if evaluated else ("ship", "arrival"):
        found = info.get(event)
        step = found.get("step") if isinstance(found, dict) else None
        if isinstance(step, int):
            return step
    step = step_of(episode, path)
    try:
        return int(step)
    except (TypeError, ValueError):
        raise LineError(f"the step is not a number: {str(step)[:40]!r}") from None


@dataclass(frozen=True)
class DiscardedTraces:
    """Adapter for an ``all`` file that reads only the traces that were not trained on.

    Attributes
    ----------
    effective : str
        Path of the batch's ``effective`` file.
    stamp : int
        Its modification time, which identifies its version.
    """

    effective: str
    stamp: int
    looks = PrimeRL.looks
    path_in_run = PrimeRL.path_in_run

    @property
    def name(self) -> str:
        """Name that is unique for this version of the effective file."""
        return f"{PrimeRL.name} without {self.effective} of {self.stamp}"

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the line is an episode."""
        return PrimeRL().accepts(path, document)

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read an episode's samples that were not trained on; often there are none."""
        episode = {key: to_python(value) for key, value in document.items()}
        trained = _trace_ids(self.effective, self.stamp)
        rest = [trace for trace in traces_of(episode) if not trace or trace.get("id") not in trained]
        if not rest:
            return []
        records = PrimeRL().read(episode | {"traces": rest}, path, full=full)
        for record in records:
            evaluation = record.labels.get("split") == "eval"
            for name in ("trainer_version", "lag"):  # the trainer did not use it
                record.numbers.pop(name, None)
            record.labels["split"] = f"{DISCARDED} eval" if evaluation else DISCARDED
            if record.labels.get("status") == "ok":
                record.labels |= {"status": DISCARDED, "status_reason": "not in the effective batch"}
        return records


def discarded(folder: AnyPath, effective: str) -> Adapter:
    """Return the adapter of an ``all`` file whose batch has an ``effective`` file."""
    path = folder / effective
    try:
        return DiscardedTraces(str(path), path.stat().st_mtime_ns)
    except OSError:
        return PrimeRL()


@lru_cache(maxsize=8)
def _trace_ids(path: str, stamp: int) -> frozenset[str | None]:
    """Return the ids of the traces in an effective file; traces without an id count as trained on."""
    ids: set[str | None] = {None}
    with open_plain(path) as file:
        for line in file:
            try:
                ids |= {trace.get("id") for trace in traces_of(_episode(line))}
            except (LineError, AttributeError):
                pass  # an invalid line is reported by the reader of that file
    return frozenset(ids)


def _episode(line: bytes) -> dict[str, Any]:
    return {key: to_python(value) for key, value in parse(line).items() if key == "traces"}
