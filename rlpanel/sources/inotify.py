"""Ask Linux whether inotify can watch a folder now, and say which limit is in the way.

The limits are the user's: editors and other programs of the same user take from them. watchdog raises an
error for some shortages only; folders that it could not watch are left out without a word.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_IN_MODIFY = 0x2
#: Files that an observer opens: an inotify instance and a pipe; twice as many, as other threads open some.
_PIPES = 3
_LIMITS = Path("/proc/sys/fs/inotify")


def shortage(root: str, *, below: bool = True) -> str:
    """The limit that keeps inotify from watching a folder, with what to do about it.

    Parameters
    ----------
    root : str
    below : bool
        Whether all folders below it are to be watched, too.

    Returns
    -------
    str
        Empty if nothing is short, and on other systems than Linux.
    """
    if not sys.platform.startswith("linux"):
        return ""
    try:
        _open_pipes()
    except OSError:
        return "this process has no open file left; raise its limit with ulimit -n"
    libc = ctypes.CDLL(None, use_errno=True)
    instance = libc.inotify_init1(os.O_CLOEXEC)
    if instance < 0:
        return _used_up("instances", "max_user_instances") if ctypes.get_errno() == errno.EMFILE else ""
    try:
        for folder in _folders(root, below):
            added = libc.inotify_add_watch(instance, os.fsencode(folder), _IN_MODIFY)
            if added < 0 and ctypes.get_errno() == errno.ENOSPC:
                return _used_up("watches", "max_user_watches")
    finally:
        os.close(instance)
    return ""


def _open_pipes() -> None:
    """Fail where too few files may be opened: an observer that fails half-way keeps some open."""
    opened: list[int] = []
    try:
        for _ in range(_PIPES):
            opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _folders(root: str, below: bool) -> Iterator[str]:
    """The folder, and those below it; links are not followed, as watchdog does not."""
    yield root
    if below:
        for folder, names, _ in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    yield path


def _used_up(what: str, limit: str) -> str:
    try:
        now = int((_LIMITS / limit).read_text())
    except (OSError, ValueError):  # no /proc in a sandbox
        return f"this user's inotify {what} are used up; raise fs.inotify.{limit} with sysctl"
    return f"this user's inotify {what} are used up; sysctl fs.inotify.{limit}={4 * now} allows more"
