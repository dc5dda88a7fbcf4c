"""Audio and video of a sample that a browser may be given: found, and in a container that is known.

Recognizes the containers of audio and video that are served, by their first bytes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.records.embedded_media import Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import MediumTooLarge, MediumUnavailable, OpenMedium, open_medium
from rlpanel.store.snapshot.snapshot import Snapshot

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


@dataclass(frozen=True)
class PlayableMedium:
    """Audio or video that was checked, and can be opened again.

    Attributes
    ----------
    kind : str
        ``audio`` or ``video``.
    content_type : str
        That of its container.
    find : callable
        Opens the medium anew.
    """

    kind: str
    content_type: str
    find: Callable[[], OpenMedium]

    @contextmanager
    def opened(self) -> Iterator[OpenMedium]:
        """Open the medium, whose container is checked again: a file may have changed.

        Raises
        ------
        MediumUnavailable
            If it is gone, or no longer in a container of this type.
        """
        medium = self.find()
        try:
            if _checked_type(medium, self.kind) != self.content_type:
                raise MediumUnavailable(f"the {self.kind} has changed")
            yield medium
        finally:
            medium.close()


def playable(index: RunIndex, snapshot: Snapshot, uid: str, medium: Medium) -> PlayableMedium:
    """Check that a medium of a sample can be played.

    Raises
    ------
    MediumUnavailable
        If it cannot be read, or its container is not known.
    """
    row, kind = snapshot.row(uid), medium["kind"]
    find = partial(open_medium, index, snapshot.file(row), snapshot.locator(row), medium)
    opened = find()
    try:
        return PlayableMedium(kind, _checked_type(opened, kind), find)
    finally:
        opened.close()


def media_bytes(
    index: RunIndex, snapshot: Snapshot, uid: str, medium: Medium, most: int
) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a small medium. The bytes that are returned are checked.

    Raises
    ------
    SourceChanged
        If the file has another line there now.
    MediumTooLarge
        If it has more than ``most`` bytes. No more than its head is read then.
    MediumUnavailable
        If it cannot be read, or its container is not known.
    """
    row, kind = snapshot.row(uid), medium["kind"]
    opened = open_medium(index, snapshot.file(row), snapshot.locator(row), medium)
    try:
        _checked_type(opened, kind)
        if opened.size > most:
            raise MediumTooLarge(f"the {kind} is larger than {most:,} bytes", opened.size)
        data = _read(opened, opened.size, kind)
        return _container(data[:HEAD], kind), data
    finally:
        opened.close()


def _checked_type(opened: OpenMedium, kind: str) -> str:
    return _container(_read(opened, HEAD, kind), kind)


def _read(opened: OpenMedium, length: int, kind: str) -> bytes:
    try:
        return opened.read(length, 0)
    except OSError as error:
        raise MediumUnavailable(f"the {kind} cannot be read: {reason_of(error)}") from error


def _container(head: bytes, kind: str) -> str:
    """Return the Content-Type of a container. Raises MediumUnavailable if it is not known."""
    found = content_type(head, kind)
    if found is None:
        raise MediumUnavailable(f"the {kind} is in none of the containers WAV, MP3, Ogg, FLAC, MP4 and WebM")
    return found


def where_it_is(medium: Mapping[str, Any]) -> str:
    """Return a sentence on where a person finds a medium that is not played."""
    if "url" in medium:
        return f"The log names the file {medium['url'][:200]}."
    return "Its bytes are in the sample's line." if "key" in medium else "The log does not contain it."
