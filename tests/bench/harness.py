"""Runs a benchmark in processes of its own, in turn with another checkout, and keeps the figures as JSON.

A benchmark is a module that hands its function to `run`. The function measures one checkout once and returns
its figures. The unit stands in a figure's name, such as ``read, CPU s``. Every benchmark takes:

--against PATH   Another checkout, such as a worktree of an older commit: both are measured in turn.
--rounds N       How often each checkout is measured; the figure is the median, the ratio that of the pairs.
--full           The sizes of real runs instead of small ones.
--record         Write results/NAME.json and RESULTS.md. Figures of two machines cannot be compared.

The benchmark's own code always is that of this checkout. It should therefore use rlpanel's public interfaces:
`open_run`, `Run`, the commands and the served pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench.results import record

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
RESULTS = HERE / "results"
#: Packages whose versions matter to a figure.
_PACKAGES = ("bokeh", "panel", "tornado", "numpy", "pandas", "pysimdjson", "duckdb")

Figures = dict[str, float]


@dataclass(frozen=True)
class Task:
    """What one process is to measure.

    Attributes
    ----------
    folder : Path
        An empty folder of its own.
    data : Path
        What `prepare` wrote for all processes; it must not be changed.
    full : bool
        Whether to use the sizes of real runs.
    """

    folder: Path
    data: Path
    full: bool


def run(measure: Callable[[Task], Figures], prepare: Callable[[Task], None] | None = None) -> None:
    """Measure as the command line asks, and print the figures.

    Parameters
    ----------
    measure : callable
        Returns the figures of the checkout that it imports.
    prepare : callable, optional
        Writes the data that all processes read into the task's folder ``data``.
    """
    module = sys.modules[measure.__module__]
    parser = argparse.ArgumentParser(
        description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout, measured in turn")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each checkout (default: 3)")
    parser.add_argument("--full", action="store_true", help="the sizes of real runs")
    parser.add_argument("--record", action="store_true", help="write results/NAME.json and RESULTS.md")
    parser.add_argument("--once", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        folder, data = given.once
        print(json.dumps(measure(Task(folder, data, given.full))))
        return
    name = Path(str(module.__file__)).stem
    checkouts = [CHECKOUT, *([given.against.resolve()] if given.against else [])]
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        data = Path(root) / "data"
        data.mkdir()
        if prepare:
            prepare(Task(data, data, given.full))
        found = _in_turn(name, checkouts, Path(root), data, given)
    print(_table(*found))
    if given.record:
        _record(name, found, given)


def _in_turn(
    name: str, checkouts: Sequence[Path], root: Path, data: Path, given: argparse.Namespace
) -> list[list[Figures]]:
    """Return the figures of each checkout in each round."""
    found: list[list[Figures]] = [[] for _ in checkouts]
    for number in range(given.rounds):
        for at, checkout in enumerate(checkouts):
            place = root / f"{number}-{at}"
            (place / "code").mkdir(parents=True)
            (place / "work").mkdir()
            (place / "code" / "rlpanel").symlink_to(checkout / "rlpanel")
            (place / "code" / "tests").symlink_to(CHECKOUT / "tests")
            # What a run leaves on the disk must not speed up the next one.
            home = {"XDG_CACHE_HOME": str(place / "cache"), "PYTHONPATH": str(place / "code")}
            command = [sys.executable, "-P", "-m", f"tests.bench.{name}"]
            command += ["--once", str(place / "work"), str(data), *(["--full"] if given.full else [])]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, env=os.environ | home, cwd=place / "work"
            )
            if done.returncode:
                raise SystemExit(f"{name} failed in {checkout}")
            found[at].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def _ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Figures:
    """Return the median ratio of each figure to that of the other checkout in the same round."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        name: statistics.median(our[name] / their[name] for our, their in pairs)
        for name in ours[0]
        if all(their.get(name) for _, their in pairs)
    }


def _table(ours: Sequence[Figures], theirs: Sequence[Figures] = ()) -> str:
    """Return the figures as a table in Markdown."""
    found = _medians(ours)
    if not theirs:
        return "\n".join(["| | figure |", "|---|---|", *(f"| {n} | {_text(v)} |" for n, v in found.items())])
    other, ratio = _medians(theirs), _ratios(ours, theirs)
    rows = [
        f"| {name} | {_text(value)} | {_text(other.get(name))} | {_text(ratio.get(name))} |"
        for name, value in found.items()
    ]
    return "\n".join(["| | this checkout | the other | ratio |", "|---|---|---|---|", *rows])


def _text(value: float | None) -> str:
    """Return a number with three significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _record(name: str, found: Sequence[Sequence[Figures]], given: argparse.Namespace) -> None:
    """Write the figures with the machine, the versions and the commit, and the page of all benchmarks."""
    options = "".join(f" --{word}" for word in ("full",) if getattr(given, word))
    result: dict[str, object] = {
        "command": f"python -m tests.bench.{name}{options} --rounds {given.rounds}",
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(CHECKOUT),
        "machine": _machine(),
        "versions": {"python": platform.python_version(), **_versions()},
        "figures": _medians(found[0]),
    }
    if given.against:
        ratios = _ratios(found[0], found[1])
        other = {"commit": _commit(given.against), "figures": _medians(found[1])}
        result["against"] = {**other, "ratios": ratios}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    record(name.capitalize(), f"`{result['command']}`, commit {result['commit']}.", _table(*found))


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, object]:
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count(), "load": load}


def _processor() -> str:
    """Return the processor's name as Linux knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
