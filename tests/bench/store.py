"""Measures the store with a large run: memory, appending, fetching, watching, and the lag of live lines.

    python -m tests.bench.store [--record] [NAME ...]

Each benchmark runs in its own process. Goals are next to the figures. ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.generate import Shape, lines, write_log
from tests.bench.results import record

#: With derived columns, 27 numbers and a label.
MILLION = Shape(steps=1000, samples=1000, ranks=8, tokens=0, scores=19)
HEAD = "| | figure | goal |\n|---|---|---|\n"


def held() -> float:
    """Return the memory that this process holds now, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def ingest(folder: Path) -> object:
    """Return the run's index after reading everything."""
    from rlpanel.store.index.run_index import RunIndex

    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return index


def million(folder: Path) -> Iterator[str]:
    """Memory of a million samples, appending to them, and opening them again."""
    write_log(folder, MILLION)
    import rlpanel.store.index.run_index  # noqa: F401

    before, started = held(), time.process_time()
    index = ingest(folder)
    seconds = time.process_time() - started
    snapshot = index.snapshot  # type: ignore[attr-defined]
    columns = len(snapshot.numbers) + len(snapshot.labels)
    memory = held() - before
    yield f"1M samples, {columns} columns: memory added | {memory:,.0f} MB | ≤ 300 MB"
    yield f"1M samples, {columns} columns: read | {seconds:,.1f} CPU s | "
    whole, added = [], []
    for number in range(25):
        parsed, rows = _append(index, folder, number)
        whole.append(parsed)
        added.append(rows)
    yield f"append 1,024 rows at 1M: rows → snapshot | {statistics.median(added) * 1e3:.2f} ms CPU | < 3 ms"
    yield f"the same from parsed lines | {statistics.median(whole) * 1e3:.2f} ms CPU | "
    started = time.process_time()
    index.save(last=True)  # type: ignore[attr-defined]
    yield f"write the index of 1M samples | {time.process_time() - started:.2f} CPU s | "
    command = [sys.executable, "-m", "tests.bench.store", "--one", "reopened", str(folder)]
    yield from subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _append(index: object, folder: Path, number: int) -> tuple[float, float]:
    """Return the CPU seconds from 1,024 parsed lines, and from their rows, to the snapshot."""
    new = b"".join(lines(Shape(steps=1, samples=1024, tokens=0, seed=number + 1, scores=MILLION.scores)))
    with (folder / "rollout_data_rank_0.jsonl").open("ab") as file:
        file.write(new.replace(b'"step": 0', b'"step": %d' % (MILLION.steps + number)))
    file_of = index._files["rollout_data_rank_0.jsonl"]  # type: ignore[attr-defined]
    chunks = [chunk for chunk in file_of.reader.poll(4 << 20) if len(chunk)]
    table, started = index._table, time.process_time()  # type: ignore[attr-defined]
    for chunk in chunks:
        table.stage.add_chunk(file_of.number, chunk)
    rows = table.stage.flush()
    between = time.process_time()
    table.add(rows, index.version + 1)  # type: ignore[attr-defined]
    index.commit()  # type: ignore[attr-defined]
    return time.process_time() - started, time.process_time() - between


def reopened(folder: Path) -> Iterator[str]:
    """A saved run of a million samples, opened in a new process."""
    import rlpanel.store.index.run_index  # noqa: F401

    before, started, clock = held(), time.process_time(), time.perf_counter()
    index = ingest(folder)
    table = index.view.step_frame()  # type: ignore[attr-defined]
    seconds, clock = time.process_time() - started, time.perf_counter() - clock
    assert index.bytes_read == 0  # type: ignore[attr-defined]
    yield f"reopen 1M samples to the first steps | {clock:.2f} s, {seconds:.2f} CPU s | < 1 s"
    yield f"memory of it, columns mapped | {held() - before:,.0f} MB | "
    started = time.process_time()
    index.view.histogram("reward")  # type: ignore[attr-defined]
    yield f"histograms of {len(table):,} steps at 1M | {(time.process_time() - started) * 1e3:.0f} ms CPU | "


def fetching(folder: Path) -> Iterator[str]:
    """Reading one sample from its file."""
    from rlpanel.store.query.fetch_sample import fetch

    for title, tokens, goal in (("100 KB", 1024, "< 2 ms"), ("1 MB", 10_240, "< 10 ms")):
        write_log(folder / title, Shape(steps=2, samples=16, ranks=1, tokens=tokens))
        index = ingest(folder / title)
        snapshot, taken = index.snapshot, []  # type: ignore[attr-defined]
        for row in snapshot.alive_rows.tolist():
            started, clock = time.process_time(), time.perf_counter()
            fetch(index, index.view, row)  # type: ignore[arg-type]
            taken.append((time.perf_counter() - clock, time.process_time() - started))
        wall, cpu = (statistics.median(column) * 1e3 for column in zip(*taken, strict=True))
        yield f"fetch one sample, {title} line | {wall:.2f} ms, {cpu:.2f} ms CPU | {goal}"


def idle(folder: Path) -> Iterator[str]:
    """CPU time of a reader that watches 64 unchanging files."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    write_log(folder, Shape(steps=64, samples=8, ranks=64, tokens=64))
    for title, reading in (("events", Reading()), ("polling", Reading(polling=True))):
        reader = Reader(reading)
        index = reader.open(folder)
        _until(lambda index=index: index.snapshot.progress.caught_up)  # type: ignore[misc]
        started, seconds = time.process_time(), 10.0
        time.sleep(seconds)
        share = (time.process_time() - started) / seconds
        reader.stop()
        yield f"idle, 64 files, {title} | {share:.2%} CPU | < 1 %"


def lag(folder: Path) -> Iterator[str]:
    """Time from write to row: 64 files, 50 MB/s in total, each line with the time of its write."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    for title, reading in (("events", Reading()), ("polling", Reading(polling=True))):
        run = folder / title
        run.mkdir()
        lags, seconds = _follow(run, Reader(reading))
        p50, p99 = (statistics.quantiles(lags, n=100)[at] * 1e3 for at in (49, 98))
        figure = f"p50 {p50:.0f} ms, p99 {p99:.0f} ms ({seconds:.0f} s)"
        yield f"write → row, 64 files, 50 MB/s, {title} | {figure} | p50 < 150 ms, p99 < 400 ms"


def _follow(run: Path, reader: object) -> tuple[list[float], float]:
    """Return the lags of a writer process's lines while a reader follows."""
    writer = "from tests.bench.store import write_live; import sys; write_live(sys.argv[1])"
    index = reader.open(run)  # type: ignore[attr-defined]
    lags: list[float] = []
    done = 0

    def hear(changed: object) -> None:
        nonlocal done
        if changed is not index:
            return
        now, snapshot = time.time(), index.snapshot
        if snapshot.rows > done:
            lags.extend((now - snapshot.number("written")[done : snapshot.rows]).tolist())
            done = snapshot.rows

    reader.listen(hear)  # type: ignore[attr-defined]
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", writer, str(run)], check=True)
    seconds = time.monotonic() - started
    _until(lambda: index.snapshot.progress.caught_up and index.snapshot.progress.waiting == 0)
    reader.stop()  # type: ignore[attr-defined]
    return lags, seconds


def write_live(run: str, seconds: float = 8.0, rate: float = 50e6) -> None:
    """Append lines of 25 KB to 64 files at ``rate`` bytes per second, in random order of files."""
    made = list(lines(Shape(steps=2, samples=32, tokens=256)))
    names = [os.path.join(run, f"rollout_data_rank_{rank}.jsonl") for rank in range(64)]
    started, sent, number = time.monotonic(), 0, 0
    while (now := time.monotonic() - started) < seconds:
        if sent < now * rate:
            line = made[number % len(made)]
            stamped = line[:-2] + b', "written": %.6f}\n' % time.time()
            with open(names[(number * 37) % 64], "ab") as file:
                file.write(stamped)
            sent += len(stamped)
            number += 1
        else:
            time.sleep(0.001)


def _until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the reader did not catch up")
        pause.wait(0.01)


BENCHES: dict[str, Callable[[Path], Iterator[str]]] = {
    "million": million, "fetching": fetching, "idle": idle, "lag": lag,
}  # fmt: skip


def main() -> None:
    """Run the named benchmarks, each in its own process."""
    names = sys.argv[1:]
    if names[:1] == ["--one"]:
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
            rows = reopened(Path(names[2])) if names[2:] else BENCHES[names[1]](Path(folder))
            for row in rows:
                sys.stdout.write(f"{row}\n")
        return
    keep = "--record" in names
    for name in [name for name in names if name != "--record"] or BENCHES:
        command = [sys.executable, "-m", "tests.bench.store", "--one", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        text = HEAD + "".join(f"| {row} |\n" for row in done.stdout.splitlines())
        sys.stdout.write(f"{name}\n{text}\n")
        sys.stdout.flush()
        if keep:
            record(f"Store, {name}", f"`python -m tests.bench.store {name}`.", text.rstrip())


if __name__ == "__main__":
    main()
