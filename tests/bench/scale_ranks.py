"""Measures a reader that follows 1,024 files: its processor time, and the time from write to row."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

#: Files, seconds of each measurement, and lines that all ranks together write in a second.
FILES, SECONDS, LINES = 1024, 15.0, 100
TIMEOUT = 60.0


def ranks(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Follow files that rest, then files that grow slowly; with file events and by polling."""
    from rlpanel.settings import Reading
    from rlpanel.store.index.reader import Reader

    for way, reading in (("events", Reading()), ("polling", Reading(polling=True))):
        run = folder / way
        run.mkdir()
        for rank in range(FILES):
            (run / f"rollout_data_rank_{rank}.jsonl").write_bytes(_line(0, rank) * 8)
        reader = Reader(reading)
        begin, index = time.monotonic(), reader.open(run)
        _until(lambda index=index: index.snapshot.progress.caught_up)  # type: ignore[misc]
        yield f"{FILES:,} files of 8 lines, {way}: read", f"{time.monotonic() - begin:.2f} s", ""
        worked = time.process_time()
        time.sleep(SECONDS)
        yield f"nothing changes, {way}", _share(worked), ""
        worked = time.process_time()
        lags = _lags(run, reader, index)
        yield f"{LINES} lines a second, {way}", _share(worked), ""
        p50, p99 = (statistics.quantiles(lags, n=100)[at] * 1e3 for at in (49, 98))
        yield f"write → row, {len(lags):,} lines, {way}", f"p50 {p50:.0f} ms, p99 {p99:.0f} ms", ""
        reader.stop()


def _lags(run: Path, reader: object, index: object) -> list[float]:
    """Return the seconds from write to row of the lines that a writer process writes."""
    lags: list[float] = []
    done = index.snapshot.rows  # type: ignore[attr-defined]

    def hear(_: object) -> None:
        nonlocal done
        now, snapshot = time.time(), index.snapshot  # type: ignore[attr-defined]
        if snapshot.rows > done and "written" in snapshot.numbers:
            lags.extend((now - snapshot.number("written")[done : snapshot.rows]).tolist())
            done = snapshot.rows

    stop = reader.listen(hear)  # type: ignore[attr-defined]
    subprocess.run([sys.executable, "-m", "tests.bench.scale_ranks", str(run)], check=True)
    _until(lambda: len(lags) >= SECONDS * LINES * 0.9)
    stop()
    return lags


def write_slowly(run: Path) -> None:
    """Append a line to each file in turn."""
    begin = time.monotonic()
    for number in range(int(SECONDS * LINES)):
        time.sleep(max(0.0, begin + number / LINES - time.monotonic()))
        rank = number % FILES
        with (run / f"rollout_data_rank_{rank}.jsonl").open("ab") as log:
            log.write(_line(1 + number // FILES, rank, written=time.time()))


def _line(step: int, rank: int, **more: float) -> bytes:
    sample = {"step": step, "prompt": f"{rank} + {step} =", "response": "4", "reward": rank / 1024}
    return json.dumps({**sample, **more}).encode() + b"\n"


def _share(worked: float) -> str:
    return f"{(time.process_time() - worked) / SECONDS:.1%} of a core"


def _until(condition: object) -> None:
    deadline, pause = time.monotonic() + TIMEOUT, threading.Event()
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError("the reader did not catch up")
        pause.wait(0.01)


if __name__ == "__main__":
    write_slowly(Path(sys.argv[1]))
