"""Finds the type of the file system that holds a path.

Checks whether inotify can watch a folder, and names the limit that prevents it.

The limits apply per user, so editors and other programs of the same user count as well. watchdog raises an
error only for some of the limits; folders that it could not watch are silently left out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

#: Readable even where a service sees only the processes in /proc (ProcSubset=pid).
MOUNTS = "/proc/self/mounts"

#: Network file systems: changes made by other machines raise no file events here.
NETWORK_FILE_SYSTEMS = (
    "nfs", "cifs", "smb", "9p", "afs", "beegfs", "ceph", "glusterfs", "gpfs", "lustre", "orangefs", "panfs",
    "pvfs2", "virtiofs", "wekafs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys",
    "fuse.juicefs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
)  # fmt: skip
#: Octal escapes for spaces and backslashes in the mount table.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: str, mounts: str = MOUNTS) -> str:
    """Return the type of the file system that holds a path, as in the mount table; empty if unknown."""
    mount_point, best_type = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as mount_table:
            for line in mount_table:
                _, point, fstype, *_ = line.split(" ")
                point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), point)
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(mount_point):
                    mount_point, best_type = point, fstype
    except OSError:
        return ""
    return best_type


_LINUX = sys.platform.startswith("linux")
_IN_MODIFY = 0x2
#: Pipes opened as a test. An observer opens an inotify instance and a pipe; twice as many files are tested,
#: because other threads open some as well.
_PIPES = 3
_LIMITS = Path("/proc/sys/fs/inotify")


def shortage(root: str) -> str:
    """Return the limit that keeps inotify from watching a folder and its subfolders, and how to raise it.

    Empty if no limit is reached, and on systems other than Linux.
    """
    if not _LINUX:
        return ""
    try:
        _open_pipes()
    except OSError:
        return "this process has too many open files; raise its limit with ulimit -n"
    with _instance() as instance:
        if instance < 0:
            full = ctypes.get_errno() == errno.EMFILE  # otherwise inotify is missing, which watchdog reports
            return _used_up("instances", "max_user_instances") if full else ""
        return _unwatched(instance, _folders(root))


def watches_used_up(root: str) -> str:
    """Return the same as `shortage`, but only for watches: a running observer already has its instance."""
    if not _LINUX:
        return ""
    with _instance() as instance:
        return _unwatched(instance, [root]) if instance >= 0 else ""


@contextmanager
def _instance() -> Iterator[int]:
    """Open a temporary inotify instance; it is negative if none could be created."""
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
    """Raise OSError if too few files can be opened: an observer that fails half-way leaves some open."""
    opened: list[int] = []
    try:
        for _ in range(_PIPES):
            opened += os.pipe()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _folders(root: str) -> Iterator[str]:
    """Yield the folder and its subfolders; links are skipped, as in watchdog."""
    yield root
    for folder, names, _ in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield path


def _used_up(resource: str, limit: str) -> str:
    try:
        now = int((_LIMITS / limit).read_text())
    except (OSError, ValueError):  # no /proc in a sandbox
        return f"this user's inotify {resource} are used up; raise fs.inotify.{limit} with sysctl"
    return f"this user's inotify {resource} are used up; sysctl fs.inotify.{limit}={4 * now} allows more"
