"""Ask Linux whether inotify can watch a folder now, and say which limit is in the way.

The limits are the user's: editors and other programs of the same user take from them. watchdog raises an
error for some shortages only; folders that it could not watch are left out without a word.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_LINUX = sys.platform.startswith("linux")
_IN_MODIFY = 0x2
#: Files that an observer opens: an inotify instance and a pipe; twice as many, as other threads open some.
_PIPES = 3
_LIMITS = Path("/proc/sys/fs/inotify")


def shortage(root: str) -> str:
    """The limit that keeps inotify from watching a folder and all below it, with what to do about it.

    Empty if nothing is short, and on other systems than Linux.
    """
    if not _LINUX:
        return ""
    try:
        _open_pipes()
    except OSError:
        return "this process has no open file left; raise its limit with ulimit -n"
    with _instance() as instance:
        if instance < 0:
            full = ctypes.get_errno() == errno.EMFILE  # else a sandbox without inotify: watchdog says so
            return _used_up("instances", "max_user_instances") if full else ""
        return _unwatched(instance, _folders(root))


def watches_used_up(root: str) -> str:
    """As `shortage`, of the limit alone that an observer at work can meet: it has its instance already."""
    if not _LINUX:
        return ""
    with _instance() as instance:
        return _unwatched(instance, [root]) if instance >= 0 else ""


@contextmanager
def _instance() -> Iterator[int]:
    """An inotify instance for the moment; negative if none is to be had."""
    instance = _libc().inotify_init1(os.O_CLOEXEC)
    try:
        yield instance
    finally:
        if instance >= 0:
            os.close(instance)


def _unwatched(instance: int, folders: Iterable[str]) -> str:
    libc = _libc()
    for folder in folders:
        added = libc.inotify_add_watch(instance, os.fsencode(folder), _IN_MODIFY)
        if added < 0 and ctypes.get_errno() == errno.ENOSPC:
            return _used_up("watches", "max_user_watches")
    return ""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _open_pipes() -> None:
    """Fail where too few files may be opened: an observer that fails half-way keeps some open."""
    opened: list[int] = []
    try:
        for _ in range(_PIPES):
            opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _folders(root: str) -> Iterator[str]:
    """The folder, and those below it; links are not followed, as watchdog does not."""
    yield root
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
