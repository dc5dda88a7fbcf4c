"""Where a run's index lies on disk, and who may write there.

An index lies in the run's folder if that belongs to this user, else in the user's cache folder. Its folder
carries a marker (`rlpanel.safe_files.MARKER`), and so does each folder of columns in it: only these are
deleted. A folder without a marker is taken over if every name in it is one that rlpanel 0.1.0 wrote. So are
its folders of columns if they hold numbered files alone.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xxhash

from rlpanel.errors import UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.discovery.directory import OWN_FOLDER
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.cache.user_cache import cache_folders, open_cache, warn_once

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: nothing is saved there
    fcntl = None  # type: ignore[assignment]

#: The names of folders of columns.
COLUMNS = re.compile(r"data-[0-9a-f]{32}")
#: What rlpanel 0.1.0 left in the folder of an index, and a marker that was not finished.
_OLD_NAMES = re.compile(rf"lock|manifest|manifest\.new|alerts|{COLUMNS.pattern}|\.CACHEDIR\.TAG\.[0-9a-f]+")


@dataclass(frozen=True)
class CacheFolder:
    """A folder that may hold a run's index; ``open`` opens it to read."""

    path: Path
    open: Callable[[], SafeFolder]


def places(run: AnyPath) -> Iterator[CacheFolder]:
    """The folders that may hold a run's index: in the run's own if it is here, in the user's cache.

    The one in the run's folder is read whoever wrote it, as the run itself is.
    """
    if isinstance(run, Path):
        yield CacheFolder(run / OWN_FOLDER, partial(SafeFolder.open, run / OWN_FOLDER))
    for folder in cache_folders():
        yield CacheFolder(folder / _name(run), partial(_in_cache, folder, run))


def writable_places(run: AnyPath) -> Iterator[SafeFolder]:
    """Open the folders in which a run's index can be written, the best one first; the caller closes them."""
    if isinstance(run, Path) and (beside := _or_none(partial(_beside, run))):
        yield beside
    for cache in cache_folders():
        if folder := _or_none(partial(_claimed_in_cache, cache, run)):
            yield folder


class Lock:
    """The right to write in a folder; the system takes it back when the process ends, however it ends.

    Attributes
    ----------
    folder : SafeFolder
        Stays open with the lock: all is written where the lock is, whatever its path leads to by then.
    """

    def __init__(self, folder: SafeFolder, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others write."""
        os.close(self._descriptor)
        self.folder.close()


def lock(run: AnyPath, avoided: Container[Path] = ()) -> Lock | None:
    """Lock the first folder that can be written; None if there is none or another process holds it.

    Parameters
    ----------
    run : path
        The run's real folder.
    avoided : container of Path
        Folders that are passed over.
    """
    if fcntl is None:
        return None
    for folder in writable_places(run):
        if folder.path in avoided:
            folder.close()
            continue
        descriptor = -1
        try:
            # Private: whoever can open the file could hold the lock.
            descriptor = folder.open_to_write("lock", mode=0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # also a file system without locks
            if descriptor >= 0:
                os.close(descriptor)
            folder.close()
            if isinstance(error, BlockingIOError):
                return None
            _tell(error)
            continue
        return Lock(folder, descriptor)
    return None


def _beside(run: Path) -> SafeFolder:
    """The index's folder in the run's own, made if need be; never the run's own folder, which may be away."""
    with SafeFolder.open(run) as home:
        if not home.is_own:
            raise PermissionError(errno.EPERM, "belongs to another user", os.fspath(run))
        return _claimed(home, OWN_FOLDER, 0o755)


def _in_cache(cache: Path, run: AnyPath) -> SafeFolder:
    with open_cache(cache) as opened:
        return opened.subfolder(_name(run))


def _claimed_in_cache(cache: Path, run: AnyPath) -> SafeFolder:
    with open_cache(cache, create=True) as opened:
        return _claimed(opened, _name(run), 0o700)


def _claimed(parent: SafeFolder, name: str, mode: int) -> SafeFolder:
    """Open or make an index's folder, and mark it as ours; `UnsafePath` if another wrote what is in it."""
    folder = parent.subfolder(name, create=True, mode=mode)
    try:
        folder.require_own()
        if not folder.is_marked:
            _mark(folder)
    except BaseException:
        folder.close()
        raise
    return folder


def _mark(folder: SafeFolder) -> None:
    names = folder.names()
    if not all(_OLD_NAMES.fullmatch(name) for name in names):
        raise UnsafePath(errno.EPERM, "holds files that rlpanel did not write", os.fspath(folder.path))
    folder.mark()
    for name in filter(COLUMNS.fullmatch, names):
        with suppress(OSError), folder.subfolder(name) as columns:
            if columns.is_own and all(file.isdecimal() for file in columns.names()):
                columns.mark()


def _or_none(opening: Callable[[], SafeFolder]) -> SafeFolder | None:
    try:
        return opening()
    except OSError as error:
        _tell(error)
        return None


def _tell(error: OSError) -> None:
    """Say that a folder is not used where somebody may have tampered with it; not that a disk is full."""
    if isinstance(error, UnsafePath):
        warn_once(f"{error}: rlpanel writes nothing there")


def _name(run: AnyPath) -> str:
    return xxhash.xxh3_128_hexdigest(os.fsencode(run))
