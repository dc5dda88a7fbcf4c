"""Recognizes the containers of audio and video that are served, by their first bytes only."""

from __future__ import annotations

#: Bytes from a file's start that `content_type` needs.
HEAD = 64
#: Formats of MPEG audio frames: version bits 3 and 2 with layer bits 1 are MP3.
_MP3_SYNC = frozenset({0xFA, 0xFB, 0xF2, 0xF3, 0xE2, 0xE3})


def content_type(head: bytes, kind: str) -> str | None:
    """Return the Content-Type of a medium; None if its container is none of those that are played.

    Parameters
    ----------
    head : bytes
        The first `HEAD` bytes of the file, or all of a smaller one.
    kind : str
        ``audio`` or ``video``, as the log names it; three containers may hold either.
    """
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[:4] == b"fLaC":
        return "audio/flac"
    if _is_tagged_mp3(head) or _is_mp3(head):
        return "audio/mpeg"
    if head[:5] == b"OggS\x00":
        return f"{kind}/ogg"
    if head[4:8] == b"ftyp" and 8 <= int.from_bytes(head[:4], "big") <= 4096:
        return f"{kind}/mp4"
    if head[:4] == b"\x1a\x45\xdf\xa3" and b"\x42\x82\x84webm" in head:
        return f"{kind}/webm"
    return None


def _is_tagged_mp3(head: bytes) -> bool:
    """Return True for the ID3 tag before MP3 frames: versions 2.2 to 2.4."""
    return head[:3] == b"ID3" and head[3:5] in (b"\x02\x00", b"\x03\x00", b"\x04\x00")


def _is_mp3(head: bytes) -> bool:
    """Return True for the header of an MP3 frame: sync, a known bit rate and a known sampling rate."""
    if len(head) < 4 or head[0] != 0xFF or head[1] not in _MP3_SYNC:
        return False
    return 0 < head[2] >> 4 < 15 and (head[2] >> 2) & 3 != 3
