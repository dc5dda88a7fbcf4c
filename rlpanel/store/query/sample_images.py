"""Reads the images of a sample: embedded in its line, or files in the run's folder; never from a network."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from rlpanel.errors import RLPanelError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files import file_access
from rlpanel.sources.files.unreadable import reason_of
from rlpanel.sources.records.messages import Image, embedded_key
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most bytes of an image file.
MOST_BYTES = 32 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Shorter texts are not embedded images.
_SHORTEST = 64


class ImageUnavailable(RLPanelError):
    """An image cannot be shown; the message says why."""


def image_bytes(index: RunIndex, snapshot: Snapshot, uid: str, image: Image) -> bytes:
    """Return the bytes of an image as they were logged, not decoded.

    Raises
    ------
    ImageUnavailable
        If the image is on another machine, outside of the run's folder, too large, or gone.
    """
    row = snapshot.row(uid)
    if "key" in image:
        return _embedded(index, snapshot, row, image["key"])
    if "url" in image:
        return _from_file(index, snapshot.file(row), image["url"])
    raise ImageUnavailable("the log does not contain the image")


def _embedded(index: RunIndex, snapshot: Snapshot, row: int, key: str) -> bytes:
    """Find the text of an embedded image in the sample's line."""
    raw = getattr(index.reader(snapshot.file(row)), "raw", None)
    if raw is None:
        raise ImageUnavailable("embedded images of this format cannot be read")
    for text in _texts(json.loads(raw(snapshot.locator(row)))):
        if len(text) >= _SHORTEST and embedded_key(text) == key:
            return _decoded(text)
    raise ImageUnavailable("the line does not contain the image any more")


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value; JSON inside of a text is searched as well."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            if item[:1] in ("[", "{") and ";base64," in item:
                try:
                    waiting.append(json.loads(item))
                except (ValueError, RecursionError):
                    pass
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, Mapping):
            waiting += item.values()


def _decoded(text: str) -> bytes:
    data = text.partition(",")[2] if text.startswith("data:") else text
    if len(data) > MOST_BYTES * 4 // 3:
        raise ImageUnavailable(f"the image is larger than {MOST_BYTES >> 20} MB")
    try:
        return base64.b64decode(data.translate(_URL_SAFE))
    except (binascii.Error, ValueError) as error:
        raise ImageUnavailable("the image's base64 is damaged") from error


_URL_SAFE = str.maketrans("-_", "+/")


def _from_file(index: RunIndex, log_file: str, address: str) -> bytes:
    """Read an image file below the run's folder; the address is relative to the log file or to the folder."""
    if address.startswith("file://"):
        address = unquote(urlsplit(address).path)
    elif _SCHEME.match(address):
        raise ImageUnavailable(f"the image is on another machine: {address[:200]}")
    folder = str(index.path)
    if address.startswith(folder.rstrip("/") + "/"):
        address = address[len(folder.rstrip("/")) + 1 :]
    beside = PurePosixPath(log_file).parent
    problem: Exception = FileNotFoundError(address)
    for relative in dict.fromkeys((beside / address, PurePosixPath(address))):
        parts = relative.parts
        if relative.is_absolute() or ".." in parts or not parts:
            raise ImageUnavailable(f"the image is outside of the run's folder: {address[:200]}")
        try:
            return _read(folder, parts)
        except (OSError, UnsafePath) as error:
            problem = error
    reason = reason_of(problem) if isinstance(problem, OSError) else str(problem)
    raise ImageUnavailable(f"the image cannot be read: {address[:200]}: {reason}") from problem


def _read(folder: str, parts: tuple[str, ...]) -> bytes:
    """Read a file below a folder without following links."""
    if "://" in folder:
        return _bounded(file_access.read("/".join((folder, *parts)), MOST_BYTES + 1, 0))
    opened = SafeFolder.named(folder)
    try:
        for name in parts[:-1]:
            inner = opened.subfolder(name)
            opened.close()
            opened = inner
        descriptor = opened.open_to_read(parts[-1])
    finally:
        opened.close()
    with os.fdopen(descriptor, "rb") as file:
        return _bounded(file.read(MOST_BYTES + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise ImageUnavailable(f"the image is larger than {MOST_BYTES >> 20} MB")
    return data
