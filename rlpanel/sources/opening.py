"""From a found file to its reader: which container holds its lines."""

from __future__ import annotations

from rlpanel.settings import Reading
from rlpanel.sources import parquet
from rlpanel.sources.compressed import CompressedFile
from rlpanel.sources.directory import Found
from rlpanel.sources.inflate import SUFFIXES
from rlpanel.sources.jsonl import JsonlFile


def open_file(found: Found, reading: Reading) -> JsonlFile:
    """The reader of a rollout file; nothing is read yet."""
    kind: type[JsonlFile] = JsonlFile
    if found.name.endswith(parquet.SUFFIX):
        kind = parquet.ParquetFile
    elif found.name.endswith(SUFFIXES):
        kind = CompressedFile
    return kind(found.path, found.name, found.adapter, reading.line_bytes)
