"""Measures the speed and memory of reading logs: rlpanel's whole path, and the bare parser as a lower bound.

python -m tests.bench.ingest [--against PATH] [--rounds N] [--size SIZE] [--record]
"""

from __future__ import annotations

import gc
import os
import resource
import time
from pathlib import Path

import simdjson

from rlpanel import open_run
from tests.bench.generate import Shape, write_log
from tests.bench.harness import Figures, Task, run
from tests.bench.short_lines import ShortLines, write_short_lines

TINY: dict[str, Shape | ShortLines] = {"25 KB lines": Shape(steps=4, samples=16, tokens=256)}
SMALL: dict[str, Shape | ShortLines] = {
    "25 KB lines": Shape(steps=125, samples=64, tokens=256),
    "100 KB lines": Shape(steps=32, samples=64, tokens=1024),
    "2 KB lines": ShortLines("native", steps=80),
    "2 KB lines of verl": ShortLines("verl", steps=80),
    "tiny lines": Shape(steps=100, samples=1000, tokens=0),
}
FULL: dict[str, Shape | ShortLines] = {
    "25 KB lines": Shape(steps=100, samples=256, ranks=8, tokens=256),
    "100 KB lines": Shape(steps=100, samples=256, ranks=8, tokens=1024),
    "2 KB lines": ShortLines("native", steps=1000),
    "2 KB lines of verl": ShortLines("verl", steps=1000),
    "tiny lines": Shape(steps=1000, samples=1000, ranks=8, tokens=0),
}


def prepare(task: Task) -> None:
    """Write a log of each size."""
    for name, shape in task.pick(TINY, SMALL, FULL).items():
        if isinstance(shape, Shape):
            write_log(task.data / name, shape)
        else:
            (task.data / name).mkdir()
            write_short_lines(task.data / name, shape)


def measure(task: Task) -> Figures:
    """Read each log once, in this thread."""
    os.environ["RLPANEL_CACHE"] = "off"
    found: Figures = {}
    for folder in sorted(task.data.iterdir()):
        gc.collect()
        before, began = _peak(), time.process_time()
        opened = open_run(folder, follow=False, jobs=0)
        found[f"{folder.name}, CPU s"] = time.process_time() - began
        found[f"{folder.name}, MB added at most"] = max(0.0, _peak() - before)
        opened.close()
        began = time.process_time()
        _parse(folder)
        found[f"{folder.name}, bare pysimdjson, CPU s"] = time.process_time() - began
    return found


def _parse(folder: Path) -> None:
    """Parse every line, and convert nothing."""
    parser = simdjson.Parser()
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                parser.parse(line)


def _peak() -> float:
    """Return the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    run(measure, prepare)
