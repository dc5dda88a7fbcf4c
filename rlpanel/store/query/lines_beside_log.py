"""A small file of lines that viewers add to a run: beside its log, or in the user's cache folder.

The file is append-only, with one write per line, so that concurrent writers lose nothing. Its name begins
with a dot, so that it is not taken for a log of rollouts. If the run's folder is not writable or belongs to
another user, the file is in the user's cache folder. Symbolic links are not followed, neither for reading nor
for writing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import xxhash

from rlpanel.errors import SettingError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import (
    AnyPath,
    SmallFile,
    Stamp,
    read_in,
    read_remote_end,
    reason_of,
    stamp_of,
)
from rlpanel.store.cache.cache_folder import cache_folders, log_rights, open_cache, warn_once


class LinesBesideLog:
    """The lines of one kind that viewers added to a run.

    Parameters
    ----------
    run : path
        The run's folder, with symbolic links resolved.
    name : str
        Name of the file in it.
    folder : str
        Subfolder of the cache folder, which is also the kind of lines in messages.
    most : int
        Most bytes of a file that are read, from its end.
    """

    def __init__(self, run: AnyPath, name: str, folder: str, most: int) -> None:
        self.run, self._name, self._folder, self._most = run, name, folder, most
        self._cached = f"{xxhash.xxh3_64_hexdigest(os.fsencode(run.resolve()))}.jsonl"

    def stamps(self) -> tuple[Stamp | None, ...]:
        """Return what changes whenever one of the files does."""
        return tuple(_stamp(path) for path, _ in self._files())

    def read(self) -> tuple[list[tuple[str, int, bytes]], list[str]]:
        """Return the lines of all files, and what was not read.

        Returns
        -------
        lines : list of (str, int, bytes)
            Name of the file, number of the line from 1, and the line; empty ones are left out. The number is
            0 if the file is longer than what is read of it.
        problems : list of str
            Files that were not read as a whole, with the reason.
        """
        found, problems = [], []
        for path, read in self._files():
            try:
                file = read()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                # The user's cache folder may be another user's; only an existing file is reported.
                if _stamp(path) is not None:
                    problems.append(f"{path.name} is ignored: {reason_of(error)}")
                continue
            lines, whole = file.data.split(b"\n"), file.size <= len(file.data)
            if not whole:
                lines = lines[1:]  # its beginning may be missing
                read_part = f"only the last {self._most >> 20} MB are read"
                problems.append(f"{path.name} has {file.size:,} bytes: {read_part}")
            numbered = ((number if whole else 0, line) for number, line in enumerate(lines, start=1))
            found += [(path.name, number, line) for number, line in numbered if line.strip()]
        return found, problems

    def append(self, line: bytes, most: int | None = None) -> Path:
        """Add a line to the file beside the log; to that in the cache if the run's folder is not writable.

        Parameters
        ----------
        line : bytes
            Without its newline.
        most : int, optional
            Most bytes that the file may have afterwards.

        Returns
        -------
        Path
            The file written to.

        Raises
        ------
        SettingError
            If the file would be too large.
        OSError
            If no folder is writable.
        """
        failure = OSError(errno.EACCES, f"no folder for {self._folder} is writable")
        for open_folder, name in self._writable_folders():
            try:
                with open_folder() as folder:
                    size, is_torn = _end_of(folder, name)
                    if most is not None and size + len(line) + 2 > most:
                        raise SettingError(f"{name} is full: it may have at most {most:,} bytes")
                    folder.append(name, (b"\n" if is_torn else b"") + line + b"\n")
            except OSError as error:
                if isinstance(error, UnsafePath):
                    warn_once(f"{error}: {self._folder} are not written there")
                failure = error
                continue
            return folder.path / name
        raise failure

    def _files(self) -> Iterator[tuple[AnyPath, Callable[[], SmallFile]]]:
        """Yield every file, beside the log and in the user's cache, with a function to read it."""
        beside = self.run / self._name
        if isinstance(beside, Path):
            yield beside, partial(self._read_file, partial(SafeFolder.open, self.run), self._name)
        else:
            yield beside, partial(read_remote_end, beside, self._most)
        for cache in cache_folders():
            yield (
                cache / self._folder / self._cached,
                partial(self._read_file, partial(self._open_cache_folder, cache), self._cached),
            )

    def _read_file(self, open_folder: Callable[[], SafeFolder], name: str) -> SmallFile:
        with open_folder() as folder:
            return read_in(folder, name, self._most, end=True)

    def _writable_folders(self) -> Iterator[tuple[Callable[[], SafeFolder], str]]:
        """Yield functions that open the folders to write to, preferred one first, and the file's name."""
        if isinstance(self.run, Path):  # folders on other machines are only read
            yield partial(_open_own, self.run), self._name
        for cache in cache_folders():
            yield partial(self._open_cache_folder, cache, create=True), self._cached

    def _open_cache_folder(self, cache: Path, *, create: bool = False) -> SafeFolder:
        with open_cache(cache, create=create) as opened:
            folder = opened.subfolder(self._folder, create=create, mode=0o700)
        return _require_own(folder)


def _end_of(folder: SafeFolder, name: str) -> tuple[int, bool]:
    """Return the size of a file, and whether its last line lacks its newline, as after a full disk."""
    try:
        file = read_in(folder, name, 1, end=True)
    except FileNotFoundError:
        return 0, False
    return file.size, file.data not in (b"", b"\n")


def _open_own(run: Path) -> SafeFolder:
    """Open a run's folder; PermissionError if another user owns it, which is common and gives no warning."""
    folder = SafeFolder.open(run)
    folder.rights = log_rights(run)
    try:
        return _require_own(folder)
    except UnsafePath as error:
        raise PermissionError(error.errno, error.strerror, error.filename) from error


def _require_own(folder: SafeFolder) -> SafeFolder:
    """Return the folder; close it and raise UnsafePath if another user owns it."""
    try:
        folder.require_own()
    except UnsafePath:
        folder.close()
        raise
    return folder


def _stamp(path: AnyPath) -> Stamp | None:
    try:
        return stamp_of(path)
    except OSError:
        return None
