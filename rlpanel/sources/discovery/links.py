"""Decides which links below a root are followed, and says why others are not.

Whoever may write below the root can put a link there that leads to any file that this user may read. Out of
the root only links are followed that belong to this user, and only where the settings ask for it. What was
checked is the real path, and that is opened: a link that changes afterwards changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

NOT_FOLLOWED = "links are not followed; start with --follow-links"
_MOST_LINKS = 40


@dataclass(frozen=True)
class Target:
    """The target of a link.

    Attributes
    ----------
    path : str
        The real path; empty if the link is not followed.
    reason : str
        Why it is not followed; empty if it is, or leads nowhere.
    inside : bool
        Whether it stays in the folder that bounds it.
    """

    path: str = ""
    reason: str = ""
    inside: bool = False


def target_of(link: str, bound: str, *, follow: bool) -> Target:
    """Return the target of a link below ``bound``; both are real paths but for the link itself.

    Parameters
    ----------
    link, bound : str
    follow : bool
        Whether this user's own links may lead out of ``bound``.
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
    # Root can do anything already; others could change later where the link leads.
    others = [owner for owner in owners if owner not in (user, 0)]
    if others:
        return Target(reason=f"it leads through a link of user {others[0]}; only your own links are followed")
    if is_below(bound, path):
        return Target(reason="it leads to a folder above")
    return Target(path)


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is a folder or lies in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _resolve(path: str) -> tuple[str, list[int]]:
    """The real path, and the owners of all links on the way; OSError if there is nothing."""
    real, owners = os.sep, list[int]()
    rest = path.split(os.sep)[::-1]
    while rest:
        part = rest.pop()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            real = os.path.dirname(real)
            continue
        at = os.path.join(real, part)
        status = os.lstat(at)
        if not stat.S_ISLNK(status.st_mode):
            real = at
            continue
        owners.append(status.st_uid)
        text = _read(at, status)
        if len(owners) > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        real = os.sep if os.path.isabs(text) else real
        rest += text.split(os.sep)[::-1]
    return real, owners


def _read(link: str, status: os.stat_result) -> str:
    """Return the text of the link with this status; OSError if another one has replaced it."""
    text = os.readlink(link)
    now = os.lstat(link)
    if (now.st_dev, now.st_ino, now.st_ctime_ns) != (status.st_dev, status.st_ino, status.st_ctime_ns):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return text
