"""Reads the media of a sample: embedded in its line, or files in the run's folder; never from a network."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from rlpanel.errors import RLPanelError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.records.embedded_media import EMBEDDED_MARK, PLAYED, Image, Medium, embedded_key
from rlpanel.sources.records.record_types import Locator
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most bytes of an image, and of a medium that is embedded in its line; and of a file that is played.
MAX_BYTES, MAX_PLAYED = 32 << 20, 2 << 30
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Shorter texts are not embedded media.
_SHORTEST = 64


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
        if len(text) >= _SHORTEST and embedded_key(text) == key:
            return _decoded(text, kind)
    raise MediumUnavailable(f"the line does not contain the {kind} any more")


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value; JSON inside of a text is searched as well."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            if item[:1] in ("[", "{") and EMBEDDED_MARK in item:
                try:
                    waiting.append(json.loads(item))
                except (ValueError, RecursionError):
                    pass
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
