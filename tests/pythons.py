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
#: Fails in an interpreter that cannot make a virtual environment, such as Debian's without python3-venv.
_PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.')"


def candidates(minor: int) -> Iterator[str]:
    """Yield paths of interpreters of a minor version, on PATH and installed by pyenv, which may not work."""
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


def oldest() -> str:
    """Return the oldest supported interpreter; the running one if no older is found."""
    return first_working(range(TESTED.start, sys.version_info.minor)) or sys.executable


def newest() -> str | None:
    """Return the newest supported interpreter; None if the running one is the newest."""
    return first_working(range(TESTED.stop - 1, sys.version_info.minor, -1))


if __name__ == "__main__":
    print({"oldest": oldest, "newest": newest}[sys.argv[1]]() or "")
