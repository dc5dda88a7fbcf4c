"""Measures the store: reading, memory, appending, reopening, step metrics, fetching, following many files.

python -m tests.bench.store [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is a run of a million samples.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rlpanel import open_run
from tests.bench.generate import Shape, lines, write_log
from tests.bench.harness import Figures, Task, alone, middle_and_worst, run
from tests.waiting import wait_until

#: Further rewards of each sample: with derived columns, a sample has 27 numbers and a label.
SCORES = 19
#: Files that are followed, and bytes that all of them grow by in a second.
FILES, RATE = 64, 50e6
APPENDS = 25


def prepare(task: Task) -> None:
    """Write a large run, and runs of long lines."""
    steps = task.pick(4, 100, 1000)
    write_log(task.data / "large", Shape(steps=steps, samples=1000, ranks=8, tokens=0, scores=SCORES))
    write_log(task.data / "tokens", Shape(steps=task.pick(4, 200, 200), samples=128, ranks=8, tokens=32))
    for name, tokens in (("100 KB", 1024), ("1 MB", 10_240)):
        write_log(task.data / name, Shape(steps=2, samples=task.pick(2, 16, 16), ranks=1, tokens=tokens))
    (task.data / "files").mkdir()
    line = next(iter(lines(Shape(steps=1, samples=1, tokens=8))))
    for number in range(task.pick(50, 2000, 16_000)):
        (task.data / "files" / f"rollout_{number:06d}.jsonl").write_bytes(line)


def measure(task: Task) -> Figures:
    """Measure each part in a process of its own."""
    large = task.folder / "large"
    shutil.copytree(task.data / "large", large)
    figures = alone(_read_and_append, large, task.pick(4, 100, 1000)) | alone(_reopen, large)
    figures |= alone(_step_metrics, task.linked("tokens"))
    for name in ("100 KB", "1 MB"):
        figures |= alone(_fetch, task.linked(name))
    figures |= alone(_many_files, shutil.copytree(task.data / "files", task.folder / "files"))
    return figures | alone(_follow, task.folder / "live", task.pick(2.0, 8.0, 20.0))


def _held() -> float:
    """Return the memory that this process holds now, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def _read_and_append(folder: Path, steps: int) -> Figures:
    """Read a run, append steps of 1,024 samples to it one by one, and save its index."""
    before, began = _held(), time.process_time()
    opened = open_run(folder, follow=False, jobs=0)
    figures = {"read, CPU s": time.process_time() - began, "memory added, MB": _held() - before}
    index, path, taken = opened.index, folder / "rollout_data_rank_0.jsonl", []
    for number in range(APPENDS):
        new = b"".join(lines(Shape(steps=1, samples=1024, tokens=0, seed=number + 1, scores=SCORES)))
        with path.open("ab") as file:
            file.write(new.replace(b'"step": 0', b'"step": %d' % (steps + number)))
        rows, began = index.snapshot.rows, time.process_time()
        index.read({str(path)})
        taken.append(1e3 * (time.process_time() - began))
        assert index.snapshot.rows == rows + 1024
    figures["append 1,024 lines → snapshot, CPU ms"] = statistics.median(taken)
    began = time.process_time()
    index.save(last=True)
    figures["save the index, CPU s"] = time.process_time() - began
    return figures


def _reopen(folder: Path) -> Figures:
    """Open a run with an index."""
    before, began, clock = _held(), time.process_time(), time.perf_counter()
    opened = open_run(folder, follow=False, jobs=0)
    steps = opened.steps
    figures = {
        "reopen → steps, s": time.perf_counter() - clock,
        "reopen → steps, CPU s": time.process_time() - began,
        "memory of it, MB": _held() - before,
    }
    assert len(steps)
    figures["bytes read again, MB"] = opened.index.bytes_read / 1e6  # small logs are not saved
    began = time.process_time()
    opened.histogram("reward")
    return figures | {"histograms of all steps, CPU ms": 1e3 * (time.process_time() - began)}


def _step_metrics(folder: Path) -> Figures:
    """Calculate all step metrics of a run with token values."""
    opened = open_run(folder, follow=False, jobs=0)
    began = time.process_time()
    steps = opened.steps
    taken = 1e3 * (time.process_time() - began)
    return {f"{len(steps.columns)} columns of {len(steps)} steps, CPU ms": taken}


def _fetch(folder: Path) -> Figures:
    """Read each sample from its file."""
    opened = open_run(folder, follow=False, jobs=0)
    taken = []
    for uid in opened.samples(older=True)["uid"]:
        began = time.process_time()
        opened.sample(uid)
        taken.append(1e3 * (time.process_time() - began))
    return {f"fetch a sample of {folder.name}, CPU ms": statistics.median(taken)}


def _many_files(folder: Path) -> Figures:
    """Read a run of many files of a line, then follow one of them."""
    began = time.process_time()
    opened = open_run(folder, follow=False, jobs=0)
    read = time.process_time() - began
    index, path, taken = opened.index, folder / "rollout_000000.jsonl", []
    line = path.read_bytes()
    for _ in range(20):
        with path.open("ab") as file:
            file.write(line)
        began = time.process_time()
        index.read({str(path)})
        taken.append(1e3 * (time.process_time() - began))
    name = f"{len(os.listdir(folder)):,} files"
    return {f"{name}, read, CPU s": read, f"{name}, one grew, CPU ms": statistics.median(taken)}


def _follow(folder: Path, seconds: float) -> Figures:
    """Follow files that rest, then files that grow; return the share of a core, and the times until rows."""
    folder.mkdir()
    _write_live(folder, 0.1)
    followed = open_run(folder)
    index, lags, done = followed.index, list[float](), followed.snapshot.rows
    began, clock = time.process_time(), time.monotonic()
    time.sleep(seconds)
    idle = (time.process_time() - began) / (time.monotonic() - clock)

    def hear(changed: object) -> None:
        nonlocal done
        now, snapshot = time.time(), index.snapshot
        if changed is index and snapshot.rows > done:
            lags.extend((now - snapshot.number("written")[done : snapshot.rows]).tolist())
            done = snapshot.rows

    stop = followed.listen(hear)
    code = "import sys; from tests.bench.store import _write_live as w; from pathlib import Path as P; "
    code += "w(P(sys.argv[1]), float(sys.argv[2]))"
    subprocess.run([sys.executable, "-P", "-c", code, str(folder), str(seconds)], check=True)
    wait_until(lambda: index.snapshot.progress.caught_up and not index.snapshot.progress.waiting)
    stop()
    followed.close()
    found = middle_and_worst(
        f"write → row, {FILES} files, {RATE / 1e6:.0f} MB/s", "ms", [1e3 * lag for lag in lags]
    )
    return {f"{FILES} files rest, % of a core": 100 * idle, **found}


def _write_live(folder: Path, seconds: float) -> None:
    """Append lines of 25 KB to files in random order, each with the time of its write."""
    made = list(lines(Shape(steps=2, samples=32, tokens=256)))
    names = [folder / f"rollout_data_rank_{rank}.jsonl" for rank in range(FILES)]
    began, sent, number = time.monotonic(), 0, 0
    while (now := time.monotonic() - began) < seconds:
        if sent < now * RATE:
            line = made[number % len(made)]
            stamped = line[:-2] + b', "written": %.6f}\n' % time.time()
            with names[(number * 37) % FILES].open("ab") as file:
                file.write(stamped)
            sent += len(stamped)
            number += 1
        else:
            time.sleep(0.001)


if __name__ == "__main__":
    run(measure, prepare)
