"""Only regular files are opened, without waiting, and no more than a number of bytes is read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from rlpanel.errors import UnsafePath
from rlpanel.regular_files import open_regular, read_at_most, read_end


def read(path: str | Path, most: int) -> bytes:
    descriptor = open_regular(str(path))
    try:
        return read_at_most(descriptor, most, path)
    finally:
        os.close(descriptor)


def test_a_file_of_just_as_many_bytes_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(OSError, match="has 100 bytes; the limit is 99"):
        read(tmp_path / "file", 99)


def test_what_is_read_counts_and_not_the_size_that_a_file_claims() -> None:
    maps = "/proc/self/maps"
    assert os.stat(maps).st_size == 0
    assert len(read(maps, 1 << 20)) > 100
    with pytest.raises(OSError, match="the limit is 100"):
        read(maps, 100)


@pytest.mark.parametrize("kind", ["pipe", "socket", "link", "folder", "device"])
def test_anything_else_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listening.bind(str(path))
        elif kind == "link":
            path.symlink_to("/etc/passwd")
        elif kind == "folder":
            path.mkdir()
        else:
            path = Path("/dev/zero")
        with pytest.raises(OSError, match=r"link|folder|regular") as error:
            open_regular(str(path))
    assert isinstance(error.value, UnsafePath | IsADirectoryError)


def test_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    descriptor = open_regular(str(tmp_path / "file"))
    assert [read_end(descriptor, most, "file") for most in (3, 10, 20)] == [
        b"789",
        b"0123456789",
        b"0123456789",
    ]
    os.close(descriptor)
