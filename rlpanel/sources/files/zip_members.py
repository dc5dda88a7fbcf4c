"""Lists and reads the members of a zip file without trusting what it declares.

The directory is checked before any member is read: the number of members, their sizes, how much they grow
when they are unpacked, and that they do not overlap. A member is unpacked in memory, never beyond the size
that it declares, and its checksum is compared. Nothing is written, so names are only names. Members may be
stored, deflated or compressed with zstd, which Python's own module reads from 3.14 on only.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from rlpanel.errors import SourceDamaged, SourceUnready
from rlpanel.sources.files.file_access import Readable
from rlpanel.zstd import zstd

#: Bytes with which a zip file begins, unless it is empty.
MAGIC = b"PK\x03\x04"
#: Most members, and most bytes of their directory.
MAX_MEMBERS, _MAX_DIRECTORY = 100_000, 64 << 20
#: More than this many bytes are refused if they take less than 1/256 of that in the file.
_SMALL_BYTES, _MAX_RATIO = 32 << 20, 256
_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_ENCRYPTED = 1
_END, _END64, _LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_BYTES, _COMMENT = 22, 0xFFFF
_ENTRY, _ENTRY_BYTES = b"PK\x01\x02", 46
_LOCAL_BYTES = 30
_UNKNOWN = 0xFFFFFFFF


class Member(NamedTuple):
    """A member of a zip file, as its directory declares it.

    Attributes
    ----------
    name : str
    offset : int
        Offset of its header in the file.
    packed, size : int
        Bytes in the file, and bytes when it is unpacked.
    checksum, method, flags : int
    """

    name: str
    offset: int
    packed: int
    size: int
    checksum: int
    method: int
    flags: int


def list_members(file: Readable, size: int) -> list[Member]:
    """Return the members in the order of their places; of members with the same name the last one.

    Parameters
    ----------
    file : Readable
        An open file.
    size : int
        Its size in bytes.

    Raises
    ------
    SourceUnready
        If the file is incomplete, is not a zip file, or exceeds a limit.
    OSError
        If it cannot be read.
    """
    count, length, start = _end(file, size)
    if count > MAX_MEMBERS:
        raise SourceUnready(f"has {count:,} members; the limit is {MAX_MEMBERS:,}")
    if length > _MAX_DIRECTORY:
        raise SourceUnready(f"has a directory of {length:,} bytes; the limit is {_MAX_DIRECTORY:,}")
    if start + length > size:
        raise _damaged("its directory is beyond the end")
    members = _entries(file.read(length, start), count)
    _check_sizes(members, size, start)
    newest = {member.name: member for member in members}
    return sorted(newest.values(), key=lambda member: member.offset)


def read_member(file: Readable, member: Member) -> bytes:
    """Return the unpacked bytes of a member of an open file.

    Raises
    ------
    SourceDamaged
        If it has other bytes than its directory declares, or is packed in an unknown way.
    OSError
        If the file cannot be read.
    """
    header = file.read(_LOCAL_BYTES, member.offset)
    if len(header) < _LOCAL_BYTES or header[:4] != MAGIC:
        raise SourceDamaged(f"{_shown(member.name)} has no header at byte {member.offset:,}")
    if member.flags & _ENCRYPTED:
        raise SourceDamaged(f"{_shown(member.name)} is encrypted")
    name, extra = struct.unpack("<HH", header[26:30])
    packed = file.read(member.packed, member.offset + _LOCAL_BYTES + name + extra)
    try:
        plain = _unpack(packed, member)
    except (zlib.error, zstd.ZstdError, EOFError) as error:
        raise SourceDamaged(f"{_shown(member.name)} is damaged ({error})") from error
    if len(packed) != member.packed or len(plain) != member.size or zlib.crc32(plain) != member.checksum:
        raise SourceDamaged(f"{_shown(member.name)} has other bytes than the directory declares")
    return plain


def _unpack(packed: bytes, member: Member) -> bytes:
    """Return at most one byte more than a member declares."""
    most = member.size + 1
    if member.method == _STORED:
        return packed[:most]
    if member.method == _DEFLATED:
        return zlib.decompressobj(wbits=-15).decompress(packed, most)
    if member.method != _ZSTD:
        raise SourceDamaged(f"{_shown(member.name)} is packed by method {member.method}, which is not read")
    parts, got = [], 0
    while packed and got < most:  # a long member has several frames
        frame = zstd.ZstdDecompressor()
        while got < most and not frame.eof:
            part = frame.decompress(packed, most - got)
            packed = b""
            if not part and frame.needs_input:
                return b"".join(parts)
            parts.append(part)
            got += len(part)
        packed = frame.unused_data
    return b"".join(parts)


def _end(file: Readable, size: int) -> tuple[int, int, int]:
    """Return the number of members, and the length and place of the directory."""
    first = max(0, size - _END_BYTES - _COMMENT)
    tail = file.read(size - first, first)
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < _END_BYTES:
        raise _damaged("it has no directory at its end")
    count, length, start = struct.unpack("<HII", tail[place + 10 : place + 20])
    locator = file.read(20, first + place - 20) if first + place >= 20 else b""
    if locator[:4] == _LOCATOR64:
        (offset,) = struct.unpack("<Q", locator[8:16])
        if offset + 56 > size:
            raise _damaged("the place of its directory is beyond the end")
        record = file.read(56, offset)
        if record[:4] != _END64 or len(record) < 56:
            raise _damaged("it has no directory where it should be")
        count, length, start = struct.unpack("<QQQ", record[32:56])
    return count, length, start


def _entries(directory: bytes, count: int) -> list[Member]:
    """Return the members that a directory declares."""
    members: list[Member] = []
    at = 0
    while len(members) < count:
        entry = directory[at : at + _ENTRY_BYTES]
        if len(entry) < _ENTRY_BYTES or entry[:4] != _ENTRY:
            raise _damaged(f"its directory has {len(members):,} of {count:,} members")
        flags, method = struct.unpack("<HH", entry[8:12])
        checksum, packed, size, name, extra, comment = struct.unpack("<IIIHHH", entry[16:34])
        (offset,) = struct.unpack("<I", entry[42:46])
        text = directory[at + _ENTRY_BYTES : at + _ENTRY_BYTES + name]
        more = directory[at + _ENTRY_BYTES + name : at + _ENTRY_BYTES + name + extra]
        size, packed, offset = _wide(more, size, packed, offset)
        members.append(Member(text.decode("utf-8", "replace"), offset, packed, size, checksum, method, flags))
        at += _ENTRY_BYTES + name + extra + comment
    return members


def _wide(extra: bytes, *numbers: int) -> tuple[int, ...]:
    """Return numbers with those of the extra field in the place of those that need more than 32 bits."""
    at, values = 0, list(numbers)
    while at + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1:
            wide = extra[at + 4 : at + 4 + length]
            for index, number in enumerate(values):
                if number == _UNKNOWN and len(wide) >= 8:
                    (values[index],) = struct.unpack("<Q", wide[:8])
                    wide = wide[8:]
        at += 4 + length
    return tuple(values)


def _check_sizes(members: list[Member], size: int, directory: int) -> None:
    """Raise SourceUnready if members overlap, lie outside of the file or grow as those of no log do."""
    end = 0
    for member in sorted(members, key=lambda member: member.offset):
        if member.offset < end:
            raise SourceUnready("is not read: its members overlap")
        end = member.offset + _LOCAL_BYTES + member.packed
        if end > directory:
            raise _damaged("a member is beyond the end")
    total = sum(member.size for member in members)
    if total > _SMALL_BYTES and total > size * _MAX_RATIO:
        raise SourceUnready(
            f"is not read: it grows {total // max(size, 1):,}-fold when unpacked, unlike any log"
        )


def _damaged(reason: str) -> SourceUnready:
    return SourceUnready(f"is incomplete or damaged ({reason})")


def _shown(name: str) -> str:
    return repr(name[:80])
