"""Recognises folders of one sample each: ``task_3/trajectory.json`` beside ``task_17/trajectory.json``.

Their names differ only in a number or an id, and each holds one document. They are one run together.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from rlpanel.sources.files.file_access import is_remote
from rlpanel.sources.inference.model_names import names_model
from rlpanel.sources.readers.containers import DOCUMENT_SUFFIXES
from rlpanel.sources.records.path_numbers import names_part

#: A name that ends with a number after a word, and an id. An id of digits alone may be a step.
_NUMBERED = re.compile(r"(.*[A-Za-z][_-]?)\d{1,9}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*\d)(?=.*[a-f])[0-9a-f]{12,64}")
#: Words that name runs, not tasks: ``seed_1`` and ``seed_2`` stay two runs.
_RUNS = re.compile(
    r"(?:^|[_-])(?:runs?|exp|experiments?|seeds?|models?|versions?|v|jobs?)[_-]?$", re.IGNORECASE
)
#: Siblings that are looked at, and documents of a task: one is its sample, others may be its settings.
_MAX_SIBLINGS, _MAX_DOCUMENTS = 8, 4
#: Ends of the names of files that hold many samples.
_LOGS = (".jsonl", ".ndjson", ".parquet", ".arrow", ".csv", ".jsonl.gz", ".jsonl.zst")


def shared_name(folder: str) -> str:
    """Return the part of a folder's name that its siblings share; empty if the name counts no samples."""
    if _ID.fullmatch(folder):
        return "*"
    match = _NUMBERED.fullmatch(folder)
    if match is None or names_part(folder) or _RUNS.search(match[1]) or names_model(folder):
        return ""
    return match[1]


def may_be_task(folder: str) -> bool:
    """Return True for a folder with a task's name that holds some documents and no log."""
    return bool(shared_name(os.path.basename(folder))) and not is_remote(folder) and bool(_documents(folder))


def is_task(file: str, root: str) -> bool:
    """Return True if a document is one sample of the run that its folder's parent is."""
    folder, name = os.path.split(file)
    if is_remote(file) or folder == root or not may_be_task(folder):
        return False
    parent, own = os.path.split(folder)
    try:
        siblings = _siblings(parent, os.stat(parent).st_mtime_ns).get(shared_name(own), ())
    except OSError:
        return False
    beside = [each for each in siblings if each != own][:_MAX_SIBLINGS]
    return any(name in _documents(os.path.join(parent, each)) for each in beside)


def _documents(folder: str) -> list[str]:
    """Return the names of a folder's documents; none if it holds a log as well, or many documents."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []
    found = [name for name in names if name.endswith(DOCUMENT_SUFFIXES)]
    has_log = any(name.endswith(_LOGS) for name in names)
    return [] if has_log or len(found) > _MAX_DOCUMENTS else found


@lru_cache(maxsize=64)
def _siblings(parent: str, changed: int) -> dict[str, list[str]]:
    """Return the folders below a parent by the part of their names that they share."""
    found: dict[str, list[str]] = {}
    with os.scandir(parent) as entries:
        for entry in entries:
            if (shared := shared_name(entry.name)) and entry.is_dir(follow_symlinks=False):
                found.setdefault(shared, []).append(entry.name)
    return found
