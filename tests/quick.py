"""The checks of what changed, in less than a minute for a change in one room: ``make quick``.

What changed is what differs from the point where the branch left ``main``, with untracked files. ruff checks
these files, mypy the package by its cache. Of a module ``rlpanel/ROOM/NAME.py``, the tests in
``tests/unit/ROOM/test_NAME.py`` run, or all of ``tests/unit/ROOM`` if there is no such file. Pages of the
documentation and their scripts run the tests of the documentation. The last lines say what was left out.
mypy runs beside the tests. Without a cache, as in a new clone, it takes 80 s of CPU time, once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Tests of pages, and of everything that `make docs` writes.
OF_PAGES = (
    "tests/unit/test_doc_links.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_chinese_pages.py",
    "tests/unit/test_navigation.py",
    "tests/unit/test_prose.py",
    "tests/unit/test_changelog.py",
)
#: Tests of the files of the project: dependencies, workflows, targets.
OF_PROJECT = (
    "tests/unit/test_environment.py",
    "tests/unit/test_workflows.py",
    "tests/unit/test_repository_files.py",
    "tests/unit/test_package_page.py",
)
#: Tests that hold for each module.
OF_MODULES = ("tests/unit/test_layout.py",)
#: Tests that start servers, browsers or trainers: never run here.
SLOW = ("integration", "ui", "soak", "bench", "train", "upstream")

#: So many files of tests run in one process.
FEW = 4


def git(*arguments: str) -> list[str]:
    """Return the lines that git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if not done.returncode else []


def changed() -> list[str]:
    """Return the paths that differ from ``main``, below the root; deleted files are left out."""
    base = git("merge-base", "main", "HEAD") or git("merge-base", "origin/main", "HEAD") or ["HEAD"]
    paths = git("diff", "--name-only", "--diff-filter=d", base[0])
    return sorted({*paths, *git("ls-files", "--others", "--exclude-standard")})


def belonging(path: str, exists: Iterable[str]) -> list[str]:
    """Return the tests of one changed path; none if they would take too long, or if there are none.

    Parameters
    ----------
    path : str
        Path below the root, with slashes.
    exists : iterable of str
        The files and folders below ``tests/unit`` and ``tests/property``, in the same form.
    """
    known = set(exists)
    parts = path.split("/")
    if parts[0] == "tests":
        is_test = parts[-1].startswith("test_") and path.endswith(".py")
        if is_test and parts[1] in ("unit", "property"):
            return [path]
        room = "/".join(parts[:-1])
        return [room] if parts[1] == "unit" and len(parts) > 3 and room in known else []
    if parts[0] == "docs" or path.endswith(".md"):
        return list(OF_PAGES)
    if parts[0] != "rlpanel":
        return list(OF_PROJECT)
    of_modules = list(OF_MODULES) if path.endswith(".py") else []
    rooms = parts[1:-1]
    own = "/".join(["tests/unit", *rooms, f"test_{parts[-1].partition('.')[0]}.py"])
    if own in known:
        return [own, *of_modules]
    while rooms:
        room = "/".join(["tests/unit", *rooms])
        if room in known:
            return [room, *of_modules]
        rooms = rooms[:-1]
    return of_modules


def left_out(paths: list[str], tests: set[str]) -> list[str]:
    """Return sentences on what was not run for these paths."""
    said = []
    slow = [path for path in paths if path.startswith(tuple(f"tests/{name}/test_" for name in SLOW))]
    if slow:
        said.append(f"changed tests with servers or browsers: {' '.join(slow)}")
    ran = [test for test in tests if test not in OF_MODULES]
    modules = [path for path in paths if path.startswith("rlpanel/")]
    if modules and not ran:
        said.append(f"no unit tests belong to {' '.join(modules)}")
    if any(path.endswith(".js") for path in modules):
        said.append("the scripts' types: make lint-js")
    said.append("all other unit tests, tests/integration and tests/ui: make test")
    return said


def run(*command: str) -> bool:
    """Run a tool of this environment; its output is shown. True if it passed."""
    print(f"quick: {' '.join(command)}", flush=True)
    return not subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode


def run_tests(tests: set[str]) -> bool:
    """Run the tests. Each further process of pytest imports the package again: a few files need one."""
    few = len(tests) <= FEW and all(test.endswith(".py") for test in tests)
    processes = "0" if few else "2"
    return run(
        "pytest", "-q", "-n", processes, "-m", "not slow", "--hypothesis-profile", "quick", *sorted(tests)
    )


def main() -> int:
    """Run the checks of what changed, and return the exit code."""
    begin = time.monotonic()
    paths = changed()
    if not paths:
        print("quick: nothing differs from main")
        return 0
    tree = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "unit").rglob("*")]
    tests = {test for path in paths for test in belonging(path, tree) if (ROOT / test).exists()}
    # A folder runs its files too.
    tests = {test for test in tests if not any(test.startswith(f"{other}/") for other in tests)}
    python = [path for path in paths if path.endswith(".py")]
    passed = True
    if python:
        passed &= run("ruff", "check", "--quiet", *python)
        passed &= run("ruff", "format", "--quiet", "--check", *python)
    with ThreadPoolExecutor(1) as beside:
        typed = any(path.startswith("rlpanel/") for path in python)
        types = beside.submit(run, "mypy") if typed else None
        passed &= run_tests(tests) if tests else True
        passed &= types.result() if types else True
    for sentence in left_out(paths, tests):
        print(f"quick: not run: {sentence}")
    print(f"quick: {'passed' if passed else 'FAILED'} after {time.monotonic() - begin:.0f} s")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
