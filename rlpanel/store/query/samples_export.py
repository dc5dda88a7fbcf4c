"""Samples as a file to take away: CSV, JSON lines or parquet, made piece by piece."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.compute import text_columns
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.csv_export import csv_text
from rlpanel.store.query.fetch import fetch_texts
from rlpanel.store.query.notes import Notes
from rlpanel.store.query.sample_line import plain
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Samples whose texts are read at a time.
PIECE_ROWS = 500


class ExportFormat(NamedTuple):
    """A kind of file: its ending, what browsers call it, and how frames become its bytes."""

    ending: str
    media: str
    write: Callable[[Iterator[pd.DataFrame]], Iterator[bytes]]


class ExportPart(NamedTuple):
    """Some bytes of the file, and how much of the samples is in by then, between 0 and 1."""

    data: bytes
    done: float


def export_parts(
    index: RunIndex, view: RunView, rows: np.ndarray, notes: Notes, kind: str
) -> Iterator[ExportPart]:
    """The file of these samples, in their order: place, labels, numbers, tags, texts and measures of them.

    Parameters
    ----------
    kind : str
        A key of `FORMATS`.
    """
    read = 0

    def frames() -> Iterator[pd.DataFrame]:
        nonlocal read
        for start in range(0, max(len(rows), 1), PIECE_ROWS):
            part = rows[start : start + PIECE_ROWS]
            read += len(part)
            yield _frame(index, view, part, notes)

    for data in FORMATS[kind].write(frames()):
        yield ExportPart(data, read / len(rows) if len(rows) else 1.0)


def available_formats() -> list[str]:
    """The kinds that this installation can write."""
    return [name for name in FORMATS if name != "parquet" or importlib.util.find_spec("pyarrow")]


def _frame(index: RunIndex, view: RunView, rows: np.ndarray, notes: Notes) -> pd.DataFrame:
    """A part of the table; the same columns and types in every part."""
    frame = view.frame(rows)
    left = [notes.of(uid) for uid in frame["uid"]]
    texts = [_texts(index, view.snapshot, row) for row in rows.tolist()]
    further: dict[str, list[str | None]] = {
        "tag": [note.tag or None for note in left],
        "note": [note.note or None for note in left],
    }
    further |= {name: [found.get(name) for found in texts] for name in schema.TEXTS}
    data: dict[str, Any] = {name: frame[name] for name in frame.columns}
    data |= {name: pd.Series(values, dtype=object) for name, values in further.items()}
    responses = np.array([found.get("response", "") for found in texts], object)
    return pd.DataFrame(data | text_columns(responses))


def _texts(index: RunIndex, snapshot: Snapshot, row: int) -> dict[str, str]:
    try:
        return fetch_texts(index, snapshot, row)
    except (RLPanelError, IndexError):  # its file was written anew; its numbers are still what they were
        return {}


def _csv(frames: Iterator[pd.DataFrame], *, raw: bool = False) -> Iterator[bytes]:
    for at, frame in enumerate(frames):
        yield csv_text(frame, raw=raw, header=at == 0).encode("utf-8", "replace")


def _jsonl(frames: Iterator[pd.DataFrame]) -> Iterator[bytes]:
    for frame in frames:
        lines = [json.dumps(plain(row), ensure_ascii=False) for row in frame.to_dict("records")]
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _parquet(frames: Iterator[pd.DataFrame]) -> Iterator[bytes]:
    import pyarrow
    from pyarrow import parquet

    buffer, told = io.BytesIO(), 0
    writer = None
    for frame in frames:
        fields = [(name, _arrow_type(frame[name], pyarrow)) for name in frame.columns]
        table = pyarrow.Table.from_pandas(frame, pyarrow.schema(fields), preserve_index=False)
        writer = writer or parquet.ParquetWriter(buffer, table.schema, compression="zstd")
        writer.write_table(table)
        yield bytes(buffer.getbuffer()[told:])
        told = buffer.tell()
    if writer is not None:
        writer.close()
    yield bytes(buffer.getbuffer()[told:])


def _arrow_type(values: pd.Series, pyarrow: Any) -> Any:
    """A column's type, the same where a part of it holds nothing."""
    if pd.api.types.is_integer_dtype(values):
        return pyarrow.int64()
    return pyarrow.float64() if pd.api.types.is_float_dtype(values) else pyarrow.string()


#: The first CSV is safe to open in a spreadsheet; all others hold texts as they were logged.
FORMATS: dict[str, ExportFormat] = {
    "CSV": ExportFormat("csv", "text/csv", _csv),
    "CSV, raw": ExportFormat("csv", "text/csv", partial(_csv, raw=True)),
    "JSONL": ExportFormat("jsonl", "application/jsonl", _jsonl),
    "parquet": ExportFormat("parquet", "application/vnd.apache.parquet", _parquet),
}
