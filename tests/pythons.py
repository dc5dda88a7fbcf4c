"""Finds the oldest and the newest Python on this machine that rlpanel supports.

`make test` also runs on them, since the newest Panel and Bokeh need a newer Python than the oldest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: Minor versions of Python 3 that are tested.
TESTED = range(11, 15)
#: Those with builds of the lower bounds: NumPy 2.0 and pandas 2.2.2 have none for Python 3.13.
WITH_OLDEST = range(11, 13)
#: The first one that the newest Panel and Bokeh run on.
WITH_NEWEST = 12
#: Fails in an interpreter that cannot make a virtual environment, such as Debian's without python3-venv.
_PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.')"


def candidates(minor: int) -> Iterator[str]:
    """Yield paths where a minor version may be: the running Python, on PATH, and installed by pyenv."""
    yield sys.executable
    if path := shutil.which(f"python3.{minor}"):
        yield path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python")))


def works(python: str, minor: int) -> bool:
    """Return whether an interpreter runs, has this version and makes virtual environments."""
    try:
        probe = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.stdout.strip() == f"3.{minor}"


def first_working(minors: range) -> str | None:
    """Return the first working interpreter of these minor versions."""
    found = (path for minor in minors for path in candidates(minor) if works(path, minor))
    return next(found, None)


def oldest() -> str | None:
    """Return the oldest supported interpreter that has builds of the oldest versions of the dependencies."""
    return first_working(WITH_OLDEST)


def newest(running: int = sys.version_info.minor) -> str | None:
    """Return the newest supported interpreter; None if the running one is the newest."""
    return first_working(range(TESTED.stop - 1, running, -1))


def newest_or_running() -> str | None:
    """Return the newest interpreter that development versions of Panel and Bokeh run on."""
    return first_working(range(TESTED.stop - 1, WITH_NEWEST - 1, -1))


def why_no_oldest() -> str:
    """Return the reason why the lower bounds of the dependencies are not tested."""
    first, last = WITH_OLDEST[0], WITH_OLDEST[-1]
    return (
        f"no Python 3.{first} or 3.{last} on PATH or in pyenv: "
        f"the oldest NumPy and pandas have no builds for Python 3.{last + 1}"
    )


def why_no_newest(running: int = sys.version_info.minor) -> str:
    """Return the reason why no Python newer than the running one is tested."""
    if running >= WITH_NEWEST:
        return f"no Python newer than 3.{running} on PATH or in pyenv: .venv has the newest versions"
    return f"no Python 3.{WITH_NEWEST} or newer on PATH or in pyenv, which the newest Panel and Bokeh need"


if __name__ == "__main__":
    answers = (oldest, newest, newest_or_running, why_no_oldest, why_no_newest)
    print({each.__name__: each for each in answers}[sys.argv[1]]() or "")
