"""Runs a benchmark in processes of its own, in turn with another checkout, and keeps the figures as JSON.

A benchmark is a module that hands its function to `run`. The function measures one checkout once and returns
its figures. The unit stands in a figure's name, such as ``read, CPU s``. Every benchmark takes:

--against PATH   Another checkout, such as a worktree of an older commit: both are measured in turn.
--rounds N       How often each checkout is measured; the figure is the median, the ratio that of the pairs.
--size SIZE      tiny (does the benchmark work?), small, or full: the sizes of real runs.
--record         Write results/NAME.json and RESULTS.md. Figures of two machines cannot be compared; the time
                 of a plain loop on the machine is kept with them.

The benchmark's own code always is that of this checkout. It should therefore use rlpanel's public interfaces:
`open_run`, `Run`, the commands and the served pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
RESULTS, PAGE = HERE / "results", HERE / "RESULTS.md"
#: Numbers that a plain loop adds, as a measure of the machine.
LOOP = 20_000_000
_HEAD = """# What the benchmarks measured

Each is run by the command above its table. `tests/bench/results` has the same figures with the
versions of the libraries. Compare figures of one table only: machines differ, and so does what else they do.
"""
#: Packages whose versions matter to a figure.
_PACKAGES = ("bokeh", "panel", "tornado", "numpy", "pandas", "pysimdjson", "duckdb")

T = TypeVar("T")
Figures = dict[str, float]
Size = Literal["tiny", "small", "full"]


@dataclass(frozen=True)
class Task:
    """What one process is to measure.

    Attributes
    ----------
    folder : Path
        An empty folder of its own.
    data : Path
        What `prepare` wrote for all processes; it must not be changed.
    size : str
        ``tiny``, ``small`` or ``full``.
    """

    folder: Path
    data: Path
    size: Size

    def linked(self, name: str, new: Path | None = None) -> Path:
        """Return a folder of this task with links to files of the data; an index beside them is its own.

        Parameters
        ----------
        name : str
            A folder in `data`.
        new : Path, optional
            The folder to create; that name in `folder` by default.
        """
        copied = shutil.copytree(self.data / name, new or self.folder / name, copy_function=os.link)
        return Path(copied)

    def pick(self, tiny: T, small: T, full: T) -> T:
        """Return what belongs to the size."""
        return {"tiny": tiny, "small": small, "full": full}[self.size]


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
    parser.add_argument("--size", choices=("tiny", "small", "full"), default="small", help="(default: small)")
    parser.add_argument("--record", action="store_true", help="write results/NAME.json and RESULTS.md")
    parser.add_argument("--once", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        folder, data = given.once
        print(json.dumps(measure(Task(folder, data, given.size))))
        return
    name = Path(str(module.__file__)).stem
    checkouts = [CHECKOUT, *([given.against.resolve()] if given.against else [])]
    machine = _machine() if given.record else {}
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        data = Path(root) / "data"
        data.mkdir()
        if prepare:
            prepare(Task(data, data, given.size))
        found = _in_turn(name, checkouts, Path(root), data, given)
    print(_table(*found))
    if given.record:
        _record(name, found, given, machine)


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
            command += ["--once", str(place / "work"), str(data), "--size", given.size]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, env=os.environ | home, cwd=place / "work"
            )
            if done.returncode:
                raise SystemExit(f"{name} failed in {checkout}")
            found[at].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def alone(function: Callable[..., T], *arguments: object) -> T:
    """Return what a function returns in a new process, whose memory holds nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def middle_and_worst(name: str, unit: str, values: Sequence[float]) -> Figures:
    """Return the median and the 99th percentile of measured values as figures."""
    ordered = sorted(values)
    return {
        f"{name}, p50, {unit}": statistics.median(ordered),
        f"{name}, p99, {unit}": ordered[int(0.99 * (len(ordered) - 1))],
    }


def _medians(rounds: Sequence[Figures]) -> Figures:
    return {name: _rounded(statistics.median(each.get(name, 0.0) for each in rounds)) for name in rounds[0]}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _ratios(ours: Sequence[Figures], theirs: Sequence[Figures]) -> Figures:
    """Return the median ratio of each figure to that of the other checkout in the same round."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        name: _rounded(statistics.median(our.get(name, 0.0) / their[name] for our, their in pairs))
        for name in ours[0]
        if all(their.get(name) for _, their in pairs)
    }


def _table(ours: Sequence[Figures], theirs: Sequence[Figures] = ()) -> str:
    """Return the figures of all rounds as a table in Markdown."""
    if not theirs:
        return _rows(_medians(ours))
    return _rows(_medians(ours), _medians(theirs), _ratios(ours, theirs))


def _rows(figures: Figures, other: Figures | None = None, ratios: Figures | None = None) -> str:
    if other is None or ratios is None:
        return "\n".join(
            ["| | figure |", "|---|---|", *(f"| {n} | {_text(v)} |" for n, v in figures.items())]
        )
    rows = [
        f"| {name} | {_text(value)} | {_text(other.get(name))} | {_text(ratios.get(name))} |"
        for name, value in figures.items()
    ]
    return "\n".join(["| | this checkout | the other | ratio |", "|---|---|---|---|", *rows])


def _text(value: float | None) -> str:
    """Return a number with three significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _record(
    name: str, found: Sequence[Sequence[Figures]], given: argparse.Namespace, machine: dict[str, object]
) -> None:
    """Write the figures with the machine, the versions and the commit, and the page of all benchmarks."""
    result: dict[str, object] = {
        "command": f"python -m tests.bench.{name} --size {given.size} --rounds {given.rounds}",
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(CHECKOUT),
        "machine": machine,
        "versions": {"python": platform.python_version(), **_versions()},
        "figures": _medians(found[0]),
    }
    if given.against:
        ratios = _ratios(found[0], found[1])
        other = {"commit": _commit(given.against), "figures": _medians(found[1])}
        result["against"] = {**other, "ratios": ratios}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write_page()


def write_page() -> None:
    """Write RESULTS.md from the recorded files."""
    sections = [
        _section(path.stem, json.loads(path.read_text("utf-8"))) for path in sorted(RESULTS.glob("*.json"))
    ]
    PAGE.write_text("\n".join([_HEAD, *(sections or ["None is recorded yet.\n"])]), encoding="utf-8")


def _section(name: str, result: dict[str, Any]) -> str:
    """Return the part of a page about one benchmark."""
    machine, other = result["machine"], result.get("against")
    where = (
        f"{machine['cores']} cores, Python {result['versions']['python']}, load {machine['load']} before, "
        f"{machine['loop_seconds']:.2f} CPU s for a loop over {LOOP // 10**6} million numbers"
    )
    compared = f" The other is commit {other['commit']}." if other else ""
    table = _rows(result["figures"], other and other["figures"], other and other["ratios"])
    return (
        f"## {name.capitalize()}\n\n`{result['command']}`, {result['date']}, commit {result['commit']}; "
        f"{where}.{compared}\n\n{table}\n"
    )


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _machine() -> dict[str, object]:
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "loop_seconds": round(_loop_seconds(), 3),
        "load": load,
    }


def _loop_seconds() -> float:
    """Return the CPU seconds in which this machine adds numbers one by one."""
    began, total = time.process_time(), 0
    for number in range(LOOP):
        total += number
    return time.process_time() - began


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
