"""Reads what ``torch.save`` wrote: a ZIP file with ``data.pkl`` and one uncompressed file for each storage.

Source: torch's ``torch/serialization.py``, ``_save`` (from torch 1.6 on). The older format is not read.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from typing import Any, BinaryIO

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.sources.pickles.plain_unpickler import PlainUnpickler, Storage, StorageType


def read_torch(file: BinaryIO) -> tuple[Any, Counter[str]]:
    """Return the content of a torch file or of a pickle, and how many objects were left out, by class.

    Parameters
    ----------
    file : binary file
        Open for reading, and seekable.

    Raises
    ------
    RLPanelError
        If the file is damaged, or has something else than plain values, arrays and tensors where it matters.
    """
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
        file.seek(0)
        reader = PlainUnpickler(file)
        return reader.load(), reader.left_out
    except (RLPanelError, MemoryError):
        raise
    except RecursionError as error:
        raise RLPanelError("it is nested too deeply") from error
    except Exception as error:  # a damaged pickle raises many kinds
        raise RLPanelError(f"it is no pickle of plain values: {str(error)[:160]}") from error


def _read(archive: zipfile.ZipFile) -> tuple[Any, Counter[str]]:
    names = {member.filename: member for member in archive.infolist()}
    found = [name for name in names if name.rpartition("/")[2] == "data.pkl"]
    if len(found) != 1:
        raise RLPanelError("it holds no data.pkl, as torch writes it")
    folder = found[0].removesuffix("data.pkl")
    order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in names else b"little"
    known: dict[str, Storage] = {}

    def storage(key: str, kind: StorageType, count: int) -> Storage:
        if key not in known:
            known[key] = Storage(_numbers(_stored(archive, f"{folder}data/{key}"), kind, count, order))
        return known[key]

    reader = PlainUnpickler(io.BytesIO(_stored(archive, found[0])), storage)
    return reader.load(), reader.left_out


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member's bytes; torch never compresses, so a compressed one may be a bomb."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        raise RLPanelError("a compressed part, which torch does not write")
    return archive.read(member)


def _numbers(raw: bytes, kind: StorageType, count: int, order: bytes) -> np.ndarray:
    """Return the values of a storage, shape (count,); bfloat16 becomes float32."""
    sign = ">" if order.strip() == b"big" else "<"
    if kind == "bfloat16":
        return (np.frombuffer(raw, f"{sign}u2", count).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, "?" if kind == "?" else f"{sign}{kind}", count)
