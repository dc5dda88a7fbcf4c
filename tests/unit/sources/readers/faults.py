"""Real faults for tests: files that this process may not read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Permissions count in here, even where the tests run as root (in containers they do)."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that an ordinary user may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="rlpanel-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Nobody may read ``path`` in here."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with ordinary_user():
            yield
    finally:
        path.chmod(mode)
