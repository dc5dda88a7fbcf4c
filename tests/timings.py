"""CPU time of the tests: `make test` ends with a table of its parts, and with the ten slowest tests.

CPU time counts the children of a process too: servers, command lines, browsers. Other work on the machine
changes it less than the time on the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

#: The times of each part of `make test`.
FOLDER = Path(__file__).parents[1] / ".venv" / "timings"
#: Environment variable with the file that pytest writes the times of the tests to.
VARIABLE = "RLPANEL_TEST_TIMES"
#: CPU minutes that `make test` may take after the installation.
LIMIT = 12
SHOWN = 10
#: Key of a test's CPU seconds among its properties, which xdist's workers send with their reports.
CPU = "cpu_seconds"
_PR_SET_CHILD_SUBREAPER = 36


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children so far, running or ended."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system + _running_children()


def _running_children() -> float:
    """Return the CPU seconds of running children, and of theirs; 0 where the system has no /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, ChildProcessError):
        return 0.0
    total, family = 0.0, [os.getpid()]
    for process in family:
        with contextlib.suppress(OSError):  # the process has just ended
            for path in Path(f"/proc/{process}/task").glob("*/children"):
                with contextlib.suppress(OSError):  # the thread has just ended
                    family += [int(child) for child in path.read_text("utf-8").split()]
            if process != family[0]:
                stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
                fields = stat.rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


class TimeKeeper:
    """Pytest plugin that measures each test with the fixtures that it is the first to need.

    Parameters
    ----------
    path : Path, optional
        File for the times, written when the session ends; workers of xdist have none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._start = self._spent = 0.0
        self._times: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Note when a test starts."""
        self._start, self._spent = cpu_seconds(), 0.0
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Add the time of a test that ends to its report.

        A browser's time is lost when it is closed at the end of the last test, which counts until there.
        """
        self._spent = max(self._spent, cpu_seconds() - self._start)
        if call.when == "teardown":
            item.user_properties.append((CPU, self._spent))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the time of a test, also of one that ran in a worker."""
        if report.when == "teardown":
            self._times[report.nodeid] = float(str(dict(report.user_properties)[CPU]))

    def pytest_sessionfinish(self) -> None:
        """Write the times, beside those of an earlier session of the same part."""
        if self._path is not None:
            earlier = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
            self._path.write_text(json.dumps(earlier | self._times), "utf-8")


def keeper(config: pytest.Config) -> TimeKeeper | None:
    """Return the plugin if the tests run as a part of `make test`."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    return TimeKeeper(None if hasattr(config, "workerinput") else Path(path))


def run(part: str, command: list[str]) -> int:
    """Run a command of a part, add its times to those of the part, and return its exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    tests = FOLDER / f"{part}.tests.json"
    tests.unlink(missing_ok=True)
    if sys.platform == "linux":  # children that lose their parent become ours, so that their time counts
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    child = subprocess.Popen(command, env={**os.environ, VARIABLE: str(tests)})
    ended, status = 0, 0
    while ended != child.pid:
        ended, status = os.wait()
    _reap_orphans(seconds=2)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    child.returncode = os.waitstatus_to_exitcode(status)
    record = {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - started,
        "failed": child.returncode != 0,
        "tests": json.loads(tests.read_text("utf-8")) if tests.exists() else {},
    }
    (FOLDER / f"{part}.json").write_text(json.dumps(record), "utf-8")
    tests.unlink(missing_ok=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _reap_orphans(seconds: float) -> None:
    """Wait for children that the command has left and that end now, such as a browser's."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)


def table(folder: Path = FOLDER) -> str:
    """Return the table of all parts that ran, in the order in which they ended, and of the slowest tests."""
    files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    parts = {path.stem: json.loads(path.read_text("utf-8")) for path in files}
    lines = [_row("part", "tests", "CPU min", "wall min")]
    for name, part in parts.items():
        end = " failed" if part["failed"] else ""
        lines.append(_row(name, str(len(part["tests"]) or ""), *_minutes([part])) + end)
    tests = [(seconds, name) for part in parts.values() for name, seconds in part["tests"].items()]
    lines.append(_row("all", str(len(tests)), *_minutes(parts.values())) + f" (at most {LIMIT} CPU min)")
    lines += ["", f"the {SHOWN} slowest tests, CPU seconds:"]
    lines += [f"{seconds:6.1f}  {name}" for seconds, name in sorted(tests, reverse=True)[:SHOWN]]
    return "\n".join(lines)


def _minutes(parts: Iterable[dict[str, float]]) -> tuple[str, str]:
    parts = list(parts)
    cpu, wall = (f"{sum(part[kind] for part in parts) / 60:.1f}" for kind in ("cpu", "wall"))
    return cpu, wall


def _row(part: str, tests: str, cpu: str, wall: str) -> str:
    return f"{part:14}{tests:>7}{cpu:>10}{wall:>10}"


def main() -> int:
    """Run a part, forget all parts or print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    runs = actions.add_parser("run", help="run a command as a part of `make test`")
    runs.add_argument("part")
    runs.add_argument("command", nargs=argparse.REMAINDER)
    actions.add_parser("start", help="forget the parts of the last run")
    actions.add_parser("print", help="print the table")
    chosen = parser.parse_args()
    if chosen.action == "run":
        return run(chosen.part, chosen.command)
    if chosen.action == "start":
        for path in FOLDER.glob("*.json"):
            path.unlink()
    else:
        print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
