"""Where a run's index lies on disk, and who may write there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import xxhash

from rlpanel.sources.directory import OWN_FOLDER
from rlpanel.sources.files import AnyPath

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: nothing is saved there
    fcntl = None  # type: ignore[assignment]


def places(run: AnyPath) -> Iterator[Path]:
    """The folders that may hold a run's index: in the run's own if it is here, in the user's cache."""
    if isinstance(run, Path):
        yield run / OWN_FOLDER
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    yield Path(home) / "rlpanel" / xxhash.xxh3_128_hexdigest(os.fsencode(run))


class Lock:
    """The right to write in a folder; the system takes it back when the process ends, however it ends."""

    def __init__(self, folder: Path, file: IO[str]) -> None:
        self.folder = folder
        self._file = file

    def release(self) -> None:
        """Let others write."""
        self._file.close()


def lock(run: AnyPath) -> Lock | None:
    """The first folder that can be written, locked; None if another holds it or there is no such folder."""
    if fcntl is None:
        return None
    for folder in places(run):
        try:
            # Never the run's own folder: made where a disk is away, it would stand in the disk's way.
            folder.mkdir(parents=folder.parent != run, exist_ok=True)
            file = (folder / "lock").open("w")
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # a file system without locks
            file.close()
            continue
        return Lock(folder, file)
    return None
