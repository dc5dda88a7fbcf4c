"""Finds the runs below a root: a run is a folder that holds rollout files, those of all ranks.

A file's name and first lines decide whether it is a rollout file, so scalars and checkpoints in the same
folder are ignored. Links are followed inside the root, and out of it only if the settings allow it (see
`rlpanel.sources.discovery.links`).
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlpanel.errors import LineError, RemoteError, RunNotFound, SourceDamaged, SourceUnready
from rlpanel.settings import Reading
from rlpanel.sources.adapters import ADAPTERS, NATIVE, TRL, trl
from rlpanel.sources.discovery import step_folders
from rlpanel.sources.discovery.folder_config import FolderConfig, FolderConfigs, from_settings
from rlpanel.sources.discovery.links import is_below, target_of
from rlpanel.sources.files.decompress import SUFFIXES, open_plain
from rlpanel.sources.files.file_access import AnyPath, Entry, is_remote, path_of, scan, stat
from rlpanel.sources.files.unreadable import Unread, reason_of
from rlpanel.sources.readers import parquet
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Adapter

#: Bytes and lines of a file that are searched for a line of a known format; the first line may be longer.
SNIFF_BYTES = 1 << 20
SNIFF_LINES = 20
#: Longest first line that is parsed.
SNIFF_LINE_BYTES = 64 << 20
#: Files whose names start like this are rollouts even if none of their lines can be parsed.
_NAMED = ("rollout_data", "data_rank")
_SUFFIXES = (".jsonl", *(f".jsonl{suffix}" for suffix in SUFFIXES), parquet.SUFFIX)
#: Folder of a run's index. Like all folders whose name begins with a dot it is skipped.
OWN_FOLDER = ".rlpanel"
#: Error codes for too many open files in this process or on the machine.
_TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}
_MAX_TARGET_CHARS = 200
_NO_STATUS = os.stat_result([0] * 10)
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True)
class RunInfo:
    """Summary of a run from its folder alone, without reading samples.

    Attributes
    ----------
    name : str
        Path below the root with forward slashes; ``.`` for the root itself.
    path : path
    files : int
        Number of rollout files.
    bytes : int
    modified : float
        Time of the newest change, in seconds since the epoch.
    """

    name: str
    path: AnyPath
    files: int
    bytes: int
    modified: float

    @property
    def label(self) -> str:
        """Name shown to the user; the root itself is shown by its folder name."""
        return self.path.name if self.name == "." else self.name


@dataclass(frozen=True)
class RolloutFileInfo:
    """A rollout file in a run's folder."""

    path: str
    name: str
    adapter: Adapter
    status: os.stat_result


@dataclass(frozen=True)
class _Tree:
    """The root, or the target folder of a link that is followed.

    ``name`` is the link's path below the root, empty for the root itself. Paths outside ``path`` do not
    belong to the tree.
    """

    name: str
    path: str

    def name_of(self, path: str) -> str:
        """Return the name, below the root, of a path in this tree."""
        below = os.path.relpath(path, self.path)
        return display_name(os.path.normpath(os.path.join(self.name, below)).replace(os.sep, "/"))


@dataclass(frozen=True)
class _ListedFolder:
    """A folder with its directory entries."""

    folder: str
    entries: list[Entry]
    tree: _Tree


@dataclass(frozen=True)
class _Rollout:
    """A rollout file with the folder of its run.

    ``path`` is the real path, and ``name`` is the path below the run.
    """

    path: str
    name: str
    run_folder: str
    adapter: Adapter
    status: os.stat_result


@dataclass(frozen=True)
class _SniffResult:
    """Cached result of sniffing a file when its stat was ``status``.

    If not ``final``, it is valid only while the file does not change. ``problem`` says why the file could not
    be read.
    """

    adapter: Adapter | None
    final: bool
    status: os.stat_result
    problem: str = ""

    def holds(self, now: os.stat_result) -> bool:
        """Return True if the file need not be read again. A file that shrank may have been replaced."""
        if self.final:
            return now.st_size >= self.status.st_size
        return _stamp(now) == _stamp(self.status)


class Directory:
    """Finds rollout files below a root and caches the format of each file.

    Parameters
    ----------
    root : path
    reading : Reading, optional
        Mappings, tokenizers and link settings for all files; from the environment by default.

    Attributes
    ----------
    left_out : tuple of Unread
        Folders that could not be listed in the last search for runs, and links that were not followed.
    """

    def __init__(self, root: str | os.PathLike[str], reading: Reading | None = None) -> None:
        self.root = path_of(root).resolve()
        reading = reading or Reading.from_environment()
        self.said = FolderConfigs(self.root, from_settings(reading))
        self._follow = reading.follow_links
        self._tree = _Tree("", str(self.root))
        self.left_out: tuple[Unread, ...] = ()
        self._results: dict[tuple[str, int, int, FolderConfig], _SniffResult] = {}

    def runs(self) -> list[RunInfo]:
        """Return all runs below the root, newest first; unreadable files are left out.

        Raises
        ------
        OSError
            If too many files are open, because then nothing can be said about the folders.
        """
        members: dict[str, tuple[_Tree, list[os.stat_result]]] = {}
        unread: list[Unread] = []
        for folder in self._folders(unread):
            for rollout in self._rollouts(folder):
                members.setdefault(rollout.run_folder, (folder.tree, []))[1].append(rollout.status)
        self.left_out = tuple(sorted(unread, key=lambda skipped: (skipped.file.count("/"), skipped.file)))
        infos = [_info(path, tree, statuses) for path, (tree, statuses) in members.items()]
        return sorted(infos, key=lambda info: (-info.modified, info.name))

    def has_runs(self) -> bool:
        """Return True if there is a run. The search ends there; `left_out` is complete up to there."""
        unread: list[Unread] = []
        has_run = any(True for folder in self._folders(unread) for _ in self._rollouts(folder))
        self.left_out = tuple(unread)
        return has_run

    def files(self, folder: str | os.PathLike[str]) -> list[RolloutFileInfo]:
        """Return the rollout files of one run, sorted by name; raises OSError as `find_files` does."""
        return self.find_files(folder)[0]

    def find_files(self, folder: str | os.PathLike[str]) -> tuple[list[RolloutFileInfo], list[Unread]]:
        """Return the rollout files of one run, sorted by name, and files of it that cannot be read.

        Raises
        ------
        OSError
            If the folder cannot be listed.
        """
        return self._list_run(os.fspath(folder), self._tree)

    def _list_run(self, run_folder: str, tree: _Tree) -> tuple[list[RolloutFileInfo], list[Unread]]:
        found: list[RolloutFileInfo] = []
        unread: list[Unread] = []

        def refuse(path: str, error: OSError) -> None:
            if error.errno in _TOO_MANY_OPEN:
                raise error
            unread.append(Unread(_name_below(run_folder, path) + "/", reason_of(error)))

        for folder, entries in step_folders.candidate_folders(run_folder, scan(run_folder), refuse):
            problems: list[Unread] = []
            rollouts = list(self._rollouts(_ListedFolder(folder, entries, tree), problems, run_folder))
            own = [rollout for rollout in rollouts if rollout.run_folder == run_folder]
            found += [
                RolloutFileInfo(rollout.path, rollout.name, rollout.adapter, rollout.status)
                for rollout in own
            ]
            if folder == run_folder or own or not rollouts:  # otherwise the folder belongs to another run
                unread += problems
        config = self.said.for_folder(run_folder)
        adapters = step_folders.select_files(path_of(run_folder), {file.name: file.adapter for file in found})
        return [
            replace(file, adapter=config.apply_to(adapters[file.name]))
            for file in sorted(found, key=lambda file: file.name)
            if file.name in adapters
        ], unread

    def run_path(self, name: str) -> AnyPath:
        """Return the folder of a run named in a URL.

        Raises
        ------
        RunNotFound
            If there is no such folder, or it is outside the root and no followed link leads to it.
        """
        try:
            path = (self.root / name).resolve()
            if path.is_relative_to(self.root) and path.is_dir():
                return path
            linked = self._linked(name) if self._follow and not is_remote(self.root) else ""
        except (OSError, ValueError, RuntimeError):  # the name is too long, has a NUL byte or links to itself
            linked = ""
        if not linked:
            raise RunNotFound(f"no run {name[:80]!r} below {self.root.name}")
        return path_of(linked)

    def _linked(self, name: str) -> str:
        """Return the folder that `runs` reaches through links under this name; empty if it reaches none."""
        tree, folder = self._tree, self._tree.path
        for part in name.split("/"):
            if not _is_searchable_name(part) or part == os.pardir:
                return ""
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                target = target_of(folder, tree.path, follow=True)
                folder = target.path
                if not folder or target.inside or is_below(folder, self._tree.path):
                    return ""  # folders below the root and in the linked folder have another name
                tree = _Tree("", folder)
        return folder if self._list_run(folder, tree)[0] else ""

    def _folders(self, unread: list[Unread]) -> Iterator[_ListedFolder]:
        """Yield all folders below the root, then those of followed links, each once.

        Folders that cannot be listed and links that are not followed are added to ``unread``.
        """
        trees, visited = deque([self._tree]), set[tuple[int, int]]()
        while trees:
            tree = trees.popleft()
            for folder in self._walk(tree.path, tree, visited, unread):
                for entry in sorted(folder.entries, key=lambda e: e.name):
                    if linked := self._follow_link(entry, tree, unread):
                        trees.append(linked)
                yield folder

    def _walk(
        self, folder: str, tree: _Tree, visited: set[tuple[int, int]], unread: list[Unread]
    ) -> Iterator[_ListedFolder]:
        """Yield a folder of a tree and the folders below it, except those already visited on another path."""
        try:
            if self._follow and not is_remote(folder):
                status = os.stat(folder, follow_symlinks=False)
                if (status.st_dev, status.st_ino) in visited:
                    return
                visited.add((status.st_dev, status.st_ino))
            entries = scan(folder)
        except OSError as error:
            if error.errno in _TOO_MANY_OPEN:
                raise
            if not isinstance(error, FileNotFoundError):
                unread.append(Unread(tree.name_of(folder) + "/", reason_of(error)))
            return
        yield _ListedFolder(folder, entries, tree)
        for entry in sorted(entries, key=lambda e: e.name):
            if _is_searchable_folder(entry):
                yield from self._walk(entry.path, tree, visited, unread)

    def _follow_link(self, entry: Entry, tree: _Tree, unread: list[Unread]) -> _Tree | None:
        """Return the tree a link leads to; links to files or folders not followed go to ``unread``."""
        folder = _is_searchable_folder(entry, linked=True)
        if not folder and not (is_rollout_name(entry.name) and _is_linked_file(entry)):
            return None
        target = target_of(entry.path, tree.path, follow=self._follow)
        if target.reason:
            unread.append(_left_out(entry, tree.name_of(entry.path), target.reason))
        listed = target.inside or is_below(target.path, self._tree.path)
        return _Tree(tree.name_of(entry.path), target.path) if folder and target.path and not listed else None

    def _rollouts(
        self, folder: _ListedFolder, unread: list[Unread] | None = None, run_folder: str = ""
    ) -> Iterator[_Rollout]:
        """Yield the rollout files of a folder; unreadable files that may be rollouts go to ``unread``."""
        config, bound = self.said.for_folder(folder.folder), folder.tree.path
        for entry in _without_compressed_copies(folder.entries):
            if not is_rollout_name(entry.name) or not _is_file(entry):
                continue
            name, path = _name_below(run_folder, entry.path) if run_folder else "", entry.path
            if entry.is_symlink():
                target = target_of(entry.path, bound, follow=self._follow)
                if target.reason and unread is not None:
                    unread.append(_left_out(entry, name, target.reason))
                path = target.path
            result = self._sniff(path, entry.name, config) if path else None
            if result is None:
                continue
            if result.adapter is not None:
                owner = step_folders.run_folder(entry.path, result.adapter, bound)
                yield _Rollout(path, name, owner, result.adapter, result.status)
            elif result.problem and unread is not None:
                unread.append(Unread(name, result.problem))

    def _sniff(self, path: str, name: str, config: FolderConfig) -> _SniffResult | None:
        """Return a file's format, cached, with its current stat; None if the file is gone."""
        try:
            status = stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # the folder can be listed but not entered
            return _SniffResult(None, False, _NO_STATUS, reason_of(error))
        key = (path, status.st_dev, status.st_ino, config)
        cached = self._results.get(key)
        if cached is None or not cached.holds(status):
            cached, keep = _sniff_file(path, name, config, status, cached)
            if keep:
                self._results[key] = cached
        return replace(cached, status=status)


def _info(folder: str, tree: _Tree, members: list[os.stat_result]) -> RunInfo:
    return RunInfo(
        name=tree.name_of(folder),
        path=path_of(folder),
        files=len(members),
        bytes=sum(status.st_size for status in members),
        modified=max(status.st_mtime for status in members),
    )


def _left_out(entry: Entry, name: str, reason: str) -> Unread:
    """Return the entry for a link that is not followed, with the link's target."""
    try:
        target = display_name(os.readlink(entry.path))[:_MAX_TARGET_CHARS]
    except OSError:
        target = "?"
    return Unread(f"{name} -> {target}", reason, "")


def _is_searchable_name(name: str) -> bool:
    """Return True if a folder of this name is searched. Names that are not UTF-8 cannot be put into a URL."""
    hidden = not name or name.startswith(".") or name in _SKIPPED_FOLDERS
    return not hidden and display_name(name) == name


def _is_searchable_folder(entry: Entry, *, linked: bool = False) -> bool:
    """Return True if an entry is a folder to search; with ``linked``, a link to one."""
    if not _is_searchable_name(entry.name):
        return False
    try:
        return entry.is_symlink() == linked and entry.is_dir(follow_symlinks=linked)
    except OSError:
        return False


def _is_file(entry: Entry) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_linked_file(entry: Entry) -> bool:
    return entry.is_symlink() and _is_file(entry)


def _without_compressed_copies(entries: list[Entry]) -> list[Entry]:
    """Drop compressed files whose uncompressed file is still in the folder: both hold the same lines."""
    names = {entry.name for entry in entries}
    return [e for e in entries if not e.name.endswith(SUFFIXES) or e.name.rpartition(".")[0] not in names]


def _name_below(folder: str, path: str) -> str:
    return display_name(os.path.relpath(path, folder))


def _sniff_file(
    path: str, name: str, config: FolderConfig, status: os.stat_result, cached: _SniffResult | None
) -> tuple[_SniffResult, bool]:
    """Read a file's first lines to find its format; also return whether the result may be cached."""
    try:
        return _SniffResult(*sniff(path, name, config.mapped), status), True
    except (SourceDamaged, SourceUnready) as error:
        return _SniffResult(_adapter_by_name(name), False, status, str(error)), True
    except RemoteError as error:
        return cached or _SniffResult(None, False, status, str(error)), False
    except OSError as error:
        if error.errno in _TOO_MANY_OPEN:
            raise
        return _SniffResult(_adapter_by_name(name), False, status, reason_of(error)), False


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_rollout_name(name: str) -> bool:
    """Return True if a file of this name may hold rollouts."""
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def display_name(name: str) -> str:
    r"""Return a file's name as text; bytes that are not UTF-8 are shown as ``\xff`` and the like."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def sniff(path: str, name: str, mapped: Adapter | None = None) -> tuple[Adapter | None, bool]:
    """Find the adapter that reads a file; a mapping given by the user is tried before all others.

    Returns
    -------
    adapter : Adapter or None
    final : bool
        False while the answer may still change: the file is empty or has no complete line yet.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    named = _adapter_by_name(name)
    lines, final = first_lines(path)
    candidates = (mapped, *ADAPTERS) if mapped is not None else ADAPTERS
    for line in lines:
        for adapter in candidates:
            if _accepts(adapter, name, line):
                return adapter, True
    return named, final


def _adapter_by_name(name: str) -> Adapter | None:
    """Return the adapter of a file whose name alone shows that it holds rollouts."""
    if name.startswith(_NAMED) and not name.endswith(parquet.SUFFIX):
        return NATIVE
    return TRL if trl.NAME.fullmatch(name) else None


def first_lines(path: str) -> tuple[list[bytes], bool]:
    """Return the first complete non-blank lines, and whether they are enough to decide the format."""
    if path.endswith(parquet.SUFFIX):
        return parquet.first_lines(path, SNIFF_LINES), True
    lines: list[bytes] = []
    bytes_read = 0
    with open_plain(path) as file:
        while bytes_read < SNIFF_BYTES and len(lines) < SNIFF_LINES:
            line = file.readline(SNIFF_LINE_BYTES)
            bytes_read += len(line)
            if not line.endswith(b"\n"):
                return lines, len(line) == SNIFF_LINE_BYTES
            if not line.isspace():
                lines.append(line)
    return lines, True


def _accepts(adapter: Adapter, name: str, line: bytes) -> bool:
    try:
        return adapter.accepts(name, parse(line))
    except LineError:
        return False


def discover(root: str | os.PathLike[str]) -> list[RunInfo]:
    """Return the runs below a root, at any depth, newest first.

    Raises
    ------
    RunNotFound
        If the root is not a folder.
    """
    path = path_of(root)
    if not path.is_dir():
        raise RunNotFound(f"{path} is not a folder; give one that holds runs, for example ./rollout_samples")
    return Directory(path).runs()
