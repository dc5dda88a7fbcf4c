"""Finds the type of the file system that holds a path."""

from __future__ import annotations

import re

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
