"""Reads the episodes of prime-rl's ``all`` files that are not in the ``effective`` file of the same batch.

prime-rl writes each episode to ``all`` when it arrives, and those it trains on to ``effective`` when the
batch is final. The others failed or were discarded. They form a split of their own, so they stay visible but
do not enter the means of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.prime.prime_rl import DISCARDED, PrimeRL, traces_of
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import Adapter, Record


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
