"""What the store costs once a run is big: memory, appending, fetching, watching, and the lag of a live line.

    python -m tests.bench.store [NAME ...]

Each figure is taken in a process of its own. Goals stand beside the figures.
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

MILLION = Shape(steps=1000, samples=1000, ranks=8, tokens=0)


def peak() -> float:
    """Most memory this process ever held, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def held() -> float:
    """Memory this process holds now, MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def ingest(folder: Path) -> object:
    """The run's index, all read."""
    from rlpanel.store.index import RunIndex

    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return index


def million(folder: Path) -> Iterator[str]:
    """Memory of a million samples, and appending to them."""
    write_log(folder, MILLION)
    import rlpanel.store.index  # noqa: F401

    before, started = held(), time.process_time()
    index = ingest(folder)
    seconds = time.process_time() - started
    snapshot = index.snapshot  # type: ignore[attr-defined]
    columns = len(snapshot.numbers) + len(snapshot.labels)
    memory = held() - before
    yield f"1M samples, {columns} columns | {memory:,.0f} MB held, {seconds:,.1f} CPU s | ≤ 300 MB at 28"
    taken = []
    for number in range(15):
        new = b"".join(lines(Shape(steps=1, samples=1024, tokens=0, seed=number + 1)))
        with (folder / "rollout_data_rank_0.jsonl").open("ab") as file:
            file.write(new.replace(b'"step": 0', b'"step": %d' % (MILLION.steps + number)))
        chunks = list(index._files["rollout_data_rank_0.jsonl"].reader.poll(4 << 20))  # type: ignore[attr-defined]
        started = time.process_time()
        for chunk in chunks:
            if chunk.records:
                index._table.take(0, chunk, 0)  # type: ignore[attr-defined]
        index.commit()  # type: ignore[attr-defined]
        taken.append(time.process_time() - started)
    yield f"append 1,024 rows at 1M (parsed → snapshot) | {statistics.median(taken) * 1e3:.2f} ms | < 3 ms"
    started = time.process_time()
    frame = index.snapshot.step_frame()  # type: ignore[attr-defined]
    yield f"table of {len(frame):,} steps at 1M | {(time.process_time() - started) * 1e3:.1f} ms | "


def fetching(folder: Path) -> Iterator[str]:
    """One sample read back."""
    from rlpanel.store.run import fetch

    for title, tokens, goal in (("100 KB", 1024, "< 2 ms"), ("1 MB", 10_240, "< 10 ms")):
        write_log(folder / title, Shape(steps=2, samples=16, ranks=1, tokens=tokens))
        index = ingest(folder / title)
        snapshot, taken = index.snapshot, []  # type: ignore[attr-defined]
        for row in snapshot.living.tolist():
            started = time.perf_counter()
            fetch(index, snapshot, row)  # type: ignore[arg-type]
            taken.append(time.perf_counter() - started)
        yield f"fetch one sample, {title} line | {statistics.median(taken) * 1e3:.2f} ms | {goal}"


def tokens(folder: Path) -> Iterator[str]:
    """Memory added by many long samples (a tenth of a real run, so a tenth of the rows)."""
    write_log(folder, Shape(steps=20, samples=128, ranks=8, tokens=1024))
    import rlpanel.store.index  # noqa: F401

    before = peak()
    ingest(folder)
    yield f"2,560 samples × 1,024 tokens | {peak() - before:,.0f} MB at the peak | ≤ 60 MB at 25,600"


def idle(folder: Path) -> Iterator[str]:
    """CPU of a reader that watches 64 quiet files."""
    from rlpanel.settings import Reading
    from rlpanel.store.live import Reader

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
    """From write to row: 64 files, 50 MB/s in all, each line stamped when it is written."""
    from rlpanel.settings import Reading
    from rlpanel.store.live import Reader

    for title, reading in (("events", Reading()), ("polling", Reading(polling=True))):
        run = folder / title
        run.mkdir()
        lags, seconds = _follow(run, Reader(reading))
        p50, p99 = (statistics.quantiles(lags, n=100)[at] * 1e3 for at in (49, 98))
        figure = f"p50 {p50:.0f} ms, p99 {p99:.0f} ms ({seconds:.0f} s)"
        yield f"write → row, 64 files, 50 MB/s, {title} | {figure} | p50 < 150 ms, p99 < 400 ms"


def _follow(run: Path, reader: object) -> tuple[list[float], float]:
    """Lags of the lines that a writer process makes while a reader follows."""
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
    """Append lines of 25 KB to 64 files at ``rate`` bytes a second, in random order of files."""
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
    "million": million, "tokens": tokens, "fetching": fetching, "idle": idle, "lag": lag,
}  # fmt: skip


def main() -> None:
    """Run the named benches, each in its own process."""
    if sys.argv[1:2] == ["--one"]:
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
            for row in BENCHES[sys.argv[2]](Path(folder)):
                sys.stdout.write(f"| {row} |\n")
        return
    sys.stdout.write("| | figure | goal |\n|---|---|---|\n")
    sys.stdout.flush()
    for name in sys.argv[1:] or BENCHES:
        subprocess.run([sys.executable, "-m", "tests.bench.store", "--one", name], check=True)


if __name__ == "__main__":
    main()
