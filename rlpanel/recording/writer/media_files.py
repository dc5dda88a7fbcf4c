"""Writes the media of rows to files beside the log, so that a line holds their paths, not their bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpanel.safe_files import SafeFolder

#: Folders of images, and of audio and video, below the run's folder.
IMAGES, PLAYED = "images", "media"
_DATA_URL = "data:image/"
_DATA_URLS = (_DATA_URL, "data:audio/", "data:video/")
#: First bytes of a file, or those from an offset → its suffix.
_SUFFIXES = (
    (0, b"\x89PNG", "png"),
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"GIF8", "gif"),
    (8, b"WEBP", "webp"),
    (8, b"WAVE", "wav"),
    (0, b"fLaC", "flac"),
    (0, b"OggS", "ogg"),
    (0, b"ID3", "mp3"),
    (4, b"ftyp", "mp4"),
    (0, b"\x1a\x45\xdf\xa3", "webm"),
)


def is_medium(value: Any) -> bool:
    """Return True for a PIL image, and for a data URL of an image, audio or video."""
    if isinstance(value, str):
        return value.startswith(_DATA_URLS)
    return hasattr(value, "save") and hasattr(value, "getbands")


def audio_url(part: Mapping[Any, Any]) -> str:
    """Return the audio of OpenAI's ``{"data": base64, "format": …}`` as a data URL; empty for all else."""
    if part.keys() != {"data", "format"} or not all(isinstance(value, str) for value in part.values()):
        return ""
    return part["data"] if part["data"].startswith("data:") else f"data:audio/x;base64,{part['data']}"


class MediaFiles:
    """Media files of a run, named after a hash of their content: the same medium is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def save(self, medium: Any) -> str:
        """Write a medium unless it was written before; return its path below the run's folder.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If a data URL is damaged.
        """
        content = _content(medium)
        is_image = not isinstance(medium, str) or medium.startswith(_DATA_URL)
        below, other = (IMAGES, "img") if is_image else (PLAYED, "bin")
        suffix = next((suffix for at, magic, suffix in _SUFFIXES if content.startswith(magic, at)), other)
        name = f"{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
        if name not in self._written:
            with SafeFolder.open(self._folder) as run, run.subfolder_to_write(below) as folder:
                if folder.status(name) is None:
                    folder.replace(name, content)
            self._written.add(name)
        return f"{below}/{name}"


def _content(medium: Any) -> bytes:
    if isinstance(medium, str):
        try:
            return base64.b64decode(medium.partition(",")[2], validate=True)
        except binascii.Error as error:
            raise ValueError(f"a data URL is damaged: {error}") from error
    buffer = io.BytesIO()
    medium.save(buffer, format="PNG")
    return buffer.getvalue()
