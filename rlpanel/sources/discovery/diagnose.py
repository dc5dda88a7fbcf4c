"""A folder without runs, in words: what is there, why it is no rollout log, and what to do."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rlpanel.errors import LineError, SourceUnready
from rlpanel.sources.discovery.directory import Directory, first_lines, is_rollout_name, shown_name
from rlpanel.sources.files.files import AnyPath, is_remote, scan, stat
from rlpanel.sources.files.unread import reason_of
from rlpanel.sources.readers import parquet
from rlpanel.sources.records.json_parser import parse

#: Entries that are looked at, and files that are told of.
_LOOKED_AT, _TOLD = 2000, 8
_KEYS_TOLD, _KEY_CHARS = 6, 40
_SCALARS = ("trainer_state.json", "scalars.jsonl", "metrics.jsonl", "events.out.tfevents.")
#: What other logs call a field, best guess first.
_GUESSES = {
    "prompt": ("input", "question", "query", "instruction", "problem", "prompts", "context"),
    "response": ("output", "answer", "completion", "generation", "generated", "prediction", "text"),
    "reward": ("score", "rewards", "return", "accuracy", "acc"),
    "step": ("global_step", "iteration", "iter", "epoch", "train_step", "version"),
}


@dataclass(frozen=True)
class SeenFile:
    """A file, and what it looks like."""

    name: str
    what: str


@dataclass(frozen=True)
class Diagnosis:
    """What a folder without runs holds.

    Attributes
    ----------
    title, sentence : str
    seen : tuple of SeenFile
        Those most like a log first.
    others : int
        Files that are not told of.
    hints : tuple of str
        What to check or do.
    mapping : str
        How ``--map`` might read for the first odd log; empty if there is none.
    """

    title: str
    sentence: str
    seen: tuple[SeenFile, ...] = ()
    others: int = 0
    hints: tuple[str, ...] = ()
    mapping: str = ""


def diagnose(directory: Directory) -> Diagnosis:
    """Look at a folder in which `Directory.runs` or `any` found none."""
    root = directory.root
    if not is_remote(root) and not root.is_dir():
        return _missing(root)
    if why := _out_of_reach(str(root)):
        return why
    found = list(islice(_walk(str(root)), _LOOKED_AT))
    left_out = tuple(SeenFile(one.file, one.reason) for one in directory.left_out[:_TOLD])
    if not found and not left_out:
        return Diagnosis(
            "No data yet",
            "The folder is there and holds no files: nothing has been written yet.",
            hints=_WRITER_HINTS,
        )
    found.sort(key=lambda path: (_kind(path), path))
    likely = [path for path in found if _kind(path) < 3][:_TOLD]
    told = likely or found[:_TOLD]
    problem = directory.said.of(root).problem
    if not found:
        return Diagnosis("Nothing that is read", "The folder holds no files but these.", left_out)
    return Diagnosis(
        "No rollout log here",
        f"{len(found):,} file{'s' * (len(found) > 1)} below the folder, and none is a rollout log of a "
        "known kind.",
        (*left_out, *(SeenFile(shown_name(os.path.relpath(path, root)), _what(path)) for path in told)),
        len(found) - len(told),
        (problem,) if problem else (),
        next((guess for path in likely if (guess := _guess(path))), ""),
    )


_WRITER_HINTS = (
    "A rank writes its first line after its first rollout, not when training starts.",
    "SAVE_ROLLOUT_DATA=true must be in the environment of every rank, where that is how it is turned on.",
    "In a container or on another machine the same path may be another folder.",
)


def _out_of_reach(root: str) -> Diagnosis | None:
    """Why nothing of a folder can be seen; None if it can."""
    try:
        scan(root)
    except (FileNotFoundError, NotADirectoryError) as error:
        return Diagnosis("Nothing there yet", f"{root}: {error.strerror}.", hints=_WRITER_HINTS[:2])
    except OSError as error:
        if is_remote(root):
            return Diagnosis("Out of reach just now", f"{error}.")
        return Diagnosis("The folder may not be listed", f"{reason_of(error)}.")
    return None


def _missing(root: AnyPath) -> Diagnosis:
    """No such folder: yet, or a wrong name."""
    near = next((parent for parent in root.parents if parent.is_dir()), root)
    wanted = root.relative_to(near).parts[0] if near != root else root.name
    try:
        there = sorted(entry.name for entry in scan(str(near)) if entry.is_dir())
    except OSError:
        there = []
    names = [shown_name(name) for name in there if not name.startswith(".")]
    close = [str(near / name) for name in difflib.get_close_matches(wanted, names, n=3)]
    asked = f"Did you mean {' or '.join(close)}? " if close else ""
    sentence = f"{asked}The folder is awaited: runs appear when it comes."
    return Diagnosis("No such folder yet", sentence, hints=_WRITER_HINTS)


def _walk(folder: str) -> Iterator[str]:
    """All files below; hidden ones and links are left out."""
    try:
        entries = sorted(scan(folder), key=lambda entry: entry.name)
    except OSError:
        return
    folders = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
        elif not entry.is_symlink():
            yield entry.path
    for path in folders:
        yield from _walk(path)


def _kind(path: str) -> int:
    """How like a log its name is: 0 most, 3 not at all."""
    name = os.path.basename(path)
    if name.startswith(_SCALARS):
        return 2
    if is_rollout_name(name):
        return 0
    return 1 if name.endswith((".pt", ".json", ".jsonl.gz", ".jsonl.zst", ".csv", ".txt", ".log")) else 3


def _what(path: str) -> str:
    """A file in a few words."""
    name = os.path.basename(path)
    if name.startswith(_SCALARS):
        return "the trainer's scalars, no rollouts"
    if name.endswith(".pt"):
        return "torch's format; slime's dumps: rlpanel convert slime FOLDER"
    if not is_rollout_name(name):
        return "no .jsonl, no .parquet"
    try:
        if not stat(path).st_size:
            return "empty"
        document = _first(path)
    except LineError as error:
        return f"its first line is {error}" if str(error).startswith("a JSON") else str(error)
    except SourceUnready as error:
        return str(error)
    except OSError as error:
        return f"cannot be read: {reason_of(error)}"
    if document is None:
        return "no whole line yet"
    keys = [repr(key[:_KEY_CHARS]) for key in document]
    more = f" and {len(keys) - _KEYS_TOLD} more" if len(keys) > _KEYS_TOLD else ""
    word = "rows" if name.endswith(parquet.SUFFIX) else "lines"
    return f"{word} with {', '.join(keys[:_KEYS_TOLD])}{more}" if keys else f"{word} without keys"


def _first(path: str) -> Mapping[str, Any] | None:
    lines, _ = first_lines(path)
    return parse(lines[0]) if lines else None


def _guess(path: str) -> str:
    """A mapping for a log of unknown keys; words in capitals where nobody can guess."""
    try:
        document = _first(path) if _kind(path) == 0 else None
    except (LineError, OSError):
        return ""
    if not document:
        return ""
    told = [
        f"{name}={key}"
        for name, guesses in _GUESSES.items()
        if name not in document and (key := next((g for g in guesses if g in document), None))
    ]
    texts = any(pair.startswith(("prompt=", "response=")) for pair in told) or {"prompt", "response"} & {
        *document
    }
    return ",".join(told if texts else ["prompt=KEY", "response=KEY", *told])
