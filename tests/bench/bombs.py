"""Small compressed files that are enormous when decompressed, created without creating their contents.

Each function takes the path of a plain log and writes its file next to it, with its own suffix.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import zstandard

from tests.factories import line

GIGABYTES = 10
_BLOCK = 128 << 10


def blanks_in_a_frame(log: Path) -> None:
    """10 GB in a zstd frame, without a newline."""
    _beside(log, ".zst").write_bytes(zstandard.compress(line(1)) + _frame(b" ", GIGABYTES << 30))


def newlines_in_a_frame(log: Path) -> None:
    """10 GB of blank lines."""
    _beside(log, ".zst").write_bytes(zstandard.compress(line(1)) + _frame(b"\n", GIGABYTES << 30))


def blanks_in_a_member(log: Path) -> None:
    """10 GB in a gzip member, without a newline; gzip shrinks to a thousandth at most."""
    packer = zlib.compressobj(wbits=31)
    head = packer.compress(line(1)) + packer.flush(zlib.Z_FULL_FLUSH)
    # Data after a full flush does not refer to earlier data, so it can be repeated.
    megabyte = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    _beside(log, ".gz").write_bytes(head + megabyte * (GIGABYTES << 10))


def lines_in_frames(log: Path) -> None:
    """10 GB of valid lines, all the same."""
    good = line(1, ref_response="a" * 4000)
    frame = zstandard.compress(good * ((64 << 20) // len(good)))
    _beside(log, ".zst").write_bytes(frame * (GIGABYTES * 1024 // 64))


def _frame(byte: bytes, size: int) -> bytes:
    """Return a zstd frame of a repeated byte: a header for a window of 128 KB, then run-length blocks."""
    block = struct.pack("<I", _BLOCK << 3 | 1 << 1)[:3] + byte
    last = struct.pack("<I", _BLOCK << 3 | 1 << 1 | 1)[:3] + byte
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (size // _BLOCK - 1) + last


def _beside(log: Path, suffix: str) -> Path:
    return log.with_name(log.name + suffix)
