"""On what kind of file system a path lies."""

from __future__ import annotations

MOUNTS = "/proc/mounts"

#: File systems whose changes by other machines raise no events here.
REMOTE = (
    "nfs", "cifs", "smb", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "9p", "lustre", "gpfs", "ceph",
    "beegfs",
)  # fmt: skip


def file_system(path: str, mounts: str = MOUNTS) -> str:
    """The type of the file system that holds a path, as the table of mounts names it; empty if unknown."""
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as table:
            for line in table:
                _, point, fstype, *_ = line.split(" ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, fstype
    except OSError:
        return ""
    return kind
