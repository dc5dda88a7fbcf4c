"""Finds the runs below a root: a run is a folder that holds rollout files, those of all ranks.

A rollout file is opened by its suffix: as lines, parquet, a zip file or a JSON document.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlpanel.errors import RunNotFound, describe_error
from rlpanel.settings import Reading
from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.discovery import step_folders
from rlpanel.sources.discovery.file_format import FileFormat
from rlpanel.sources.discovery.file_names import (
    how_to_unpack,
    in_folder,
    is_checkpoint_folder,
    is_rollout_name,
    relative_name,
    split_of_folder,
    without_compressed_copies,
)
from rlpanel.sources.discovery.folder_config import FolderConfig, FolderConfigs, from_settings
from rlpanel.sources.discovery.folder_walk import (
    FolderTree,
    FolderWalk,
    ListedFolder,
    is_file,
    skipped_link,
    target_of,
)
from rlpanel.sources.discovery.format_detection import FormatCache
from rlpanel.sources.discovery.step_folders import is_task
from rlpanel.sources.files.file_access import (
    AnyPath,
    Entry,
    Unread,
    is_remote,
    path_of,
    reason_of,
    scan,
    too_many_open,
)
from rlpanel.sources.files.storage_requests import RemoteEntry
from rlpanel.sources.inference.aliases import unknown_key
from rlpanel.sources.inference.inference import agreed
from rlpanel.sources.readers.containers import Container, open_reader
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, for_file

log = logging.getLogger(__name__)


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
    rewarded : bool
        Whether the first sample of a file has a reward.
    root : path, optional
        The folder that was searched, or that a link led to: files above it do not count.
    split : str
        Split of samples that name none, from the folder's name; empty for training.
    """

    name: str
    path: AnyPath
    files: int
    bytes: int
    modified: float
    rewarded: bool = False
    root: AnyPath | None = None
    split: str = ""

    @property
    def label(self) -> str:
        """Name shown to the user; the root itself is shown by its folder name."""
        return self.path.name if self.name == "." else self.name


@dataclass(frozen=True)
class RolloutFileInfo:
    """A rollout file in a run's folder; the last four attributes are as in `FileFormat`."""

    path: str
    name: str
    adapter: Adapter
    status: os.stat_result
    newer: str = ""
    keys: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    container: Container | None = None


@dataclass(frozen=True)
class _Rollout:
    """A rollout file with the folder of its run.

    ``path`` is the real path, and ``name`` is the path below the run. ``is_task`` is True for a document in
    a folder of its own beside others, see `step_folders`.
    """

    path: str
    name: str
    run_folder: str
    adapter: Adapter
    format: FileFormat
    is_task: bool = False

    @property
    def is_common(self) -> bool:
        """True if programs of all kinds write files with such a name."""
        return not is_rollout_name(os.path.basename(self.path))


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
        self.folder_configs = FolderConfigs(self.root, from_settings(reading), reading.opened_with)
        self._walk = FolderWalk(str(self.root), follow=reading.follow_links)
        self._formats = FormatCache()
        self.left_out: tuple[Unread, ...] = ()

    def runs(self) -> list[RunInfo]:
        """Return all runs below the root, newest first; unreadable files are left out.

        Raises
        ------
        OSError
            If too many files are open, because then nothing can be said about the folders.
        """
        members: dict[str, tuple[FolderTree, list[_Rollout]]] = {}
        unread: list[Unread] = []
        for folder in self._walk.folders(unread):
            for rollout in self._listed(folder, unread):
                members.setdefault(rollout.run_folder, (folder.tree, []))[1].append(rollout)
        self.left_out = tuple(sorted(unread, key=lambda skipped: (skipped.file.count("/"), skipped.file)))
        infos = [_info(path, tree, _preferred(rollouts)) for path, (tree, rollouts) in members.items()]
        return sorted(infos, key=lambda info: (-info.modified, info.name))

    def has_runs(self) -> bool:
        """Return True if there is a run. The search ends there; `left_out` is complete up to there."""
        unread: list[Unread] = []
        has_run = any(True for folder in self._walk.folders(unread) for _ in self._listed(folder, unread))
        self.left_out = tuple(unread)
        return has_run

    def is_run(self, folder: str | os.PathLike[str]) -> bool:
        """Return True if a folder has rollout files of its own; the search ends at the first.

        Raises
        ------
        OSError
            If the folder cannot be listed.
        """
        run_folder = os.fspath(folder)

        def refuse(path: str, error: OSError) -> None:
            if too_many_open(error):
                raise error

        places = step_folders.candidate_folders(run_folder, scan(run_folder), refuse)
        return any(
            rollout.run_folder == run_folder
            for place, entries in places
            for rollout in self._rollouts(ListedFolder(place, entries, self._walk.tree), None, run_folder)
        )

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
        return self._list_run(os.fspath(folder), self._walk.tree)

    def _list_run(self, run_folder: str, tree: FolderTree) -> tuple[list[RolloutFileInfo], list[Unread]]:
        """Return the files of a run as `find_files` does; links are inside if they lead into ``tree``."""
        found: list[_Rollout] = []
        unread: list[Unread] = []

        def refuse(path: str, error: OSError) -> None:
            if too_many_open(error):
                raise error
            unread.append(Unread(relative_name(path, run_folder) + "/", reason_of(error)))

        for folder, entries in step_folders.candidate_folders(run_folder, scan(run_folder), refuse):
            problems: list[Unread] = []
            rollouts = list(self._rollouts(ListedFolder(folder, entries, tree), problems, run_folder))
            own = [rollout for rollout in rollouts if rollout.run_folder == run_folder]
            found += own
            if folder == run_folder or own or not rollouts:  # otherwise the folder belongs to another run
                unread += problems
        kept = _preferred(found)
        files = [
            RolloutFileInfo(
                *(each.path, each.name, each.adapter, each.format.status, each.format.newer),
                *(each.format.keys, each.format.absent, each.format.container),
            )
            for each in kept
        ]
        unread += _unread_tasks(found, kept)
        return self._select(run_folder, files), [*self._unknown_keys(run_folder, files), *unread]

    def _unknown_keys(self, run_folder: str, found: list[RolloutFileInfo]) -> Iterator[Unread]:
        """Yield the keys of the user's mapping that no file has, unless it is about other runs."""
        mapped = self.folder_configs.for_folder(run_folder).mapped
        is_meant = run_folder == str(self.root) or any(isinstance(f.adapter, MappedAdapter) for f in found)
        if mapped is None or not found or not is_meant:
            return
        keys = frozenset[str]().union(*(file.keys for file in found))
        for name, key in mapped.keys:
            if all(name in file.absent for file in found):
                yield Unread(f"map {name}={key}", unknown_key(name, key, keys), "")

    def _select(self, run_folder: str, found: list[RolloutFileInfo]) -> list[RolloutFileInfo]:
        """Return the files to read, sorted by name, with their adapters as the folder configures them."""
        config, folder = self.folder_configs.for_folder(run_folder), path_of(run_folder)
        inferred = agreed(
            {file.name: file.adapter for file in found}, {file.name: file.keys for file in found}
        )
        adapters = step_folders.select_files(folder, inferred)
        return [
            replace(
                file,
                adapter=in_folder(
                    config.apply_to(for_file(adapters[file.name], file.path)),
                    step_folders.evaluation_in(file.name, file.adapter) or folder.name,
                ),
            )
            for file in sorted(found, key=lambda file: file.name)
            if file.name in adapters
        ]

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
            linked = self._linked(name) if self._walk.follow and not is_remote(self.root) else ""
        except (OSError, ValueError, RuntimeError):  # the name is too long, has a NUL byte or links to itself
            linked = ""
        if not linked:
            raise RunNotFound(f"no run {name[:80]!r} below {self.root.name}")
        return path_of(linked)

    def _linked(self, name: str) -> str:
        """Return the folder that `runs` reaches through links under this name; empty if it reaches none."""
        linked = self._walk.resolve_name(name)
        return linked[0] if linked and self._list_run(*linked)[0] else ""

    def _listed(self, folder: ListedFolder, unread: list[Unread]) -> Iterator[_Rollout]:
        """Yield the rollout files of a folder; an unexpected error hides no other folder."""
        try:
            yield from self._rollouts(folder)
        except (OSError, MemoryError):
            raise
        except Exception as error:
            log.debug("%s cannot be listed", folder.path, exc_info=True)
            unread.append(Unread(folder.tree.name_of(folder.path) + "/", describe_error(error)))

    def _rollouts(
        self, folder: ListedFolder, unread: list[Unread] | None = None, run_folder: str = ""
    ) -> Iterator[_Rollout]:
        """Yield the rollout files of a folder; unreadable files that may be rollouts go to ``unread``.

        Documents and tables that any program may have written are read only where there are no others.
        """
        config, found = self.folder_configs.for_folder(folder.path, run_folder), 0
        usual, common = _entries(folder.entries)
        problems: list[Unread] = []
        for number, entry in enumerate(usual):
            if number % _AT_ONCE == 0:
                self._formats.fetch_ahead(usual[number : number + _AT_ONCE], config)
            if (rollout := self._rollout(entry, folder, config, problems, run_folder)) is not None:
                found += 1
                yield rollout
        in_common: list[Unread] = []
        for number, entry in enumerate(() if found else common):
            if number == _MAX_LOOKED and not found:
                left = len(common) - number
                reason = f"{left:,} more documents and tables: the first {number:,} hold no rollouts"
                problems.append(
                    Unread(relative_name(folder.path, run_folder or folder.path) + "/", reason, "")
                )
                break
            if (rollout := self._rollout(entry, folder, config, in_common, run_folder)) is not None:
                found += 1
                yield rollout
        if unread is not None:
            unread += [*problems, *(in_common if found else ()), *_packed(folder, run_folder)]

    def _rollout(
        self, entry: Entry, folder: ListedFolder, config: FolderConfig, unread: list[Unread], run_folder: str
    ) -> _Rollout | None:
        """Return a file if it holds rollouts; a reason why it cannot be read goes to ``unread``."""
        name, path = relative_name(entry.path, run_folder) if run_folder else "", entry.path
        bound = folder.tree.path
        if entry.is_symlink():
            target = target_of(entry.path, bound, follow=self._walk.follow)
            if target.reason and is_rollout_name(entry.name):
                unread.append(skipped_link(entry.path, name, target.reason))
            path = target.path
        place = step_folders.place_in_run(entry.path, bound)
        listed = entry.stat() if isinstance(entry, RemoteEntry) else None
        result = self._formats.detect(path, place, config, listed) if path else None
        if result is None:
            return None
        if result.adapter is None:
            unread += [Unread(name, result.problem)] if result.problem else []
            return None
        owner = step_folders.run_folder(entry.path, result.adapter, bound)
        folder_path = os.path.dirname(entry.path)
        if result.is_sample and owner == folder_path and is_task(entry.path, bound):
            owner = step_folders.run_of(os.path.dirname(folder_path), bound)
            return _Rollout(path, name, owner, result.adapter, result, is_task=True)
        return _Rollout(path, name, owner, result.adapter, result)


def _preferred(rollouts: list[_Rollout]) -> list[_Rollout]:
    """Leave out documents and tables beside a log: they may be a summary of it or a copy.

    Documents of tasks are left out beside the run's own files, which may hold the same samples.
    """
    own = [each for each in rollouts if not each.is_task] or rollouts
    return [each for each in own if not each.is_common] or own


def _unread_tasks(found: list[_Rollout], kept: list[_Rollout]) -> list[Unread]:
    """Return one entry for all documents of tasks that are left out beside the run's own files."""
    left = [each.name for each in found if each.is_task] if not any(each.is_task for each in kept) else []
    reason = (
        f"{len(left):,} documents in folders of their own; the run's other files may hold the same samples"
    )
    return [Unread(left[0], f"{reason}; open such a folder to see its document", "")] if left else []


#: Remote files whose heads are fetched at the same time.
_AT_ONCE = 128
#: Documents and tables of a folder that are looked at if none of them holds rollouts.
_MAX_LOOKED = 256


def _packed(folder: ListedFolder, run_folder: str) -> Iterator[Unread]:
    """Yield the logs that are packed in a way that is not read, except copies of those that are."""
    names = {entry.name for entry in folder.entries}
    for entry in folder.entries:
        name = relative_name(entry.path, run_folder or folder.path)
        reason = how_to_unpack(name)
        if reason and os.path.splitext(entry.name)[0] not in names and is_file(entry):
            yield Unread(name, reason)


def _entries(entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the files whose names alone say that they may hold rollouts, and others that may, by name.

    The latter are documents and tables, as programs of all kinds write them, except those of a checkpoint.
    """
    usual, common, is_checkpoint = [], [], is_checkpoint_folder(entries)
    for entry in without_compressed_copies(entries):
        if is_rollout_name(entry.name):
            usual += [entry] if is_file(entry) else []
        elif not is_checkpoint and is_rollout_name(entry.name, any_document=True):
            common += [entry] if is_file(entry) else []
    return usual, sorted(common, key=lambda entry: entry.name)


def _info(folder: str, tree: FolderTree, members: list[_Rollout]) -> RunInfo:
    return RunInfo(
        name=tree.name_of(folder),
        path=path_of(folder),
        files=len(members),
        bytes=sum(rollout.format.status.st_size for rollout in members),
        modified=max(rollout.format.status.st_mtime for rollout in members),
        rewarded=any(rollout.format.rewarded for rollout in members),
        root=path_of(tree.path),
        split=split_of_folder(path_of(folder).name, (rollout.adapter for rollout in members)),
    )


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


def open_file(file: RolloutFileInfo, reading: Reading) -> JsonlFile:
    """Return the reader of a rollout file without reading anything yet."""
    return open_reader(file.container, file.path, file.name, file.adapter, reading.line_bytes)
