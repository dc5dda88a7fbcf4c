"""Facts of runs that were never read, for lists: newest step and reward, from the last lines of one file.

At most `TAIL_BYTES` of a run's newest file are read, and only of local files of plain lines. A reward is the
mean of the newest step's samples among these lines, so it may miss samples of other ranks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.discovery.open_file import open_file
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Record
from rlpanel.store.backlog.range_reader import first_line_start, last_line_start
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN
from rlpanel.store.index.run_facts import known_facts

#: Bytes of a file that are read, and number of runs that are looked at between two updates of a list.
TAIL_BYTES, _BATCH = 256 << 10, 50
#: Number of runs of a list that are looked at, and seconds until a run that grew is looked at again.
MOST_RUNS, AGAIN = 200, 60.0


@dataclass(frozen=True)
class TailFacts:
    """What the last lines of a run's newest file tell.

    Attributes
    ----------
    step : int
        The newest step of training in these lines.
    reward : float or None
        Mean reward of its samples in these lines; None if it was not logged.
    """

    step: int
    reward: float | None


_looks: dict[str, tuple[int, float, TailFacts | None]] = {}  # by the run's folder: its bytes, time, facts


def known_tail(run: RunInfo) -> TailFacts | None:
    """Return what is known of a run's last lines; None if it was not looked at, or they tell nothing."""
    return _looks.get(str(run.path), (0, 0.0, None))[2]


def look_at_tails(runs: Sequence[RunInfo], reading: Reading | None = None) -> Iterator[int]:
    """Look at the runs without facts, and yield their number after every `_BATCH` runs."""
    count = 0
    for run in runs[:MOST_RUNS]:
        if isinstance(run.path, Path) and known_facts(run.path) is None and _is_due(run):
            facts = tail_facts(run, reading)
            _looks[str(run.path)] = run.bytes, time.monotonic(), facts
            count += 1
            if count % _BATCH == 0:
                yield count
    if count % _BATCH:
        yield count


def tail_facts(run: RunInfo, reading: Reading | None = None) -> TailFacts | None:
    """Return what the last lines of a run's newest file tell; None if they hold no whole sample."""
    reading = reading or Reading.from_environment()
    try:
        files = Directory(run.root or run.path, reading).files(run.path)
        newest = max(files, key=lambda file: (file.status.st_mtime, file.name), default=None)
        if newest is None:
            return None
        reader = open_file(newest, reading)
        # Other readers need the whole file: it is compressed, or a table or document.
        records = _last_records(reader, newest.status.st_size) if type(reader) is JsonlFile else []
    except Exception:  # the list says nothing; an error is shown when the run is opened
        return None
    trained = [record for record in records if record.labels.get(SPLIT_COLUMN, TRAIN) == TRAIN]
    if not trained:
        return None
    step = max(record.step for record in trained)
    rewards = [record.numbers.get("reward", math.nan) for record in trained if record.step == step]
    known = [reward for reward in rewards if math.isfinite(reward)]
    return TailFacts(step, sum(known) / len(known) if known else None)


def _is_due(run: RunInfo) -> bool:
    """Return whether a run was not looked at, or grew since and enough time has passed."""
    before = _looks.get(str(run.path))
    return before is None or (before[0] != run.bytes and time.monotonic() - before[1] >= AGAIN)


def _last_records(reader: JsonlFile, size: int) -> list[Record]:
    """Return the samples of the whole lines among the last bytes of a file."""
    end = last_line_start(reader.path, size, TAIL_BYTES)
    start = first_line_start(reader.path, max(0, end - TAIL_BYTES), end)
    if start >= end:
        return []
    tail = JsonlFile(reader.path, reader.name, reader.adapter, reader.tail.line_bytes, end)
    if not tail.start_at(start):
        return []
    return [record for chunk in tail.poll(end - start) for record in chunk.records]
