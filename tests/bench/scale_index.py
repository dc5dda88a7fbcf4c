"""Writes the index of ten million samples; measures how one process opens, filters and sorts them.

The rows of a small run are repeated with other steps, offsets, hashes and groups, and are saved by the
store's own writer. The logs are sparse files of the size that the lines would have: writing and reading
lines would take half an hour.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.scale_log import write_large_log
from tests.bench.scale_memory import MemoryWatch, memory

#: Steps of the small run, and how often it is repeated.
STEPS, TIMES = 10, 1000
FILTER, SORT = "reward < 0 and kl_k3_mean > p99", "-kl_k3_mean"


def write_index(folder: Path, times: int = TIMES) -> None:
    """Write sparse logs and their index."""
    from rlpanel.settings import Reading
    from rlpanel.store.cache.run_cache import RunCache
    from rlpanel.store.columns.run_table import COUNTED
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.index.saved_rows import saved_run

    write_large_log(folder, STEPS)
    index = RunIndex(folder, "run", Reading(cache=False))
    index.rescan()
    while index.read():
        pass
    table, files = index._table, index._numbered
    sizes = np.array([Path(file.reader.path).stat().st_size for file in files])
    table.columns = _repeated(table.columns, sizes, times)
    table.state = np.full(table.columns.rows, COUNTED, np.uint8)
    for file, size in zip(files, (sizes * times).tolist(), strict=True):
        with open(file.reader.path, "r+b") as log:
            log.seek(size - 1)
            log.write(b"\n")
        file.reader.start_at(size)
    state = saved_run(table, files, index._backlog, index._newest_line)
    assert RunCache(folder, Reading().line_bytes).save(state)


def _repeated(small: Any, sizes: np.ndarray, times: int) -> Any:
    """Return the rows of a small run, repeated with later steps at later places."""
    from rlpanel.store.columns.columns import Columns
    from rlpanel.store.columns.hash_set import mix

    rows, large = small.rows, Columns()
    places = {name: column.view(rows) for name, column in small.metadata.items()}
    numbers = {name: column.view(rows) for name, column in small.numbers.items()}
    labels = small.labels["group"]
    groups = [labels.names[code] for code in labels.codes.view(rows).tolist()]
    for time_ in range(times):
        later = {
            "step": places["step"] + STEPS * time_,
            "offset": places["offset"] + sizes[places["file"]] * time_,
            "hash": places["hash"] ^ mix(np.array([time_], np.uint64)),
        }
        large.append({**places, **later}, numbers, {"group": [f"{time_}:{group}" for group in groups]})
    return large


def opened(folder: Path) -> Iterator[str]:
    """Open the index, filter and sort; yield rows of a table."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.query.query import Query, QueryResult, QuerySpec

    with MemoryWatch(os.getpid()) as watch:
        index = RunIndex(folder, "run", Reading())
        spent, _ = _timed(lambda: _read(index))
        size = f"{index.snapshot.samples:,} samples, {index.snapshot.progress.bytes_total / 1e9:.0f} GB"
        yield f"{size}: opened | {spent} | "
        yield f"memory after opening: private / total | {_both(memory(os.getpid()))} | "

        def ask(**question: str) -> tuple[str, QueryResult]:
            return _timed(lambda: list(Query(index, index.snapshot, QuerySpec(**question)).results())[-1])

        spent, found = ask(filter=FILTER)
        yield f"filter `{FILTER}`, {len(found.rows):,} found | {spent} | "
        spent, found = ask(sort=SORT)
        yield f"sort all by `{SORT}` | {spent} | "
        spent, found = ask(filter=FILTER, sort=SORT)
        yield f"both | {spent} | "
        spent, _ = _timed(lambda: index.view.quantiles("reward", (0.05, 0.5, 0.95)))
        yield f"quantiles of all steps | {spent} | "
    yield f"peak memory: private / total | {_both(watch.peak)} | ≤ 1,500 MB"


def _read(index: Any) -> None:
    index.rescan()
    while index.read():
        pass
    assert index.bytes_read == 0, "the index was not used"


def _timed(work: Callable[[], Any]) -> tuple[str, Any]:
    """Return the time that some work takes, as text, and its result."""
    begin, worked = time.perf_counter(), time.process_time()
    result = work()
    return f"{time.perf_counter() - begin:.2f} s, {time.process_time() - worked:.2f} CPU s", result


def _both(found: dict[str, float]) -> str:
    return f"{found['private']:,.0f} / {found['total']:,.0f} MB"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_index(Path(sys.argv[2]))
    else:
        for line in opened(Path(sys.argv[2])):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
