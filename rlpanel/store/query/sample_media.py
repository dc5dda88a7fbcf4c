"""Reads the media of a sample: embedded in its line, or files in the run's folder; never from a network.

A browser is given audio and video only in containers that are known, which are recognised by their first
bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from rlpanel.errors import RLPanelError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.records.chat_shapes import begins_as_messages
from rlpanel.sources.records.embedded_media import EMBEDDED_MARK, PLAYED, Image, Medium, embedded_key
from rlpanel.sources.records.record_types import Locator
from rlpanel.sources.records.tool_calls import parsed_text
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most bytes of an image, and of a medium that is embedded in its line; and of a file that is played.
MAX_BYTES, MAX_PLAYED = 32 << 20, 2 << 30
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Shorter texts are not embedded media.
_MIN_CHARS = 64


class MediumUnavailable(RLPanelError):
    """An image, audio or video cannot be shown; the message says why."""


class MediumTooLarge(MediumUnavailable):
    """A medium has more bytes than the caller takes.

    Parameters
    ----------
    message : str
    size : int
        Bytes of the medium.
    """

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


@dataclass(frozen=True)
class OpenMedium:
    """A medium whose bytes can be read; not for several threads at once.

    Attributes
    ----------
    size : int
        In bytes.
    read : callable
        Takes a number of bytes and an offset and returns these bytes, fewer at the end; OSError if it fails.
    close : callable
    """

    size: int
    read: Callable[[int, int], bytes]
    close: Callable[[], None] = lambda: None


def image_bytes(
    index: RunIndex, snapshot: Snapshot, uid: str, image: Image, line: bytes | None = None
) -> bytes:
    """Return the bytes of an image as they were logged, not decoded; see `open_medium`.

    Raises
    ------
    SourceChanged
        If the file has another line there now.
    MediumUnavailable
        If the image is on another machine, outside of the run's folder, too large, or gone.
    """
    row = snapshot.row(uid)
    opened = open_medium(index, snapshot.file(row), snapshot.locator(row), image, line)
    try:
        return opened.read(opened.size, 0)
    except OSError as error:
        raise MediumUnavailable(f"the image cannot be read: {reason_of(error)}") from error
    finally:
        opened.close()


def open_medium(
    index: RunIndex, log_file: str, locator: Locator, medium: Image | Medium, line: bytes | None = None
) -> OpenMedium:
    """Open an image, audio or video of a sample, which is read from the line or from a file below the run.

    Parameters
    ----------
    index : RunIndex
    log_file : str
        The file with the sample's line, below the run's folder.
    locator : Locator
        Place of the line.
    medium : Image or Medium
    line : bytes, optional
        The line, if the caller has read it.

    Raises
    ------
    SourceChanged
        If the file has another line there now.
    MediumUnavailable
        If it is on another machine, outside of the run's folder, too large, or gone.
    """
    kind = str(medium.get("kind", "image"))
    if "key" in medium:
        data = _embedded(index.reader(log_file).raw(locator) if line is None else line, medium["key"], kind)
        return OpenMedium(len(data), lambda length, offset: data[offset : offset + length])
    if "url" in medium:
        return _in_folder(index, log_file, medium["url"], kind)
    raise MediumUnavailable(f"the log does not contain the {kind}")


def _embedded(line: bytes, key: str, kind: str) -> bytes:
    """Find the text of an embedded medium in the sample's line."""
    for text in _texts(json.loads(line)):
        if len(text) >= _MIN_CHARS and embedded_key(text) == key:
            return _decoded(text, kind)
    raise MediumUnavailable(f"the line does not contain the {kind} any more")


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value; JSON and Python's notation inside of a text are searched as well."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            if EMBEDDED_MARK in item or begins_as_messages(item):
                inner = parsed_text(item)
                waiting += [] if isinstance(inner, str) else [inner]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, Mapping):
            waiting += item.values()


def _decoded(text: str, kind: str) -> bytes:
    data = text.partition(",")[2] if text.startswith("data:") else text
    if len(data) > MAX_BYTES * 4 // 3:
        raise MediumUnavailable(f"the {kind} is larger than {MAX_BYTES >> 20} MB")
    try:
        return base64.b64decode(data.translate(_URL_SAFE))
    except (binascii.Error, ValueError) as error:
        raise MediumUnavailable(f"the {kind}'s base64 is damaged") from error


_URL_SAFE = str.maketrans("-_", "+/")


def _in_folder(index: RunIndex, log_file: str, address: str, kind: str) -> OpenMedium:
    """Open a file below the run's folder; the address is relative to the log file or to the folder."""
    if address.startswith("file://"):
        address = unquote(urlsplit(address).path)
    elif _SCHEME.match(address):
        raise MediumUnavailable(f"the {kind} is on another machine: {address[:200]}")
    folder = str(index.path)
    if address.startswith(folder.rstrip("/") + "/"):
        address = address[len(folder.rstrip("/")) + 1 :]
    beside = PurePosixPath(log_file).parent
    problem: Exception = FileNotFoundError(address)
    for relative in dict.fromkeys((beside / address, PurePosixPath(address))):
        parts = relative.parts
        if relative.is_absolute() or ".." in parts or not parts:
            raise MediumUnavailable(f"the {kind} is outside of the run's folder: {address[:200]}")
        try:
            return _bounded(_open(folder, parts), kind)
        except (OSError, UnsafePath) as error:
            problem = error
    reason = reason_of(problem) if isinstance(problem, OSError) else str(problem)
    raise MediumUnavailable(f"the {kind} cannot be read: {address[:200]}: {reason}") from problem


def _open(folder: str, parts: tuple[str, ...]) -> OpenMedium:
    """Open a file below a folder without following links."""
    if file_access.is_remote(folder):
        path = "/".join((folder, *parts))
        return OpenMedium(
            file_access.stat(path).st_size, lambda length, offset: file_access.read(path, length, offset)
        )
    opened = SafeFolder.named(folder)
    try:
        for name in parts[:-1]:
            inner = opened.subfolder(name)
            opened.close()
            opened = inner
        descriptor = opened.open_to_read(parts[-1])
    finally:
        opened.close()
    return OpenMedium(
        os.fstat(descriptor).st_size,
        lambda length, offset: os.pread(descriptor, length, offset),
        lambda: os.close(descriptor),
    )


def _bounded(opened: OpenMedium, kind: str) -> OpenMedium:
    most = MAX_PLAYED if kind in PLAYED else MAX_BYTES
    if opened.size > most:
        opened.close()
        raise MediumUnavailable(f"the {kind} is larger than {most >> 20:,} MB")
    return opened


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
