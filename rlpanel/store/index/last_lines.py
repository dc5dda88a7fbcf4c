"""The last lines of a run that was never read: its newest step and reward, and its prompts, for lists.

At most `TAIL_BYTES` of a run's newest file are read, and only of local files of plain lines. A reward is the
mean of the newest step's samples among these lines, so it may miss samples of other ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory, RunInfo, open_file
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Record
from rlpanel.store.backlog.range_reader import first_line_start, last_line_start
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN

#: Bytes of a file that are read.
TAIL_BYTES = 256 << 10


def newest_step(run: RunInfo, reading: Reading | None = None) -> tuple[int | None, float | None]:
    """Return the newest step of training in the last lines of a run's newest file, and its mean reward.

    The step is None if these lines hold no whole sample, the reward if it was not logged.
    """
    records = _newest_records(run, reading)
    trained = [record for record in records if record.labels.get(SPLIT_COLUMN, TRAIN) == TRAIN]
    if not trained:
        return None, None
    step = max(record.step for record in trained)
    rewards = [record.numbers.get("reward", math.nan) for record in trained if record.step == step]
    known = [reward for reward in rewards if math.isfinite(reward)]
    return step, sum(known) / len(known) if known else None


def last_prompts(run: RunInfo, reading: Reading | None = None) -> np.ndarray:
    """Return the hashes of the different prompts in the last lines of a run's newest file, sorted."""
    texts = {record.texts.get("prompt") for record in _newest_records(run, reading)} - {None, ""}
    return np.array(sorted(xxh3_64_intdigest(str(text).encode()) for text in texts), np.uint64)


def most_shared(prompts: np.ndarray, runs: Sequence[RunInfo]) -> Iterator[str]:
    """Yield the name of the run that shares most prompts, once; empty if none shares any.

    Only the last lines of the runs are read, so it is an estimate.

    Parameters
    ----------
    prompts : ndarray of uint64
        Hashes of the prompts to look for.
    runs : sequence of RunInfo
    """
    shared = [int(np.isin(last_prompts(run), prompts).sum()) for run in runs]
    best = int(np.argmax(shared)) if shared else 0
    yield runs[best].name if shared and shared[best] else ""


def _newest_records(run: RunInfo, reading: Reading | None) -> list[Record]:
    """Return the samples in the last lines of a run's newest file; none if they cannot be read."""
    reading = reading or Reading.from_environment()
    try:
        files = Directory(run.root or run.path, reading).files(run.path)
        newest = max(files, key=lambda file: (file.status.st_mtime, file.name), default=None)
        if newest is None:
            return []
        reader = open_file(newest, reading)
        # Other readers need the whole file: it is compressed, or a table or document.
        return _last_records(reader, newest.status.st_size) if type(reader) is JsonlFile else []
    except Exception:  # the list says nothing; an error is shown when the run is opened
        return []


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
