"""Finds, creates and locks the cache folder of a run.

The cache is in the run's folder if that belongs to this user, else in the user's cache folder. The cache
folder and each column folder in it carry a marker (`rlpanel.safe_files.MARKER`): only marked folders are ever
deleted. A folder that holds files but no marker is left alone.

The user's cache folder, for files that cannot be written into a run's folder.

It is ``rlpanel`` below ``$XDG_CACHE_HOME`` or ``~/.cache``. Without a writable home directory it is
``rlpanel-<uid>`` in the temporary directory. It is private; a folder created by another user is refused.

Rights of a run's logs, which the index and the notes beside them get: they contain parts of the logs.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import xxhash

from rlpanel.errors import UnsafePath
from rlpanel.regular_files import FileRights
from rlpanel.safe_files import MARKER, SafeFolder
from rlpanel.sources.discovery.file_names import OWN_FOLDER
from rlpanel.sources.files.file_access import AnyPath, reason_of

log = logging.getLogger(__name__)

_NAME = "rlpanel"


def cache_folders() -> list[Path]:
    """Return the candidates for this user's cache folder, the best one first; not all of them exist."""
    return [*_in_home(), *_in_temporary()]


def open_cache(folder: Path, *, create: bool = False) -> SafeFolder:
    """Open one of `cache_folders`.

    Parameters
    ----------
    folder : Path
    create : bool
        Create it if it does not exist; if it does, revoke the access of other users.

    Raises
    ------
    UnsafePath
        If it is a link, or another user created it.
    OSError
        If it does not exist or cannot be created.
    """
    with SafeFolder.open(folder.parent, create=create, mode=0o700) as parent:
        opened = parent.subfolder(folder.name, create=create, mode=0o700)
    try:
        opened.require_own()
        if create:
            opened.make_private()
    except BaseException:
        opened.close()
        raise
    return opened


@lru_cache(maxsize=1000)
def warn_once(message: str) -> None:
    """Log a warning once per message: an unusable folder causes the same message at every attempt."""
    log.warning("%s", message)


def _in_home() -> Iterator[Path]:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # the XDG standard says to ignore relative paths
        yield Path(os.path.realpath(named), _NAME)
        return
    with suppress(RuntimeError, OSError):  # no HOME and no passwd entry, or a home that does not exist
        home = Path.home()
        # Under sudo, HOME may belong to another user, whose links could redirect our files.
        if home.is_absolute() and _belongs_to_us(home):
            yield Path(os.path.realpath(home / ".cache"), _NAME)


def _in_temporary() -> Iterator[Path]:
    with suppress(OSError):  # there may be no temporary directory
        user = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
        yield Path(os.path.realpath(tempfile.gettempdir()), f"{_NAME}{user}")


def _belongs_to_us(home: Path) -> bool:
    return not hasattr(os, "geteuid") or home.stat().st_uid in (os.geteuid(), 0)


#: By the run's folder. Of the process: notes and caches of a run know its path only.
_rights: dict[str, FileRights] = {}


def note_log_rights(run: AnyPath, logs: Iterable[os.stat_result]) -> None:
    """Note the rights of a run's logs, as of the last listing of its folder; without logs nothing changes."""
    statuses = list(logs)
    if statuses:
        _rights[str(run)] = FileRights.of(statuses)


def log_rights(run: AnyPath) -> FileRights:
    """Return the rights that all logs of a run give; those of a private file if the run was never listed."""
    return _rights.get(str(run), FileRights())


try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: nothing is saved there
    fcntl = None  # type: ignore[assignment]

#: Names of column folders.
COLUMN_FOLDER_NAME = re.compile(r"data-[0-9a-f]{32}")
#: Names of a marker's temporary file, which a killed process leaves.
_UNFINISHED_MARKER = re.compile(rf"\.{re.escape(MARKER)}\.[0-9a-f]+")


@dataclass(frozen=True)
class CacheFolder:
    """A folder that may hold a run's cache; ``open`` opens it for reading."""

    path: Path
    open: Callable[[], SafeFolder]


def find_cache_folders(run: AnyPath) -> Iterator[CacheFolder]:
    """Yield the folders that may hold a run's cache: in the run's folder if it is local, in the user's cache.

    The cache in the run's folder is trusted regardless of its owner, like the run itself.
    """
    if isinstance(run, Path):
        yield CacheFolder(run / OWN_FOLDER, partial(_open_in_run, run))
    for folder in cache_folders():
        yield CacheFolder(folder / _folder_name(run), partial(_open_in_cache, folder, run))


def open_writable_folders(run: AnyPath) -> Iterator[SafeFolder]:
    """Open the folders in which a run's cache can be written, the best one first; the caller closes them."""
    if isinstance(run, Path) and (in_run := _open_or_none(partial(_claim_in_run, run))):
        yield in_run
    for cache in cache_folders():
        if folder := _open_or_none(partial(_claim_in_cache, cache, run)):
            yield folder


def read_saved(folder: SafeFolder, name: str, most: int) -> bytes:
    """Return a file of an open cache folder; one that exists but is not read causes a warning and OSError."""
    try:
        return folder.read(name, most)
    except FileNotFoundError:
        raise
    except OSError as error:
        warn_once(f"{folder.path / name} is not used: {reason_of(error)}")
        raise


class CacheLock:
    """Exclusive lock on a cache folder; the system releases it when the process ends, even if it is killed.

    Attributes
    ----------
    folder : SafeFolder
        Stays open with the lock, so that writes go to the locked folder even if its path is replaced.
    """

    def __init__(self, folder: SafeFolder, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock and close the folder."""
        os.close(self._descriptor)
        self.folder.close()


def lock_cache_folder(run: AnyPath, avoided: Container[Path] = ()) -> CacheLock | None:
    """Lock the first cache folder that can be written; None if no folder can, or another process holds it.

    Parameters
    ----------
    run : path
        The run's real folder.
    avoided : container of Path
        Folders to skip.
    """
    if fcntl is None:
        return None
    for folder in open_writable_folders(run):
        if folder.path in avoided:
            folder.close()
            continue
        descriptor = -1
        try:
            # Private mode: every user who can open the file could hold the lock.
            descriptor = folder.open_to_write("lock", mode=0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # includes file systems without locks
            if descriptor >= 0:
                os.close(descriptor)
            folder.close()
            if isinstance(error, BlockingIOError):
                return None
            _warn_if_unsafe(error)
            continue
        return CacheLock(folder, descriptor)
    return None


def _open_in_run(run: Path) -> SafeFolder:
    folder = SafeFolder.open(run / OWN_FOLDER)
    folder.rights = log_rights(run)
    return folder


def _claim_in_run(run: Path) -> SafeFolder:
    """Open or create the cache folder in the run's folder, which must exist and belong to this user."""
    with SafeFolder.open(run) as home:
        if not home.is_own:
            raise PermissionError(errno.EPERM, "belongs to another user", os.fspath(run))
        home.rights = log_rights(run)
        return _claim(home, OWN_FOLDER, 0o755)


def _open_in_cache(cache: Path, run: AnyPath) -> SafeFolder:
    with open_cache(cache) as opened:
        return opened.subfolder(_folder_name(run))


def _claim_in_cache(cache: Path, run: AnyPath) -> SafeFolder:
    with open_cache(cache, create=True) as opened:
        return _claim(opened, _folder_name(run), 0o700)


def _claim(parent: SafeFolder, name: str, mode: int) -> SafeFolder:
    """Open or create a cache folder and mark it as ours; `UnsafePath` if it holds files of others."""
    folder = parent.subfolder(name, create=True, mode=mode)
    try:
        folder.require_own()
        if not folder.is_marked:
            if not all(_UNFINISHED_MARKER.fullmatch(name) for name in folder.names()):
                raise UnsafePath(
                    errno.EPERM, "holds files that rlpanel did not write", os.fspath(folder.path)
                )
            folder.mark()
        folder.narrow()
    except BaseException:
        folder.close()
        raise
    return folder


def _open_or_none(opening: Callable[[], SafeFolder]) -> SafeFolder | None:
    try:
        return opening()
    except OSError as error:
        _warn_if_unsafe(error)
        return None


def _warn_if_unsafe(error: OSError) -> None:
    """Warn if a folder is not used because it may have been tampered with; other errors are no reason to."""
    if isinstance(error, UnsafePath):
        warn_once(f"{error}: rlpanel writes nothing there")


def _folder_name(run: AnyPath) -> str:
    return xxhash.xxh3_128_hexdigest(os.fsencode(run))
