"""Explains why a folder has no runs: what it holds, why that is not a rollout log, and what to do.

Finds rollouts in hidden folders, which the search for runs passes over, so that they can be named.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rlpanel.errors import LineError, SourceUnready
from rlpanel.sources.discovery.content_format import lacking_key
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.discovery.file_names import (
    display_name,
    how_to_unpack,
    is_hidden_name,
    is_rollout_name,
)
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.discovery.folder_walk import MAX_DEPTH, FolderWalk, is_file
from rlpanel.sources.discovery.format_detection import FormatCache
from rlpanel.sources.discovery.found_records import (
    MAX_KEY_CHARS,
    MAX_KEYS,
    Records,
    count_of,
    find_records,
    holds_spans,
)
from rlpanel.sources.files.file_access import AnyPath, is_remote, reason_of, scan, stat
from rlpanel.sources.inference.content import keys_of
from rlpanel.sources.readers import eval_archive, table_files
from rlpanel.sources.readers.containers import CELLS, container_of, first_lines
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import MAX_SAMPLES

#: Hidden folders of programs that hold no logs, most of them large.
_PROGRAMS = frozenset(
    {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".conda", ".npm", ".ssh", ".rlpanel"}
)
#: Most folders that are searched for hidden ones, most folders and files that are looked at in one of them.
_MAX_FOLDERS, _MAX_INSIDE, _MAX_HIDDEN_FILES = 1000, 100, 200


def hidden_with_rollouts(root: str) -> Iterator[str]:
    """Yield the paths of hidden folders below a root that hold a rollout file; the search is bounded."""
    for folder in islice(FolderWalk(root, follow=False).folders([]), _MAX_FOLDERS):
        for entry in sorted(folder.entries, key=lambda entry: entry.name):
            hidden = is_hidden_name(entry.name) and entry.name not in _PROGRAMS
            if hidden and entry.is_dir(follow_symlinks=False) and _holds_rollouts(entry.path):
                yield entry.path


def _holds_rollouts(folder: str) -> bool:
    files = (
        entry
        for inside in islice(FolderWalk(folder, follow=False).folders([]), _MAX_INSIDE)
        for entry in inside.entries
        if is_rollout_name(entry.name) and not entry.is_symlink() and is_file(entry)
    )
    formats, config = FormatCache(), FolderConfig()
    found = (formats.detect(entry.path, entry.name, config) for entry in islice(files, _MAX_HIDDEN_FILES))
    return any(each is not None and each.adapter is not None for each in found)


#: Most files that are examined, and most files that are listed.
_MAX_FILES, _MAX_LISTED = 2000, 8
#: Most files and folders that a message names.
_MAX_NAMED = 3
_SCALARS = (
    *("trainer_state.json", "scalars.jsonl", "metrics.jsonl", "trainer_log.jsonl", "experiment_log.jsonl"),
    "events.out.tfevents.",
)
#: EasyR1's text log of validations. A response may hold its marks, and no step is written.
_TEXT_LOG = "generations.log"
_NO_TEXT_LOG = (
    "EasyR1's free text, from which neither the step nor the end of a response can be read; "
    "let its FileGenerationLogger write JSON lines, as docs/examples.md shows"
)
_TORCH = "PyTorch file; slime dumps can be converted: rlpanel convert slime FOLDER"
_UNITS = {**dict.fromkeys((table_files.SUFFIX, ".arrow", ".csv", ".tsv"), "rows"), ".json": "a document"}
_UNITS |= {eval_archive.SUFFIX: "a zip file"}
_HIDDEN = "a hidden folder with rollouts; name it as the folder to open"


@dataclass(frozen=True)
class SeenFile:
    """A file and a short description of its content."""

    name: str
    what: str


@dataclass(frozen=True)
class Diagnosis:
    """Result of examining a folder without runs.

    Attributes
    ----------
    title, sentence : str
    seen : tuple of SeenFile
        Files in the folder, those most like a log first.
    others : int
        Number of files that are not listed in ``seen``.
    hints : tuple of str
        Things to check or do.
    mapping : str
        Value of ``--map`` that opens the likeliest file; empty if there is none.
    records : Records or None
        The likeliest file's records.
    left_out : tuple of SeenFile
        Those of ``seen`` that are passed over: links, hidden folders, folders that cannot be listed.
    """

    title: str
    sentence: str
    seen: tuple[SeenFile, ...] = ()
    others: int = 0
    hints: tuple[str, ...] = ()
    mapping: str = ""
    records: Records | None = None
    left_out: tuple[SeenFile, ...] = ()

    def lines(self, root: str | AnyPath, command: str = "index") -> list[str]:
        """Return a message of at most three lines: what was found, what is missing, and what to type.

        Parameters
        ----------
        root : path
            The folder, as the user names it.
        command : str
            The command that opens it.
        """
        others = [f"{sight.name}: {sight.what}" for sight in self.left_out[:_MAX_NAMED]]
        if self.records is not None:
            found = f"{root} holds no rollouts: {self.records.found}"
            others = [f"{self.records.file}: {self.records.problem}", *others]
        else:
            found = f"{root} holds no rollouts. {self.sentence}"
            others = [f"{sight.name}: {sight.what}" for sight in self.seen[:_MAX_NAMED]]
        sights = "; ".join(others)
        said = " ".join(filter(None, [f"{sights}." if sights and self.hints else sights, *self.hints]))
        return [found, *filter(None, [said]), *self._command(root, command)]

    def _command(self, root: str | AnyPath, command: str) -> Iterator[str]:
        """Yield the command that opens the folder; none if nothing can be opened."""
        hidden = next((sight.name for sight in self.seen if sight.what == _HIDDEN), "")
        folder = shlex.quote(os.path.join(root, hidden) if hidden else str(root))
        if hidden:
            yield f"rlpanel runs {folder}"
        elif self.mapping:
            yield f"rlpanel {command} {folder} --map {shlex.quote(self.mapping)}"
        elif self.records is not None:
            yield f"rlpanel map {folder}"
        elif any(sight.what == _TORCH for sight in self.seen):
            yield f"rlpanel convert slime {folder}"


def diagnose(directory: Directory) -> Diagnosis:
    """Examine a folder in which `Directory.runs` or `Directory.has_runs` found no run."""
    root = directory.root
    if not is_remote(root) and not root.is_dir():
        return _missing(root)
    if unlisted := _check_listing(str(root)):
        return unlisted
    paths = list(islice(_walk(str(root)), _MAX_FILES))
    left_out = tuple(SeenFile(unread.file, unread.reason) for unread in directory.left_out[:_MAX_LISTED])
    left_out += tuple(
        SeenFile(f"{display_name(os.path.relpath(path, root))}/", _HIDDEN)
        for path in islice(hidden_with_rollouts(str(root)), _MAX_LISTED)
    )
    left_out += tuple(islice(_packed(root, paths), _MAX_LISTED))
    if not paths and not left_out:
        return Diagnosis(
            "No data yet",
            "The folder exists but is empty: nothing has been written yet.",
            hints=_WRITER_HINTS,
        )
    paths.sort(key=lambda path: (_name_priority(path), path))
    others = [path for path in paths if not how_to_unpack(path, any_document=True)]
    likely = [path for path in others if _name_priority(path) < 3][:_MAX_LISTED]
    listed = likely or others[:_MAX_LISTED]
    config = directory.folder_configs.for_folder(root)
    problems = [*filter(None, [config.problem]), *map(str, config.unread)]
    if not paths:
        return Diagnosis(
            "No files to read", "The folder holds no files except these.", left_out, left_out=left_out
        )
    # Files whose names say that they hold rollouts come first.
    readable = [path for path in paths if is_rollout_name(os.path.basename(path), any_document=True)]
    records = find_records(str(root), readable, config.mapped)
    return Diagnosis(
        "No rollout log here",
        f"{count_of(len(paths), 'file')} below the folder, but no known rollout log.",
        (
            *left_out,
            *(SeenFile(display_name(os.path.relpath(path, root)), _describe(path)) for path in listed),
        ),
        len(paths) - len(listed),
        tuple(problems),
        records.mapping if records else "",
        records,
        left_out,
    )


_WRITER_HINTS = (
    "A rank writes its first line after its first rollout, not when training starts.",
    "If rlpanel records the rollouts, every rank needs SAVE_ROLLOUT_DATA=true in its environment.",
    "In a container or on another machine the same path may be another folder.",
)


def _check_listing(root: str) -> Diagnosis | None:
    """Return why a folder cannot be listed; None if it can."""
    try:
        scan(root)
    except (FileNotFoundError, NotADirectoryError) as error:
        return Diagnosis("Nothing at this path yet", f"{root}: {error.strerror}.", hints=_WRITER_HINTS[:2])
    except OSError as error:
        if is_remote(root):
            return Diagnosis("Folder not reachable", f"{error}.")
        return Diagnosis("The folder cannot be listed", f"{reason_of(error)}.")
    return None


def _missing(root: AnyPath) -> Diagnosis:
    """Return the diagnosis of a folder that does not exist, with similar names as suggestions."""
    parent = next((folder for folder in root.parents if folder.is_dir()), root)
    wanted = root.relative_to(parent).parts[0] if parent != root else root.name
    try:
        siblings = sorted(entry.name for entry in scan(str(parent)) if entry.is_dir())
    except OSError:
        siblings = []
    names = [display_name(name) for name in siblings if not name.startswith(".")]
    close = [str(parent / name) for name in difflib.get_close_matches(wanted, names, n=3)]
    question = f"Did you mean {' or '.join(close)}? " if close else ""
    sentence = f"{question}Runs appear here as soon as the folder exists."
    return Diagnosis("No such folder yet", sentence, hints=_WRITER_HINTS)


def _walk(folder: str) -> Iterator[str]:
    """Yield all files below a folder, except links and what is hidden."""
    waiting = [(folder, 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = sorted(scan(folder), key=lambda entry: entry.name) if depth <= MAX_DEPTH else []
        except OSError:
            continue
        folders = []
        for entry in entries:
            if is_hidden_name(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, depth + 1))
            elif not entry.is_symlink():
                yield entry.path
        waiting += reversed(folders)


def _packed(root: AnyPath, paths: Iterable[str]) -> Iterator[SeenFile]:
    """Yield the logs that are packed in a way that is not read."""
    for path in paths:
        name = display_name(os.path.relpath(path, root))
        if reason := how_to_unpack(name, any_document=True):
            yield SeenFile(name, reason)


def _name_priority(path: str) -> int:
    """Return how much a file's name looks like a log, from 0 (most) to 3 (not at all)."""
    name = os.path.basename(path)
    if name.startswith(_SCALARS):
        return 2
    if is_rollout_name(name):
        return 0
    return 1 if name.endswith((".pt", ".json", ".jsonl.gz", ".jsonl.zst", ".csv", ".txt", ".log")) else 3


def _describe(path: str) -> str:
    """Describe a file in a few words."""
    name = os.path.basename(path)
    if name.startswith(_SCALARS):
        return "trainer scalars, no rollouts"
    if name == _TEXT_LOG:
        return _NO_TEXT_LOG
    if name.endswith(".pt"):
        return _TORCH
    if not is_rollout_name(name, any_document=True):
        return "neither .jsonl nor .parquet"
    try:
        if not stat(path).st_size:
            return "empty"
        document = _first_line(path)
    except LineError as error:
        return f"its first line is {error}" if str(error).startswith("a JSON") else str(error)
    except SourceUnready as error:
        return str(error)
    except OSError as error:
        return f"cannot be read: {reason_of(error)}"
    if document is None:
        if container_of(name) == CELLS:
            return "its first row does not name the columns"
        is_archive = name.endswith(eval_archive.SUFFIX)
        return "not a zip file, as Inspect's logs are" if is_archive else "no complete line yet"
    if holds_spans(keys_of([document])):
        return "spans of OpenTelemetry, which are not read"
    if lacking := lacking_key(document):
        return lacking
    keys = [repr(key[:MAX_KEY_CHARS]) for key in document]
    more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
    unit = _UNITS.get(os.path.splitext(name)[1], "lines")
    return f"{unit} with {', '.join(keys[:MAX_KEYS])}{more}" if keys else f"{unit} without keys"


def _first_line(path: str) -> Mapping[str, Any] | None:
    lines, _ = first_lines(path)
    return {key: to_python(value) for key, value in parse(lines[0], MAX_SAMPLES).items()} if lines else None
