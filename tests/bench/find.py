"""Measures search: a filter over a million samples, and a text in a run of gigabytes.

``python -m tests.bench.find [--gigabytes 2.6] [--record]``; each benchmark runs in a thread while an event
loop measures the delay of its ticks. The cost of a search is next to that of a plain ``bytes.find`` over
the same bytes, which ignores case, escapes and samples. ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rlpanel.settings import Reading
from rlpanel.store.columns.columns import Column
from rlpanel.store.columns.run_table import COUNTED
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter import NUMBER, Filter, FilterInput
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import scan
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.bench.generate import Shape, write_log
from tests.bench.results import record

ROWS = 1_000_000
COLUMNS = ("reward", "response_tokens", "kl_k3_mean")
FILTERS = (
    "reward < 0",
    "reward < 0 and response_tokens > 500 and kl_k3_mean > p99",
    "not (reward < p10 or kl_k3_mean > p99) and reward - kl_k3_mean > 0.5",
)
_STEP = re.compile(rb'"step": (\d+)')
#: The last text is in nearly every line, and every line that may contain it is parsed.
SOUGHT = ("zebra", "答案是", "<|user|>7 + 19 = ?", "no such 🙂 text", "THE QUICK", "因此")
#: Bytes that the plain search reads at a time.
PLAIN = 4 << 20


def million() -> FilterScope:
    """A snapshot of a million rows with all columns."""
    draw = np.random.default_rng(0)
    place = {name: Column(dtype, 0) for name, dtype in (("step", np.int64),)}
    place["step"].write(0, np.repeat(np.arange(1000), ROWS // 1000))
    numbers = {name: Column(np.float64, np.nan) for name in COLUMNS}
    for column in numbers.values():
        column.write(0, draw.normal(scale=400, size=ROWS))
    snapshot = Snapshot(
        "million",
        rows=ROWS,
        state=np.full(ROWS, COUNTED, np.uint8),
        _metadata={name: column.view(ROWS) for name, column in place.items()},
        _numbers={name: column.view(ROWS) for name, column in numbers.items()},
    )
    return FilterScope(snapshot, np.arange(ROWS))


async def beside(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that the work took in a thread, and the latest tick of the loop meanwhile."""
    late = 0.0
    started = time.perf_counter()
    running = asyncio.get_running_loop().run_in_executor(None, work)
    while not running.done():
        before = time.perf_counter()
        await asyncio.sleep(0.002)
        late = max(late, time.perf_counter() - before - 0.002)
    await running
    return time.perf_counter() - started, late


def ask(scope: FilterScope, text: str) -> None:
    """Run one filter, from its text to its rows."""
    truth = Filter(text, dict.fromkeys(COLUMNS, NUMBER)).evaluate(FilterInput(scope))
    np.flatnonzero(truth.sure)


def filters() -> str:
    """Return the results as markdown, one line per filter."""
    scope = million()
    lines = ["| filter over 1M samples | ms | loop late, ms |", "|---|---|---|"]
    for text in FILTERS:
        runs = [asyncio.run(beside(lambda text=text: ask(scope, text))) for _ in range(5)]
        took, late = np.median([run[0] for run in runs]), max(run[1] for run in runs)
        lines.append(f"| `{text}` | {took * 1e3:,.0f} | {late * 1e3:,.0f} |")
    return "\n".join(lines)


def search(gigabytes: float) -> str:
    """Return the results as markdown, one line per search."""
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
        index = _run_of(Path(folder), gigabytes)
        size = int(index.snapshot.metadata("length")[index.snapshot.alive_rows].sum())
        what = f"text in {size / 1e9:.1f} GB, {index.snapshot.samples:,} samples"
        lines = [
            f"| {what} | hits | s | MB/s | MB per CPU-second | loop late, ms "
            "| plain find, MB per CPU-second | of its speed |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for text in SOUGHT:
            hits: list[int] = []
            busy: list[float] = []

            def work(text: str = text, hits: list[int] = hits, busy: list[float] = busy) -> None:
                started = time.thread_time()
                test = TextPredicate("", "contains", text)
                found = scan(index, index.snapshot, index.snapshot.alive_rows, [test])
                hits.append(sum(int(batch.texts[test].sum()) for batch in found))
                busy.append(time.thread_time() - started)

            took, late = asyncio.run(beside(work))
            bare = plain(Path(folder) / "run", text.encode())
            speed, sought = size / took / 1e6, text.replace("|", "\\|")
            lines.append(
                f"| {sought} | {hits[0]:,} | {took:.2f} | {speed:,.0f} | {size / busy[0] / 1e6:,.0f} "
                f"| {late * 1e3:,.0f} | {size / bare / 1e6:,.0f} | {bare / busy[0]:.2f} |"
            )
    return "\n".join(lines)


def plain(run: Path, needle: bytes) -> float:
    """Return the CPU seconds to read a run's files and count the blocks that contain some bytes."""
    started = time.thread_time()
    for path in run.iterdir():
        with path.open("rb") as file:
            while block := file.read(PLAIN):
                block.find(needle)
    return time.thread_time() - started


def _run_of(folder: Path, gigabytes: float) -> RunIndex:
    """Write a run of this size: a log of 100 MB, repeated with other steps each time.

    Repeated lines would be excluded as duplicates.
    """
    source = folder / "source"
    path = write_log(source, Shape(steps=32, samples=128, ranks=1, tokens=256))[0]
    run = folder / "run"
    run.mkdir()
    lines = path.read_bytes()
    for rank in range(max(1, round(gigabytes * 1e9 / path.stat().st_size))):
        moved = _STEP.sub(lambda step, rank=rank: b'"step": %d' % (int(step[1]) + 32 * rank), lines)
        (run / f"rollout_data_rank_{rank}.jsonl").write_bytes(moved)
    index = RunIndex(run, "run", Reading())
    index.rescan()
    while index.read():
        pass
    return index


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    found = f"{filters()}\n\n{search(given.gigabytes)}"
    if given.record:
        record("Finding", f"`python -m tests.bench.find --gigabytes {given.gigabytes}`.", found)
    sys.stdout.write(f"{found}\n")


if __name__ == "__main__":
    main()
