"""Walks over the folders below a root and below the links that are followed, and visits each folder once.

A followed link starts a tree of its own, whose folders are named through the link.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel.sources.discovery.file_names import display_name, is_rollout_name, is_searchable_name
from rlpanel.sources.discovery.links import is_below, skipped_link, target_of
from rlpanel.sources.files.file_access import Entry, Unread, is_remote, reason_of, scan, too_many_open

#: Levels below a root that are searched. Thousands are possible, and each level takes longer than the last.
MAX_DEPTH = 64


@dataclass(frozen=True)
class FolderTree:
    """The root, or the target folder of a link that is followed.

    Attributes
    ----------
    name : str
        The link's path below the root; empty for the root itself.
    path : str
        Real path of the folder. Paths outside of it do not belong to the tree.
    """

    name: str
    path: str

    def name_of(self, path: str) -> str:
        """Return the name, below the root, of a path in this tree."""
        below = os.path.relpath(path, self.path)
        return display_name(os.path.normpath(os.path.join(self.name, below)).replace(os.sep, "/"))


@dataclass(frozen=True)
class ListedFolder:
    """A folder with its directory entries, and the tree that contains it."""

    path: str
    entries: list[Entry]
    tree: FolderTree


class FolderWalk:
    """Walks over all folders below a root.

    Parameters
    ----------
    root : str
        Real path of the root.
    follow : bool
        Whether links of this user may lead out of the root.

    Attributes
    ----------
    tree : FolderTree
        The tree of the root.
    follow : bool
    """

    def __init__(self, root: str, *, follow: bool) -> None:
        self.tree = FolderTree("", root)
        self.follow = follow

    def folders(self, unread: list[Unread]) -> Iterator[ListedFolder]:
        """Yield all folders below the root, then the folders of followed links, each once.

        Parameters
        ----------
        unread : list of Unread
            Receives the folders that cannot be listed and the links that are not followed.

        Raises
        ------
        OSError
            If too many files are open.
        """
        trees, visited = deque([self.tree]), set[tuple[int, int]]()
        while trees:
            tree = trees.popleft()
            for folder in self._walk(tree.path, tree, visited, unread):
                for entry in sorted(folder.entries, key=lambda e: e.name):
                    if linked := self._follow_link(entry, tree, unread):
                        trees.append(linked)
                yield folder

    def resolve_name(self, name: str) -> tuple[str, FolderTree] | None:
        """Resolve a name to its folder and tree, following links; None if `folders` skips a part of it.

        Links are followed whether or not ``follow`` is set. The folder need not exist.

        Parameters
        ----------
        name : str
            Path below the root with forward slashes.
        """
        tree, folder = self.tree, self.tree.path
        for part in name.split("/"):
            if not is_searchable_name(part) or part == os.pardir:
                return None
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                target = target_of(folder, tree.path, follow=True)
                folder = target.path
                if not folder or target.inside or is_below(folder, self.tree.path):
                    return None  # folders below the root and in the linked folder have another name
                tree = FolderTree("", folder)
        return folder, tree

    def _walk(
        self, folder: str, tree: FolderTree, visited: set[tuple[int, int]], unread: list[Unread]
    ) -> Iterator[ListedFolder]:
        """Yield a folder of a tree and the folders below it, except those already visited on another path."""
        waiting = [(folder, 0)]
        while waiting:
            folder, depth = waiting.pop()
            if depth > MAX_DEPTH:
                unread.append(Unread(tree.name_of(folder) + "/", f"more than {MAX_DEPTH} folders deep"))
                continue
            try:
                if self._is_visited(folder, visited):
                    continue
                entries = scan(folder)
            except OSError as error:
                if too_many_open(error):
                    raise
                if not isinstance(error, FileNotFoundError):
                    unread.append(Unread(tree.name_of(folder) + "/", reason_of(error)))
                continue
            yield ListedFolder(folder, entries, tree)
            below = sorted((entry for entry in entries if _is_searchable_folder(entry)), key=lambda e: e.name)
            waiting += [(entry.path, depth + 1) for entry in reversed(below)]

    def _is_visited(self, folder: str, visited: set[tuple[int, int]]) -> bool:
        """Return True if a folder was visited before, and mark it. Only links lead to a folder twice."""
        if not self.follow or is_remote(folder):
            return False
        status = os.stat(folder, follow_symlinks=False)
        if (status.st_dev, status.st_ino) in visited:
            return True
        visited.add((status.st_dev, status.st_ino))
        return False

    def _follow_link(self, entry: Entry, tree: FolderTree, unread: list[Unread]) -> FolderTree | None:
        """Return the tree a link leads to; links to files or folders not followed go to ``unread``."""
        folder = _is_searchable_folder(entry, linked=True)
        if not folder and not (is_rollout_name(entry.name) and _is_linked_file(entry)):
            return None
        target = target_of(entry.path, tree.path, follow=self.follow)
        name = tree.name_of(entry.path)
        if target.reason:
            unread.append(skipped_link(entry.path, name, target.reason))
        listed = target.inside or is_below(target.path, self.tree.path)
        return FolderTree(name, target.path) if folder and target.path and not listed else None


def is_file(entry: Entry) -> bool:
    """Return True if an entry is a file or a link to one; False if that cannot be found out."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_linked_file(entry: Entry) -> bool:
    return entry.is_symlink() and is_file(entry)


def _is_searchable_folder(entry: Entry, *, linked: bool = False) -> bool:
    """Return True if an entry is a folder to search; with ``linked``, a link to one."""
    if not is_searchable_name(entry.name):
        return False
    try:
        return entry.is_symlink() == linked and entry.is_dir(follow_symlinks=linked)
    except OSError:
        return False
