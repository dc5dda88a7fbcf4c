"""Measures the cost of a backlog: a large run, live lines meanwhile, thousands of files, compressed files.

    python -m tests.bench.backlog [NAME ...]

Each figure is measured in its own process. Goals are next to the figures.
"""

from __future__ import annotations

import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from tests.bench.generate import Shape, lines
from tests.bench.hostile import peak
from tests.bench.store import _until

GIGABYTE = 1 << 30
FRAME = 1 << 20


def fill(folder: Path, size: int, files: int, prefix: str = "rollout_data_rank_") -> None:
    """Write lines of 25 KB to ``files`` files, ``size`` bytes in total, with rising steps."""
    made = list(lines(Shape(steps=1, samples=64, tokens=256)))
    folder.mkdir(exist_ok=True)
    for at in range(files):
        with (folder / f"{prefix}{at}.jsonl").open("wb") as log:
            step = 0
            while log.tell() < size // files:
                log.write(
                    b"".join(
                        line.replace(b'"step": 0,', b'"step": %d, "file": %d,' % (step, at)) for line in made
                    )
                )
                step += 1


def whole(folder: Path) -> Iterator[str]:
    """Reading a single large file, alone and with processes; opening it again from its index."""
    import rlpanel

    fill(folder, GIGABYTE, 1)
    for jobs in (0, 1, 2):
        os.environ["RLPANEL_CACHE"] = "1" if jobs == 2 else "0"
        started, cpu = time.perf_counter(), sum(os.times()[:4])
        rlpanel.open_run(folder, follow=False, jobs=jobs).close()
        seconds, used = time.perf_counter() - started, sum(os.times()[:4]) - cpu
        yield (
            f"1 GB in one file, {jobs} processes | {seconds:.1f} s, {used:.1f} CPU s, "
            f"{GIGABYTE / 1e6 / seconds:,.0f} MB/s, peak {peak():,.0f} MB | "
        )
    started = time.perf_counter()
    rlpanel.open_run(folder, follow=False).close()
    yield f"opened again from its index | {(time.perf_counter() - started) * 1e3:.0f} ms | < 1 s"


def newest(folder: Path) -> Iterator[str]:
    """Time until the newest steps and until all steps are shown, when a large run is opened."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    last = 10**9
    for megabytes in (256, 1024):
        run = folder / str(megabytes)
        fill(run, megabytes << 20, 8)
        with (run / "rollout_data_rank_3.jsonl").open("ab") as log:
            log.write(b'{"step": %d, "prompt": "p", "response": "r"}\n' % last)
        first, seconds = opened(Reader(Reading()), run, last)
        yield (
            f"{megabytes:,} MB in 8 files: newest step shown / all read | {first:.2f} / {seconds:.1f} s, "
            f"peak {peak():,.0f} MB | the first not longer for more"
        )


def opened(reader: object, run: Path, last: int) -> tuple[float, float]:
    """Return the seconds until a step is shown, and until everything is read."""
    started = time.perf_counter()
    index = reader.open(run)  # type: ignore[attr-defined]
    _until(lambda: last in index.snapshot.steps.values)
    first = time.perf_counter() - started
    _until(lambda: index.snapshot.progress.caught_up)
    seconds = time.perf_counter() - started
    reader.stop()  # type: ignore[attr-defined]
    return first, seconds


def many(folder: Path) -> Iterator[str]:
    """Ten thousand small files."""
    from rlpanel.sources.discovery.directory import Directory
    from rlpanel.store.index.run_index import RunIndex

    line = next(iter(lines(Shape(steps=1, samples=1, tokens=16))))
    for count in (1000, 10_000):
        run = folder / str(count)
        run.mkdir()
        for at in range(count):
            (run / f"{at}.jsonl").write_bytes(line * 8)
        started = time.perf_counter()
        Directory(folder).runs()
        found = time.perf_counter() - started
        index = RunIndex(run, "run")
        started = time.perf_counter()
        index.rescan()
        while index.read():
            pass
        read = time.perf_counter() - started
        started = time.perf_counter()
        index.rescan()
        index.read()
        again = time.perf_counter() - started
        started = time.perf_counter()
        index.read({str(run / "7.jsonl")})
        one = time.perf_counter() - started
        yield (
            f"{count:,} files of 8 lines | found {found:.2f} s, read {read:.2f} s, looked at again "
            f"{again * 1e3:.0f} ms, one of them by an event {one * 1e3:.1f} ms | no O(n²)"
        )


def lag(folder: Path) -> Iterator[str]:
    """Time from write to row: 64 files, 50 MB/s in total, alone and with a gigabyte of backlog."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    for title, backlog in (("nothing else", 0), ("a backlog of 1 GB in 8 files", GIGABYTE)):
        run = folder / title.replace(" ", "-")
        run.mkdir()
        if backlog:
            fill(run, backlog, 8, "data_rank_9")
        lags, during = follow(run, Reader(Reading()))
        figure = spread(lags)
        yield f"write → row, 64 files, 50 MB/s, {title} | {figure} | p50 < 150 ms, p99 < 400 ms"
        if during:
            yield f"of these while the backlog lasted | {spread(during)} | "


def ten(folder: Path) -> Iterator[str]:
    """Opening ten gigabytes while other files of the run grow: newest steps, live lines, everything."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    last = 10**9
    fill(folder, 10 * GIGABYTE, 8, "data_rank_9")
    with (folder / "data_rank_93.jsonl").open("ab") as log:
        log.write(b'{"step": %d, "prompt": "p", "response": "r"}\n' % last)
    reader = Reader(Reading())
    started, index = time.perf_counter(), reader.open(folder)
    _until(lambda: last in index.snapshot.steps.values)
    first = time.perf_counter() - started
    yield f"10 GB in 8 files: newest step shown | {first:.2f} s | not longer for more"
    lags, _ = heard(folder, reader, index)
    yield f"write → row meanwhile, 64 files, 50 MB/s | {spread(lags)} | p50 < 150 ms, p99 < 400 ms"
    told, seconds = index.snapshot.progress, time.perf_counter() - started
    left = told.waiting / max(told.rate, 1.0)
    yield f"told at {seconds:.0f} s | {told.fraction:.0%}, {told.rate / 1e6:,.0f} MB/s, {left:,.0f} s left | "
    _until(lambda: index.snapshot.progress.caught_up, 600)
    seconds = time.perf_counter() - started
    rows, speed = index.snapshot.rows, index.snapshot.progress.bytes_total / 1e6 / seconds
    reader.stop()
    yield f"all {rows:,} rows read | {seconds:.0f} s, {speed:,.0f} MB/s, peak {peak():,.0f} MB | "


def follow(run: Path, reader: object) -> tuple[list[float], list[float]]:
    """Return the lags of a writer's lines: all, and those before the backlog was read."""
    index = reader.open(run)  # type: ignore[attr-defined]
    found = heard(run, reader, index)
    _until(lambda: index.snapshot.progress.caught_up and index.snapshot.progress.waiting == 0)
    reader.stop()  # type: ignore[attr-defined]
    return found


def heard(run: Path, reader: object, index: Any) -> tuple[list[float], list[float]]:
    """Return the lags of updates while the writer wrote, and of those with a backlog at the same time."""
    lags: list[float] = []
    during: list[float] = []
    done = 0

    def hear(changed: object) -> None:
        nonlocal done
        now, snapshot = time.time(), index.snapshot
        if changed is index and snapshot.rows > done:
            if "written" in snapshot.numbers:
                new = now - snapshot.number("written")[done : snapshot.rows]
                new = new[new == new].tolist()
                lags.extend(new)
                during.extend(new if index.has_backlog else [])
            done = snapshot.rows

    reader.listen(hear)  # type: ignore[attr-defined]
    writer = "from tests.bench.store import write_live; import sys; write_live(sys.argv[1])"
    subprocess.run([sys.executable, "-c", writer, str(run)], check=True)
    return lags, during


def spread(lags: list[float]) -> str:
    """Median and 99th percentile."""
    p50, p99 = (statistics.quantiles(lags, n=100)[at] * 1e3 for at in (49, 98))
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms ({len(lags):,} lines)"


def packed(folder: Path) -> Iterator[str]:
    """Compressed files: reading everything, and one sample from the middle."""
    from rlpanel.store.index.run_index import RunIndex
    from rlpanel.store.query.fetch_sample import fetch

    fill(folder / "plain", 100 << 20, 1)
    plain = (folder / "plain" / "rollout_data_rank_0.jsonl").read_bytes()
    ends = [plain.index(b"\n", at) + 1 for at in range(FRAME, len(plain) - FRAME, FRAME)]
    frames = [plain[a:b] for a, b in zip([0, *ends], [*ends, len(plain)], strict=True)]
    ways: dict[str, Callable[[], bytes]] = {
        "x.jsonl.gz": lambda: gzip.compress(plain, 1),
        "x.jsonl.zst": lambda: zstandard.compress(plain),
        "framed.jsonl.zst": lambda: b"".join(zstandard.compress(frame) for frame in frames),
    }
    for name, pack in ways.items():
        run = folder / name.replace(".", "-")
        run.mkdir()
        (run / name).write_bytes(pack())
        index = RunIndex(run, "run")
        started = time.process_time()
        index.rescan()
        while index.read():
            pass
        used, taken = time.process_time() - started, []
        for row in index.snapshot.alive_rows[10 :: len(index.snapshot.alive_rows) // 12].tolist():
            started = time.perf_counter()
            fetch(index, index.view, row)
            taken.append(time.perf_counter() - started)
        yield (
            f"{name}, 105 MB of plain lines | {len(plain) / 1e6 / used:,.0f} plain MB per CPU s, "
            f"one sample {statistics.median(taken) * 1e3:.1f} ms | framed: 1–2 ms"
        )


BENCHES: dict[str, Callable[[Path], Iterator[str]]] = {
    "whole": whole, "newest": newest, "ten": ten, "many": many, "lag": lag, "packed": packed,
}  # fmt: skip


def main() -> None:
    """Run the named benchmarks, each in its own process."""
    if sys.argv[1:2] == ["--one"]:
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
            for row in BENCHES[sys.argv[2]](Path(folder)):
                sys.stdout.write(f"| {row} |\n")
                sys.stdout.flush()
        return
    sys.stdout.write("| | figure | goal |\n|---|---|---|\n")
    sys.stdout.flush()
    for name in sys.argv[1:] or BENCHES:
        subprocess.run([sys.executable, "-m", "tests.bench.backlog", "--one", name], check=True)


if __name__ == "__main__":
    main()
