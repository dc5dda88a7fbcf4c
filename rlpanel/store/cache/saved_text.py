"""Small files beside the saved columns of a run, for what is shown before the run is opened.

The first line of such a file is a checksum of the rest: a damaged file counts as missing.
"""

from __future__ import annotations

from contextlib import suppress

import xxhash

from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.cache.cache_folder import find_cache_folders, read_saved
from rlpanel.store.cache.run_cache import MANIFEST

#: Maximum number of bytes of such a file.
MAX_BYTES = 1 << 16
#: Files of older versions, which are removed.
_OLD_FILES = ("facts", "findings", "checks")


def read_saved_text(run: AnyPath, name: str) -> str:
    """Return the text of a file in a run's cache folder; empty if it is missing, damaged or too long."""
    for location in find_cache_folders(run):
        with suppress(OSError), location.open() as folder:
            checksum, _, body = read_saved(folder, name, MAX_BYTES).decode("utf-8", "replace").partition("\n")
            if checksum == _checksum(body):
                return body
    return ""


def save_text(run: AnyPath, name: str, text: str) -> bool:
    """Write a small file beside the saved columns of a run; False if no columns are saved.

    No folder is created: a run that is too small to be saved stays as it is. A file of more than
    `MAX_BYTES` is not written. Files of older versions are removed.
    """
    body = text.encode("utf-8", "replace").decode()
    data = f"{_checksum(body)}\n{body}".encode()
    for location in find_cache_folders(run):
        with suppress(OSError), location.open() as folder:
            if len(data) <= MAX_BYTES and _holds_columns(folder):
                folder.replace(name, data)
                for old in _OLD_FILES:
                    with suppress(OSError):
                        folder.remove(old)
                return True
    return False


def _checksum(body: str) -> str:
    return xxhash.xxh3_64_hexdigest(body.encode())


def _holds_columns(folder: SafeFolder) -> bool:
    """Return True if rlpanel, run by this user, saved columns in a folder."""
    return folder.is_marked and folder.status(MANIFEST) is not None
