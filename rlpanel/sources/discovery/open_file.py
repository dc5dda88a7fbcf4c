"""From a found file to its reader: which container holds its lines."""

from __future__ import annotations

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Found
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.readers import parquet
from rlpanel.sources.readers.compressed import CompressedFile
from rlpanel.sources.readers.jsonl import JsonlFile


def open_file(found: Found, reading: Reading) -> JsonlFile:
    """The reader of a rollout file; nothing is read yet."""
    kind: type[JsonlFile] = JsonlFile
    if found.name.endswith(parquet.SUFFIX):
        kind = parquet.ParquetFile
    elif found.name.endswith(SUFFIXES):
        kind = CompressedFile
    return kind(found.path, found.name, found.adapter, reading.line_bytes)
