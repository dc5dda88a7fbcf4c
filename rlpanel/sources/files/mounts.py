"""On what kind of file system a path lies."""

from __future__ import annotations

import re

#: Also there where a service sees nothing of /proc but processes (ProcSubset=pid).
MOUNTS = "/proc/self/mounts"

#: File systems whose changes by other machines raise no events here.
REMOTE = (
    "nfs", "cifs", "smb", "9p", "afs", "beegfs", "ceph", "glusterfs", "gpfs", "lustre", "orangefs", "panfs",
    "pvfs2", "virtiofs", "wekafs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys",
    "fuse.juicefs", "fuse.mountpoint-s3", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
)  # fmt: skip
#: How the table writes blanks and backslashes.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: str, mounts: str = MOUNTS) -> str:
    """The type of the file system that holds a path, as the table of mounts names it; empty if unknown."""
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as table:
            for line in table:
                _, point, fstype, *_ = line.split(" ")
                point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, fstype
    except OSError:
        return ""
    return kind
