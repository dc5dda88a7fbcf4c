"""Where runs lie: a run is a folder that holds rollout files, with all its ranks.

Which files are rollout files is decided by name and first lines, so that scalars and checkpoints
beside them are left alone. Links are followed while they stay below the root, and out of it only where the
settings ask for it (see `rlpanel.sources.discovery.links`).
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
from rlpanel.sources.files.files import AnyPath, Entry, is_remote, path_of, scan, stat
from rlpanel.sources.files.unread import Unread, reason_of
from rlpanel.sources.readers import parquet
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Adapter

#: How far into a file to look for a line that tells its dialect; the first line may be longer.
SNIFF_BYTES = 1 << 20
SNIFF_LINES = 20
#: Longest first line that is looked at.
SNIFF_LINE_BYTES = 64 << 20
#: Files of these names are rollouts even where no line of theirs can be read.
_NAMED = ("rollout_data", "data_rank")
_SUFFIXES = (".jsonl", *(f".jsonl{suffix}" for suffix in SUFFIXES), parquet.SUFFIX)
#: Where a run's index lies. Like every folder whose name begins with a dot it is not looked into.
OWN_FOLDER = ".rlpanel"
#: This process, or the machine, has too many files open just now.
_NO_MORE_FILES = {errno.EMFILE, errno.ENFILE}
_SHOWN_CHARS = 200
_NO_STATUS = os.stat_result([0] * 10)
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True)
class RunInfo:
    """A run as a folder shows it, without reading its samples.

    Attributes
    ----------
    name : str
        The folder below the root, with forward slashes; ``.`` for the root itself.
    path : path
    files : int
        Rollout files.
    bytes : int
    modified : float
        Newest change, seconds since the epoch.
    """

    name: str
    path: AnyPath
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
    status: os.stat_result


@dataclass(frozen=True)
class _Tree:
    """The root, or a folder to which a followed link leads.

    ``name`` is the link's path below the root, empty for the root itself; nothing outside ``path`` is of it.
    """

    name: str
    path: str

    def name_of(self, path: str) -> str:
        """The name below the root of a path in this tree."""
        below = os.path.relpath(path, self.path)
        return shown_name(os.path.normpath(os.path.join(self.name, below)).replace(os.sep, "/"))


@dataclass(frozen=True)
class _Place:
    """A folder that was listed."""

    folder: str
    entries: list[Entry]
    tree: _Tree


@dataclass(frozen=True)
class _Rollout:
    """A rollout file of a folder that was listed, with the folder of its run.

    ``path`` is where it really lies, ``name`` is below the run.
    """

    path: str
    name: str
    home: str
    adapter: Adapter
    status: os.stat_result


@dataclass(frozen=True)
class _Verdict:
    """What a file turned out to be when its stat was ``status``; not ``final`` while that may change.

    ``problem`` says why nothing can be known of it.
    """

    adapter: Adapter | None
    final: bool
    status: os.stat_result
    problem: str = ""

    def holds(self, now: os.stat_result) -> bool:
        """Whether there is no need to look again. A file that shrank may be another one now."""
        if self.final:
            return now.st_size >= self.status.st_size
        return _stamp(now) == _stamp(self.status)


class Directory:
    """Finds rollout files below a root and remembers what each file turned out to be.

    Parameters
    ----------
    root : path
    reading : Reading, optional
        Tells dialects and tokenizers for all files; from the environment by default.

    Attributes
    ----------
    left_out : tuple of Unread
        Folders that could not be listed at the last look for runs, and links that were not followed.
    """

    def __init__(self, root: str | os.PathLike[str], reading: Reading | None = None) -> None:
        self.root = path_of(root).resolve()
        reading = reading or Reading.from_environment()
        self.said = FolderConfigs(self.root, from_settings(reading))
        self._follow = reading.follow_links
        self._tree = _Tree("", str(self.root))
        self.left_out: tuple[Unread, ...] = ()
        self._verdicts: dict[tuple[str, int, int, FolderConfig], _Verdict] = {}

    def runs(self) -> list[RunInfo]:
        """Every run below the root, newest first; what cannot be read is left out.

        Raises
        ------
        OSError
            If no more files can be opened: that says nothing of the folders.
        """
        homes: dict[str, tuple[_Tree, list[os.stat_result]]] = {}
        unread: list[Unread] = []
        for place in self._places(unread):
            for rollout in self._rollouts(place):
                homes.setdefault(rollout.home, (place.tree, []))[1].append(rollout.status)
        self.left_out = tuple(sorted(unread, key=lambda one: (one.file.count("/"), one.file)))
        found = [_info(home, *members) for home, members in homes.items()]
        return sorted(found, key=lambda info: (-info.modified, info.name))

    def any(self) -> bool:
        """Whether there is a run; the first one found ends the search, and `left_out` is as of there."""
        unread: list[Unread] = []
        found = any(True for place in self._places(unread) for _ in self._rollouts(place))
        self.left_out = tuple(unread)
        return found

    def files(self, folder: str | os.PathLike[str]) -> list[Found]:
        """The rollout files of one run, by name; OSError as `look`."""
        return self.look(folder)[0]

    def look(self, folder: str | os.PathLike[str]) -> tuple[list[Found], list[Unread]]:
        """The rollout files of one run, by name, and what may belong to it and cannot be looked at.

        Raises
        ------
        OSError
            If the folder cannot be listed.
        """
        return self._look(os.fspath(folder), self._tree)

    def _look(self, home: str, tree: _Tree) -> tuple[list[Found], list[Unread]]:
        found: list[Found] = []
        unread: list[Unread] = []

        def refuse(path: str, error: OSError) -> None:
            if error.errno in _NO_MORE_FILES:
                raise error
            unread.append(Unread(_name_below(home, path) + "/", reason_of(error)))

        for folder, entries in step_folders.below(home, scan(home), refuse):
            odd: list[Unread] = []
            rollouts = list(self._rollouts(_Place(folder, entries, tree), odd, home))
            mine = [one for one in rollouts if one.home == home]
            found += [Found(one.path, one.name, one.adapter, one.status) for one in mine]
            if folder == home or mine or not rollouts:  # else the folder is another run's
                unread += odd
        said = self.said.of(home)
        arranged = step_folders.arrange(path_of(home), {one.name: one.adapter for one in found})
        return [
            replace(one, adapter=said.apply_to(arranged[one.name]))
            for one in sorted(found, key=lambda one: one.name)
            if one.name in arranged
        ], unread

    def run_path(self, name: str) -> AnyPath:
        """The folder of a run named in a URL.

        Raises
        ------
        RunNotFound
            If there is none, or it would lie outside the root and be reached through no followed link.
        """
        try:
            path = (self.root / name).resolve()
            if path.is_relative_to(self.root) and path.is_dir():
                return path
            linked = self._linked(name) if self._follow and not is_remote(self.root) else ""
        except (OSError, ValueError, RuntimeError):  # too long, a NUL byte, or a link to itself
            linked = ""
        if not linked:
            raise RunNotFound(f"no run {name[:80]!r} below {self.root.name}")
        return path_of(linked)

    def _linked(self, name: str) -> str:
        """The folder of a run that `runs` reaches through links by this name; empty if there is none."""
        tree, folder = self._tree, self._tree.path
        for part in name.split("/"):
            if not _is_open_name(part) or part == os.pardir:
                return ""
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                target = target_of(folder, tree.path, follow=True)
                folder = target.path
                if not folder or target.inside or is_below(folder, self._tree.path):
                    return ""  # what lies below the root or in the linked folder has another name
                tree = _Tree("", folder)
        return folder if self._look(folder, tree)[0] else ""

    def _places(self, unread: list[Unread]) -> Iterator[_Place]:
        """All folders below the root, then those of followed links, each once.

        Folders that cannot be listed and links that are not followed go to ``unread``.
        """
        trees, seen = deque([self._tree]), set[tuple[int, int]]()
        while trees:
            tree = trees.popleft()
            for place in self._walk(tree.path, tree, seen, unread):
                for entry in sorted(place.entries, key=lambda e: e.name):
                    if found := self._link(entry, tree, unread):
                        trees.append(found)
                yield place

    def _walk(
        self, folder: str, tree: _Tree, seen: set[tuple[int, int]], unread: list[Unread]
    ) -> Iterator[_Place]:
        """A folder of a tree and those below it, but for those that were seen by another way."""
        try:
            if self._follow and not is_remote(folder):
                status = os.stat(folder, follow_symlinks=False)
                if (status.st_dev, status.st_ino) in seen:
                    return
                seen.add((status.st_dev, status.st_ino))
            entries = scan(folder)
        except OSError as error:
            if error.errno in _NO_MORE_FILES:
                raise
            if not isinstance(error, FileNotFoundError):
                unread.append(Unread(tree.name_of(folder) + "/", reason_of(error)))
            return
        yield _Place(folder, entries, tree)
        for entry in sorted(entries, key=lambda e: e.name):
            if _is_open_folder(entry):
                yield from self._walk(entry.path, tree, seen, unread)

    def _link(self, entry: Entry, tree: _Tree, unread: list[Unread]) -> _Tree | None:
        """The tree to which a link leads; one that is not followed goes to ``unread``, files too."""
        folder = _is_open_folder(entry, linked=True)
        if not folder and not (is_rollout_name(entry.name) and _is_linked_file(entry)):
            return None
        target = target_of(entry.path, tree.path, follow=self._follow)
        if target.reason:
            unread.append(_left_out(entry, tree.name_of(entry.path), target.reason))
        listed = target.inside or is_below(target.path, self._tree.path)
        return _Tree(tree.name_of(entry.path), target.path) if folder and target.path and not listed else None

    def _rollouts(
        self, place: _Place, unread: list[Unread] | None = None, home: str = ""
    ) -> Iterator[_Rollout]:
        """The rollout files of a folder; what may be one and cannot be looked at goes to ``unread``."""
        said, bound = self.said.of(place.folder), place.tree.path
        for entry in _without_twins(place.entries):
            if not is_rollout_name(entry.name) or not _is_file(entry):
                continue
            name, path = _name_below(home, entry.path) if home else "", entry.path
            if entry.is_symlink():
                target = target_of(entry.path, bound, follow=self._follow)
                if target.reason and unread is not None:
                    unread.append(_left_out(entry, name, target.reason))
                path = target.path
            verdict = self._verdict(path, entry.name, said) if path else None
            if verdict is None:
                continue
            if verdict.adapter is not None:
                whose = step_folders.run_folder(entry.path, verdict.adapter, bound)
                yield _Rollout(path, name, whose, verdict.adapter, verdict.status)
            elif verdict.problem and unread is not None:
                unread.append(Unread(name, verdict.problem))

    def _verdict(self, path: str, name: str, said: FolderConfig) -> _Verdict | None:
        """What a file is, with its stat as of now; None if it is gone."""
        try:
            status = stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # a folder that may be listed and not entered
            return _Verdict(None, False, _NO_STATUS, reason_of(error))
        key = (path, status.st_dev, status.st_ino, said)
        known = self._verdicts.get(key)
        if known is None or not known.holds(status):
            known, keep = _judge(path, name, said, status, known)
            if keep:
                self._verdicts[key] = known
        return replace(known, status=status)


def _info(folder: str, tree: _Tree, members: list[os.stat_result]) -> RunInfo:
    return RunInfo(
        name=tree.name_of(folder),
        path=path_of(folder),
        files=len(members),
        bytes=sum(status.st_size for status in members),
        modified=max(status.st_mtime for status in members),
    )


def _left_out(entry: Entry, name: str, reason: str) -> Unread:
    """A link that is not followed, with where it leads."""
    try:
        leads = shown_name(os.readlink(entry.path))[:_SHOWN_CHARS]
    except OSError:
        leads = "?"
    return Unread(f"{name} -> {leads}", reason, "")


def _is_open_name(name: str) -> bool:
    """Whether a folder of this name is looked into. One that is no text could not be named in a URL."""
    hidden = not name or name.startswith(".") or name in _SKIPPED_FOLDERS
    return not hidden and shown_name(name) == name


def _is_open_folder(entry: Entry, *, linked: bool = False) -> bool:
    """A folder to look into, or a link to one."""
    if not _is_open_name(entry.name):
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


def _without_twins(entries: list[Entry]) -> list[Entry]:
    """Without compressed files whose plain one is still there: one is the copy of the other."""
    names = {entry.name for entry in entries}
    return [e for e in entries if not e.name.endswith(SUFFIXES) or e.name.rpartition(".")[0] not in names]


def _name_below(folder: str, path: str) -> str:
    return shown_name(os.path.relpath(path, folder))


def _judge(
    path: str, name: str, said: FolderConfig, status: os.stat_result, known: _Verdict | None
) -> tuple[_Verdict, bool]:
    """What a file is by its first lines, and whether that holds until it changes."""
    try:
        return _Verdict(*sniff(path, name, said.mapped), status), True
    except (SourceDamaged, SourceUnready) as error:
        return _Verdict(_named(name), False, status, str(error)), True
    except RemoteError as error:
        return known or _Verdict(None, False, status, str(error)), False
    except OSError as error:
        if error.errno in _NO_MORE_FILES:
            raise
        return _Verdict(_named(name), False, status, reason_of(error)), False


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_rollout_name(name: str) -> bool:
    """Whether a file of this name may hold rollouts."""
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def shown_name(name: str) -> str:
    r"""A file's name as text; bytes that are no UTF-8 become ``\xff`` and the like."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def sniff(path: str, name: str, mapped: Adapter | None = None) -> tuple[Adapter | None, bool]:
    """Which adapter reads a file; a mapping that a person gave goes before all others.

    Returns
    -------
    adapter : Adapter or None
    final : bool
        False while the file may still turn out otherwise: it is empty or holds no whole line yet.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    named = _named(name)
    lines, final = first_lines(path)
    asked = (mapped, *ADAPTERS) if mapped is not None else ADAPTERS
    for line in lines:
        for adapter in asked:
            if _accepts(adapter, name, line):
                return adapter, True
    return named, final


def _named(name: str) -> Adapter | None:
    """The dialect of a file whose name alone tells that it holds rollouts."""
    if name.startswith(_NAMED) and not name.endswith(parquet.SUFFIX):
        return NATIVE
    return TRL if trl.NAME.fullmatch(name) else None


def first_lines(path: str) -> tuple[list[bytes], bool]:
    """Whole lines that are not blank, and whether enough was seen to judge the file by."""
    if path.endswith(parquet.SUFFIX):
        return parquet.first_lines(path, SNIFF_LINES), True
    lines: list[bytes] = []
    seen = 0
    with open_plain(path) as file:
        while seen < SNIFF_BYTES and len(lines) < SNIFF_LINES:
            line = file.readline(SNIFF_LINE_BYTES)
            seen += len(line)
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
    """The runs below a root, at any depth, newest first.

    Raises
    ------
    RunNotFound
        If the root is no folder.
    """
    path = path_of(root)
    if not path.is_dir():
        raise RunNotFound(f"{path} is no folder; give one that holds runs, for example ./rollout_samples")
    return Directory(path).runs()
