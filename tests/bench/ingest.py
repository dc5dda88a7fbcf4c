"""Measures the speed and cost of reading a log: rlpanel, the predecessor's way, and the bare parser.

    python -m tests.bench.ingest [--full] [--record] [--only SIZE] [--keep FOLDER]

Each contender reads the same generated log in its own process, three times in turn with the others. The
result is the median of CPU seconds, which other work on the machine does not affect. ``--full`` uses the
sizes of a real run (660 MB, 2.6 GB, a million short or tiny samples) instead of some 200 MB. ``--record``
writes RESULTS.md. ``--only`` measures one size, given by the first letters of its name. ``--keep`` stores the
generated logs in a folder and reuses them in the next call.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.bench.generate import Shape, write_log
from tests.bench.results import record
from tests.bench.short_lines import ShortLines, write_short_lines

REPEATS = 3
#: Logs larger than this are read into lists only once, because that takes minutes.
SLOWLY_READ = 1e9

MODEST: dict[str, Shape | ShortLines] = {
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


def ours(folder: Path) -> object:
    """rlpanel's whole path: rows, metrics, statistics, snapshot."""
    from rlpanel.store.index.run_index import RunIndex

    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return index


def orjson_into_lists(folder: Path) -> object:
    """The predecessor's way, with the fastest parser that creates Python objects."""
    import orjson

    from tests.bench.incumbent import load

    return load(folder, orjson.loads)


def ujson_into_lists(folder: Path) -> object:
    """The predecessor's way, with its own parser."""
    import ujson

    from tests.bench.incumbent import load

    return load(folder, ujson.loads)


def bare_parser(folder: Path) -> object:
    """Only pysimdjson and two arrays as numpy: a lower bound for everything built on it."""
    import numpy as np
    import simdjson

    parser, kept = simdjson.Parser(), []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                document = parser.parse(line)
                kept.append(document["reward" if "reward" in document else "score"])
                if "logprobs" in document:
                    for name in ("logprobs", "ref_logprobs"):
                        np.frombuffer(document[name].as_buffer(of_type="d"))
                del document
    return kept


CONTENDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "rlpanel, whole path": (ours, "rlpanel"),
    "bare pysimdjson": (bare_parser, "simdjson"),
    "orjson into lists": (orjson_into_lists, "orjson"),
    "ujson into lists (the predecessor)": (ujson_into_lists, "ujson"),
}


def measure(name: str, folder: Path) -> dict[str, float]:
    """Return the CPU seconds and added memory in this process."""
    contender, module = CONTENDERS[name]
    __import__(module)
    if module == "rlpanel":
        __import__("rlpanel.store.index.run_index")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    kept = contender(folder)
    seconds = time.process_time() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del kept
    return {"seconds": seconds, "memory": (after - before) * 1024}


@contextmanager
def generated(shape: Shape | ShortLines, keep: Path | None) -> Iterator[Path]:
    """A folder with the log."""
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as temporary:
        folder = keep or Path(temporary)
        if not list(folder.glob("*.jsonl")):
            if isinstance(shape, Shape):
                write_log(folder, shape)
            else:
                write_short_lines(folder, shape)
        yield folder


def compare(folder: Path, names: list[str]) -> dict[str, dict[str, float]]:
    """Return the medians of each contender."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    for number in range(REPEATS):
        for name in names:
            if number and size > SLOWLY_READ and "lists" in name:
                continue
            command = [sys.executable, "-m", "tests.bench.ingest", "--measure", name, str(folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[name].append(json.loads(done.stdout))
    return {
        name: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for name, found in runs.items()
    }


def table(size: int, rows: int, found: dict[str, dict[str, float]]) -> str:
    """Return the figures of one size as markdown."""
    lines = [
        f"{size / 1e6:,.0f} MB, {rows:,} samples:",
        "",
        "| | MB per CPU-second | µs per sample | memory added |",
        "|---|---|---|---|",
    ]
    for name, run in found.items():
        speed, each = size / 1e6 / run["seconds"], run["seconds"] / rows * 1e6
        lines.append(f"| {name} | {speed:,.0f} | {each:,.1f} | {run['memory'] / 1e6:,.0f} MB |")
    return "\n".join(lines)


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the sizes of a real run")
    parser.add_argument("--record", action="store_true", help="write RESULTS.md")
    parser.add_argument("--only", default="", metavar="SIZE", help="25 KB, 100 KB, 2 KB or tiny")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="logs generated before, or now")
    parser.add_argument("--measure", nargs=2, metavar=("CONTENDER", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, folder = given.measure
        sys.stdout.write(json.dumps(measure(name, Path(folder))))
        return
    names = [name for name, (_, module) in CONTENDERS.items() if find_spec(module)]
    full = " --full" if given.full else ""
    for title, shape in (FULL if given.full else MODEST).items():
        if not title.startswith(given.only):
            continue
        with generated(shape, given.keep and given.keep / title) as folder:
            size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
            text = table(size, shape.rows, compare(folder, names))
        sys.stdout.write(f"{title}\n{text}\n\n")
        if given.record:
            command = f"python -m tests.bench.ingest{full} --only '{title.split(' lines')[0]}'"
            record(f"Ingest, {title}{full and ', a real run'}", f"`{command}`, medians of {REPEATS}.", text)


if __name__ == "__main__":
    main()
