"""Where runs lie: a run is a folder that holds rollout files, with all its ranks.

Which files are rollout files is decided by name and first lines, so that scalars and checkpoints
beside them are left alone. Links are followed only while they stay below the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlpanel.errors import LineError, RunNotFound
from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.base import Adapter
from rlpanel.sources.parse import parse

#: How far into a file to look for a line that tells its dialect.
SNIFF_BYTES = 1 << 20
SNIFF_LINES = 20
#: Files of these names are rollouts even where no line of theirs can be read.
_NAMED = ("rollout_data_rank", "data_rank", "rollout_data")
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True)
class RunInfo:
    """A run as a folder shows it, without reading its samples.

    Attributes
    ----------
    name : str
        The folder below the root, with forward slashes; ``.`` for the root itself.
    path : Path
    files : int
        Rollout files.
    bytes : int
    modified : float
        Newest change, seconds since the epoch.
    """

    name: str
    path: Path
    files: int
    bytes: int
    modified: float

    @property
    def label(self) -> str:
        """What a person reads; the root itself goes by its folder's name."""
        return self.path.name if self.name == "." else self.name


@dataclass(frozen=True)
class Found:
    """A rollout file in a run's folder."""

    path: str
    name: str
    adapter: Adapter


class Directory:
    """Finds rollout files below a root and remembers what each file turned out to be."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        self._known: dict[tuple[str, int, int], Adapter | None] = {}

    def runs(self) -> list[RunInfo]:
        """Every run below the root, newest first."""
        found = (self._info(folder, entries) for folder, entries in self._walk(str(self.root)))
        return sorted((info for info in found if info), key=lambda info: (-info.modified, info.name))

    def files(self, folder: str | os.PathLike[str]) -> list[Found]:
        """The rollout files of one run, by name."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return []
        return [
            Found(entry.path, entry.name, adapter)
            for entry in entries
            if (adapter := self._adapter(entry)) is not None
        ]

    def run_path(self, name: str) -> Path:
        """The folder of a run named in a URL.

        Raises
        ------
        RunNotFound
            If there is none, or it would lie outside the root.
        """
        try:
            path = (self.root / name).resolve()
            inside = path.is_relative_to(self.root) and path.is_dir()
        except (OSError, ValueError):  # too long, or a NUL byte
            inside = False
        if not inside:
            raise RunNotFound(f"no run {name[:80]!r} below {self.root.name}")
        return path

    def _walk(self, folder: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        yield folder, entries
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
                continue
            if _is_folder(entry):
                yield from self._walk(entry.path)

    def _info(self, folder: str, entries: list[os.DirEntry[str]]) -> RunInfo | None:
        status = [entry.stat() for entry in entries if self._adapter(entry) is not None]
        if not status:
            return None
        path = Path(folder)
        return RunInfo(
            name=path.relative_to(self.root).as_posix(),
            path=path,
            files=len(status),
            bytes=sum(s.st_size for s in status),
            modified=max(s.st_mtime for s in status),
        )

    def _adapter(self, entry: os.DirEntry[str]) -> Adapter | None:
        """The dialect of a file, or None while it is no rollout file (or not yet one)."""
        if not entry.name.endswith(".jsonl") or entry.name.startswith("."):
            return None
        try:
            if not entry.is_file() or not self._below(entry):
                return None
            status = entry.stat()
        except OSError:
            return None
        key = (entry.path, status.st_dev, status.st_ino)
        if key not in self._known:
            adapter, final = sniff(entry.path, entry.name)
            if not final:
                return adapter
            self._known[key] = adapter
        return self._known[key]

    def _below(self, entry: os.DirEntry[str]) -> bool:
        """A linked file counts only where its target lies below the root too."""
        return not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(self.root)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def sniff(path: str, name: str) -> tuple[Adapter | None, bool]:
    """Which adapter reads a file.

    Returns
    -------
    adapter : Adapter or None
    final : bool
        False while the file may still turn out otherwise: it is empty, unreadable or holds no whole
        line yet.
    """
    named = ADAPTERS[0] if name.startswith(_NAMED) else None
    try:
        with open(path, "rb") as file:
            head = file.read(SNIFF_BYTES)
    except OSError:
        return named, False
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:SNIFF_LINES]
    for line in lines:
        for adapter in ADAPTERS:
            if _accepts(adapter, name, line):
                return adapter, True
    full = len(head) == SNIFF_BYTES or len(lines) == SNIFF_LINES
    return named, full


def _accepts(adapter: Adapter, name: str, line: bytes) -> bool:
    try:
        return adapter.accepts(name, parse(line))
    except LineError:
        return False


def discover(root: str | os.PathLike[str]) -> list[RunInfo]:
    """The runs below a root, at any depth, newest first.

    Raises
    ------
    RunNotFound
        If the root is no folder.
    """
    path = Path(root)
    if not path.is_dir():
        raise RunNotFound(f"{path} is no folder; give one that holds runs, for example ./rollout_samples")
    return Directory(path).runs()
