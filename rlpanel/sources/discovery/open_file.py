"""Chooses the reader for a rollout file by its suffix: lines, parquet, a zip file or a JSON document."""

from __future__ import annotations

from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.readers import eval_archive, parquet, whole_file
from rlpanel.sources.readers.compressed import CompressedFile
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.whole_file import DocumentFile


def open_file(file: RolloutFileInfo, reading: Reading) -> JsonlFile:
    """Return the reader of a rollout file without reading anything yet."""
    reader_class: type[JsonlFile] = JsonlFile
    if file.name.endswith(parquet.SUFFIX):
        reader_class = parquet.ParquetFile
    elif file.name.endswith(eval_archive.SUFFIX):
        reader_class = eval_archive.EvalArchive
    elif file.name.endswith(whole_file.SUFFIX):
        reader_class = DocumentFile
    elif file.name.endswith(SUFFIXES):
        reader_class = CompressedFile
    return reader_class(file.path, file.name, file.adapter, reading.line_bytes)
