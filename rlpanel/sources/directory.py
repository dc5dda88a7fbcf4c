"""Where runs lie: a run is a folder that holds rollout files, with all its ranks.

Which files are rollout files is decided by name and first lines, so that scalars and checkpoints
beside them are left alone. Links are followed only while they stay below the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlpanel.errors import LineError, RemoteError, RunNotFound, SourceDamaged, SourceUnready
from rlpanel.settings import Reading
from rlpanel.sources import layout, parquet
from rlpanel.sources.adapters import ADAPTERS, NATIVE, TRL, trl
from rlpanel.sources.base import Adapter
from rlpanel.sources.beside import Beside, Said, from_settings
from rlpanel.sources.files import AnyPath, Entry, path_of, scan
from rlpanel.sources.inflate import SUFFIXES, open_plain
from rlpanel.sources.parse import parse
from rlpanel.sources.unread import Unread, reason_of

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
class _Rollout:
    """A rollout file of a folder that was listed, with the folder of its run."""

    entry: Entry
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
        Folders that could not be listed at the last look for runs.
    """

    def __init__(self, root: str | os.PathLike[str], reading: Reading | None = None) -> None:
        self.root = path_of(root).resolve()
        self.said = Said(self.root, from_settings(reading or Reading.from_environment()))
        self.left_out: tuple[Unread, ...] = ()
        self._verdicts: dict[tuple[str, int, int, Beside], _Verdict] = {}

    def runs(self) -> list[RunInfo]:
        """Every run below the root, newest first; what cannot be read is left out.

        Raises
        ------
        OSError
            If no more files can be opened: that says nothing of the folders.
        """
        homes: dict[str, list[os.stat_result]] = {}
        unread: list[Unread] = []
        for folder, entries in self._walk(str(self.root), unread):
            for rollout in self._rollouts(folder, entries):
                homes.setdefault(rollout.home, []).append(rollout.status)
        self.left_out = tuple(unread)
        found = [self._info(home, members) for home, members in homes.items()]
        return sorted(found, key=lambda info: (-info.modified, info.name))

    def any(self) -> bool:
        """Whether there is a run; the first one found ends the search."""
        return any(True for place in self._walk(str(self.root), []) for _ in self._rollouts(*place))

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
        home = os.fspath(folder)
        found: list[Found] = []
        unread: list[Unread] = []

        def refuse(path: str, error: OSError) -> None:
            if error.errno in _NO_MORE_FILES:
                raise error
            unread.append(Unread(_name_below(home, path) + "/", reason_of(error)))

        for place, entries in layout.below(home, scan(home), refuse):
            odd: list[Unread] = []
            rollouts = list(self._rollouts(place, entries, odd, home))
            mine = [one for one in rollouts if one.home == home]
            found += [
                Found(one.entry.path, _name_below(home, one.entry.path), one.adapter, one.status)
                for one in mine
            ]
            if place == home or mine or not rollouts:  # else the folder is another run's
                unread += odd
        said = self.said.of(folder)
        arranged = layout.arrange(path_of(home), {one.name: one.adapter for one in found})
        return [
            replace(one, adapter=said.dress(arranged[one.name]))
            for one in sorted(found, key=lambda one: one.name)
            if one.name in arranged
        ], unread

    def run_path(self, name: str) -> AnyPath:
        """The folder of a run named in a URL.

        Raises
        ------
        RunNotFound
            If there is none, or it would lie outside the root.
        """
        try:
            path = (self.root / name).resolve()
            inside = path.is_relative_to(self.root) and path.is_dir()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL byte, or a link to itself
            inside = False
        if not inside:
            raise RunNotFound(f"no run {name[:80]!r} below {self.root.name}")
        return path

    def _walk(self, folder: str, unread: list[Unread]) -> Iterator[tuple[str, list[Entry]]]:
        """All folders with what lies in them; those that cannot be listed go to ``unread``."""
        try:
            entries = scan(folder)
        except OSError as error:
            if error.errno in _NO_MORE_FILES:
                raise
            if not isinstance(error, FileNotFoundError):
                unread.append(Unread(_name_below(str(self.root), folder) + "/", reason_of(error)))
            return
        yield folder, entries
        for entry in sorted(entries, key=lambda e: e.name):
            if _is_open_folder(entry):
                yield from self._walk(entry.path, unread)

    def _rollouts(
        self, folder: str, entries: list[Entry], unread: list[Unread] | None = None, home: str = ""
    ) -> Iterator[_Rollout]:
        """The rollout files of a folder; what may be one and cannot be looked at goes to ``unread``."""
        said = self.said.of(folder)
        for entry in _without_twins(entries):
            verdict = self._verdict(entry, said)
            if verdict is None:
                continue
            if verdict.adapter is not None:
                whose = layout.home(entry.path, verdict.adapter, str(self.root))
                yield _Rollout(entry, whose, verdict.adapter, verdict.status)
            elif verdict.problem and unread is not None:
                unread.append(Unread(_name_below(home, entry.path), verdict.problem))

    def _info(self, folder: str, members: list[os.stat_result]) -> RunInfo:
        path = path_of(folder)
        return RunInfo(
            name=path.relative_to(self.root).as_posix(),
            path=path,
            files=len(members),
            bytes=sum(status.st_size for status in members),
            modified=max(status.st_mtime for status in members),
        )

    def _verdict(self, entry: Entry, said: Beside) -> _Verdict | None:
        """What a file is, with its stat as of now; None if it is no rollout file by its name."""
        if not is_rollout_name(entry.name) or not self._is_inside(entry):
            return None
        try:
            status = entry.stat()
        except FileNotFoundError:
            return None
        except OSError as error:  # a folder that may be listed and not entered
            return _Verdict(None, False, _NO_STATUS, reason_of(error))
        key = (entry.path, status.st_dev, status.st_ino, said)
        known = self._verdicts.get(key)
        if known is None or not known.holds(status):
            known, keep = _judge(entry, said, status, known)
            if keep:
                self._verdicts[key] = known
        return replace(known, status=status)

    def _is_inside(self, entry: Entry) -> bool:
        """A file; a linked one counts only where its target lies below the root too."""
        try:
            if not entry.is_file():
                return False
            return not entry.is_symlink() or path_of(entry.path).resolve().is_relative_to(self.root)
        except OSError:
            return False


def _is_open_folder(entry: Entry) -> bool:
    """A folder to look into. One whose name is no text could not be named in a URL."""
    if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
        return False
    try:
        return entry.is_dir(follow_symlinks=False) and shown_name(entry.name) == entry.name
    except OSError:
        return False


def _without_twins(entries: list[Entry]) -> list[Entry]:
    """Without compressed files whose plain one is still there: one is the copy of the other."""
    names = {entry.name for entry in entries}
    return [e for e in entries if not e.name.endswith(SUFFIXES) or e.name.rpartition(".")[0] not in names]


def _name_below(folder: str, path: str) -> str:
    return shown_name(os.path.relpath(path, folder))


def _judge(
    entry: Entry, said: Beside, status: os.stat_result, known: _Verdict | None
) -> tuple[_Verdict, bool]:
    """What a file is by its first lines, and whether that holds until it changes."""
    try:
        return _Verdict(*sniff(entry.path, entry.name, said.mapped), status), True
    except (SourceDamaged, SourceUnready) as error:
        return _Verdict(_named(entry.name), False, status, str(error)), True
    except RemoteError as error:
        return known or _Verdict(None, False, status, str(error)), False
    except OSError as error:
        if error.errno in _NO_MORE_FILES:
            raise
        return _Verdict(_named(entry.name), False, status, reason_of(error)), False


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
