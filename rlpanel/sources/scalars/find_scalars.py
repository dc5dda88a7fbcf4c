"""Finds a run's scalar files: next to its rollouts, in its checkpoints and in its TensorBoard folders.

A run folder that is part of a larger one (``exp1/rollouts``) uses the scalar files of that folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rlpanel.sources.discovery.file_names import display_name
from rlpanel.sources.discovery.folder_walk import is_trusted_above
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import AnyPath, Entry, path_of
from rlpanel.sources.scalars import scalar_files
from rlpanel.sources.scalars.scalar_files import EventFile, ScalarFile, ScalarLines, TrainerState

STATE = "trainer_state.json"
#: ART's scalars; a file of this name is read only beside the folder of ART's trajectories.
HISTORY, _TRAJECTORIES = "history.jsonl", "trajectories"
#: Of rlpanel, prime-rl and others, LLaMA-Factory, EasyR1 and OpenPipe ART.
_LINES = ("scalars.jsonl", "metrics.jsonl", "trainer_log.jsonl", "experiment_log.jsonl", HISTORY)
_EVENTS = "events.out.tfevents."
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")
#: Folders that hold TensorBoard files, with at most one level of subfolders for runs.
_TENSORBOARD_FOLDERS = ("runs", "logs", "tensorboard", "tb")
#: Folder of the file monitor of prime-rl, which holds its metrics and its traces.
_MONITOR = ("monitors", "file")
#: Folder of prime-rl's stream of traces, below that of its monitor.
_STREAM = ("traces", "stream")
#: Names of folders that hold only a run's rollouts; its scalars are then in the parent folder.
_PARTS = frozenset(
    {
        "completions", "eval", "generations", "rollout", "rollout_data", "rollout_samples", "rollouts",
        "samples", "traces", "train", "trajectories", "val", "validation",
    }
)  # fmt: skip

Opener = Callable[[str, str], ScalarFile]


@dataclass(frozen=True)
class FoundScalars:
    """A scalar file. If two files hold the same name and step, the one with the higher ``rank`` is used.

    ``missing_package`` is the extra of rlpanel that is needed to read the file but not installed.
    """

    path: str
    name: str
    rank: tuple[int, str]
    open: Opener
    missing_package: str = ""


def is_scalar_name(name: str) -> bool:
    """Return True if a file of this name may hold trainer scalars."""
    return name == STATE or name in _LINES or name.startswith(_EVENTS)


def find_scalars(folder: AnyPath, root: AnyPath) -> list[FoundScalars]:
    """Return the scalar files of the run in ``folder``, in ascending rank.

    They are inside ``root``, or inside the parent of a run that is the root itself.
    """
    matches, bound = _scalar_files(folder), root
    if not matches and folder.name in _PARTS and (folder == root or folder.parent.is_relative_to(root)):
        matches = _scalar_files(folder.parent)
        bound = folder.parent if folder == root else root
    real = ((file, path_of(file.path).resolve()) for file in matches)
    inside = (replace(file, path=str(path)) for file, path in real if path.is_relative_to(bound))
    trusted = (file for file in inside if bound == root or is_trusted_above(path_of(file.path), root))
    return sorted(list(trusted) or _monitored(folder), key=lambda file: file.rank)


def _monitored(folder: AnyPath) -> list[FoundScalars]:
    """Return the metrics of prime-rl's monitor if the folder is that of its traces, also above the root."""
    if folder.parts[-2:] == _STREAM:
        folder_above = folder.parent.parent
    elif folder.name == _STREAM[0] and any(entry.name.startswith(_STREAM[1]) for entry in _entries(folder)):
        folder_above = folder.parent
    else:
        return []
    lines = [entry for entry in _entries(folder_above) if entry.name == _LINES[1]]
    # A link may lead anywhere, and this place is not one that the user has named.
    own = [entry for entry in lines if not entry.is_symlink() and _is_file(entry)]
    return [_found(entry, folder, 3, ScalarLines) for entry in own]


def _scalar_files(folder: AnyPath) -> list[FoundScalars]:
    entries = _entries(folder)
    if any(entry.name == _MONITOR[0] for entry in entries):
        entries += _entries(folder.joinpath(*_MONITOR))
    beside = {entry.name for entry in entries}
    names = set(_LINES) - (set() if _TRAJECTORIES in beside else {HISTORY})
    lines = [entry for entry in entries if entry.name in names and _is_file(entry)]
    json_files = [_found(entry, folder, 3, ScalarLines) for entry in lines]
    return [*json_files, *_state(folder, entries), *_events(folder, entries)]


def _state(folder: AnyPath, entries: list[Entry]) -> list[FoundScalars]:
    """Return the newest trainer state; each holds the whole history, so the older ones add nothing."""
    states = []
    for entry in entries:
        if entry.name == STATE:
            states.append((_modified(entry.path), -1, entry.path))
        elif number := _CHECKPOINT.fullmatch(entry.name):
            path = os.path.join(entry.path, STATE)
            states.append((_modified(path), int(number.group(1)), path))
    newest = max((state for state in states if state[0]), default=None)
    return [_found_path(newest[2], folder, 2, TrainerState)] if newest else []


def _events(folder: AnyPath, entries: list[Entry]) -> list[FoundScalars]:
    folders = (path_of(entry.path) for entry in entries if entry.name in _TENSORBOARD_FOLDERS)
    deeper = (entry for subfolder in folders for entry in _entries_below(subfolder))
    missing = "" if scalar_files.available() else "tensorboard"
    events = (entry for entry in (*entries, *deeper) if _is_events(entry))
    return [replace(_found(entry, folder, 1, EventFile), missing_package=missing) for entry in events]


def _entries_below(folder: AnyPath) -> Iterator[Entry]:
    """Yield the entries of a TensorBoard folder and of its subfolders."""
    for entry in _entries(folder):
        yield entry
        if _is_folder(entry):
            yield from _entries(path_of(entry.path))


def _is_events(entry: Entry) -> bool:
    return entry.name.startswith(_EVENTS) and _is_file(entry)


def _found(entry: Entry, folder: AnyPath, kind: int, opener: Opener) -> FoundScalars:
    return _found_path(entry.path, folder, kind, opener)


def _found_path(path: str, folder: AnyPath, kind: int, opener: Opener) -> FoundScalars:
    name = display_name(os.path.relpath(path, folder).replace(os.sep, "/"))
    # The name of an event file begins with its creation time; a resumed run creates another file.
    return FoundScalars(path, name, (kind, os.path.basename(path)), opener)


def _modified(path: str) -> int:
    """Return a file's modification time in ns; 0 if the file does not exist."""
    try:
        return file_access.stat(path).st_mtime_ns
    except OSError:
        return 0


def _entries(folder: AnyPath) -> list[Entry]:
    try:
        return sorted(file_access.scan(str(folder)), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_file(entry: Entry) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_folder(entry: Entry) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
