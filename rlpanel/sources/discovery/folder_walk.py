"""Walks over the folders below a root and visits each once, and decides which links are followed."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel.errors import UnsafePath
from rlpanel.sources.discovery.file_names import display_name, is_rollout_name, is_searchable_name
from rlpanel.sources.files.file_access import (
    AnyPath,
    Entry,
    Unread,
    is_remote,
    reason_of,
    scan,
    too_many_open,
)

NOT_FOLLOWED = "links are not followed; start with --follow-links"
_MAX_LINKS = 40
_MAX_TARGET_CHARS = 200


@dataclass(frozen=True)
class Target:
    """The target of a link.

    Attributes
    ----------
    path : str
        The real path; empty if the link is not followed.
    reason : str
        Why it is not followed; empty if it is followed or its target does not exist.
    inside : bool
        Whether the target is inside the bounding folder.
    """

    path: str = ""
    reason: str = ""
    inside: bool = False


def target_of(link: str, bound: str, *, follow: bool) -> Target:
    """Return the target of a link below ``bound``. ``bound`` and the link's folder are real paths.

    Parameters
    ----------
    link, bound : str
    follow : bool
        Whether links of this user may lead out of ``bound``.
    """
    try:
        path, owners = _resolve(link)
    except OSError:
        return Target()
    if is_below(path, bound):
        return Target(path, inside=True)
    if not follow:
        return Target(reason=NOT_FOLLOWED)
    user = os.geteuid()
    if owners[0] != user:
        return Target(reason=f"the link belongs to user {owners[0]}; only your own links are followed")
    # Links of root are accepted, since root can do anything; other owners could redirect their link later.
    others = [owner for owner in owners if owner not in (user, 0)]
    if others:
        return Target(reason=f"it leads through a link of user {others[0]}; only your own links are followed")
    if is_below(bound, path):
        return Target(reason="it leads to a parent folder")
    return Target(path)


def named_target(path: str) -> str:
    """Return the real path of a file that this user named; its links must belong to this user or to root.

    Raises
    ------
    OSError
        If the path does not exist.
    UnsafePath
        If it leads through a link of another user.
    """
    if not hasattr(os, "geteuid"):  # Windows has no numeric owners
        return os.path.realpath(path)
    target, owners = _resolve(path)
    others = [owner for owner in owners if owner not in (os.geteuid(), 0)]
    if others:
        raise UnsafePath(errno.EPERM, f"leads through a link of user {others[0]}", path)
    return target


def skipped_link(link: str, name: str, reason: str) -> Unread:
    """Return the entry for a link that is not followed; its name shows the link's target.

    Parameters
    ----------
    link : str
    name : str
        Displayed name of the link.
    reason : str
    """
    try:
        target = display_name(os.readlink(link))[:_MAX_TARGET_CHARS]
    except OSError:
        target = "?"
    return Unread(f"{name} -> {target}", reason, "")


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is a folder or is inside it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_trusted_above(path: AnyPath, folder: AnyPath) -> bool:
    """Return True if a file above a shown folder belongs to this user, to root or to the folder's owner.

    Anyone may own the folder above, such as ``/tmp``. A file that is missing is trusted, as it says nothing.
    """
    if is_remote(path) or not hasattr(os, "geteuid"):
        return True
    try:
        return os.lstat(path).st_uid in (os.geteuid(), 0, os.stat(folder).st_uid)
    except OSError:
        return True


def _resolve(path: str) -> tuple[str, list[int]]:
    """Return the real path and the owners of all links on the way; OSError if the path does not exist."""
    real, owners = os.sep, list[int]()
    rest = path.split(os.sep)[::-1]
    while rest:
        part = rest.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            real = os.path.dirname(real)
            continue
        entry = os.path.join(real, part)
        status = os.lstat(entry)
        if not stat.S_ISLNK(status.st_mode):
            real = entry
            continue
        owners.append(status.st_uid)
        text = _read(entry, status)
        if len(owners) > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        real = os.sep if os.path.isabs(text) else real
        rest += text.split(os.sep)[::-1]
    return real, owners


def _read(link: str, status: os.stat_result) -> str:
    """Return the text of the link with this status; OSError if the link was replaced meanwhile."""
    text = os.readlink(link)
    now = os.lstat(link)
    if (now.st_dev, now.st_ino, now.st_ctime_ns) != (status.st_dev, status.st_ino, status.st_ctime_ns):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return text


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
