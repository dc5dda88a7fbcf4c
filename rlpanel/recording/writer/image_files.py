"""Writes the images of rows to files beside the log, so that a line holds their paths, not their bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
from pathlib import Path
from typing import Any

from rlpanel.safe_files import SafeFolder

#: Folder of the images, below the run's folder.
FOLDER = "images"
_DATA_URL = "data:image/"
_SUFFIXES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"RIFF": "webp"}


def is_image(value: Any) -> bool:
    """Return True for a PIL image and for a text that is an image as a data URL."""
    if isinstance(value, str):
        return value.startswith(_DATA_URL)
    return hasattr(value, "save") and hasattr(value, "getbands")


class ImageFiles:
    """Image files of a run, named after a hash of their content: the same image is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def save(self, image: Any) -> str:
        """Write an image unless it was written before; return its path below the run's folder.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If a data URL is damaged.
        """
        content = _content(image)
        suffix = next((suffix for magic, suffix in _SUFFIXES.items() if content.startswith(magic)), "img")
        name = f"{hashlib.sha256(content).hexdigest()[:32]}.{suffix}"
        if name not in self._written:
            with SafeFolder.open(self._folder) as run, run.subfolder_to_write(FOLDER) as folder:
                if folder.status(name) is None:
                    folder.replace(name, content)
            self._written.add(name)
        return f"{FOLDER}/{name}"


def _content(image: Any) -> bytes:
    if isinstance(image, str):
        try:
            return base64.b64decode(image.partition(",")[2], validate=True)
        except binascii.Error as error:
            raise ValueError(f"an image's data URL is damaged: {error}") from error
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
