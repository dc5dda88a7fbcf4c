"""Decides which links below a root are followed, and gives the reason for the others.

Anyone who can write below the root could create a link to any file that this user can read. Links out of the
root are therefore followed only if they belong to this user and the settings allow it. The resolved path is
checked and that same path is opened, so changing the link afterwards has no effect.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from rlpanel.errors import UnsafePath
from rlpanel.sources.discovery.file_names import display_name
from rlpanel.sources.files.file_access import AnyPath, Unread, is_remote

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
