"""Finds rollouts in hidden folders, which the search for runs passes over, so that they can be named."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rlpanel.sources.discovery.file_names import is_hidden_name, is_rollout_name
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.discovery.folder_walk import FolderWalk, is_file
from rlpanel.sources.discovery.format_detection import FormatCache

#: Hidden folders of programs that hold no logs, most of them large.
_PROGRAMS = frozenset(
    {".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".conda", ".npm", ".ssh", ".rlpanel"}
)
#: Most folders that are searched for hidden ones, most folders and files that are looked at in one of them.
_MAX_FOLDERS, _MAX_INSIDE, _MAX_FILES = 1000, 100, 200


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
    found = (formats.detect(entry.path, entry.name, config) for entry in islice(files, _MAX_FILES))
    return any(each is not None and each.adapter is not None for each in found)
