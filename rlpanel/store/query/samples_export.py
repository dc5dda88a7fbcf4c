"""Streaming export of samples as CSV, JSON lines or parquet.

Export one sample as a JSON line with texts, tokens and numbers, which rlpanel can read again.
"""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.metrics.engine.compute import text_columns
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import PLAYED
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.csv_text import csv_text
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.query.filter_columns import AnswerColumns, answer_columns
from rlpanel.store.query.notes_beside_log import Note, Notes
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.final_answers import AUTO


def sample_line(sample: Sample, note: Note) -> bytes:
    """Return the sample as a line of JSON in rlpanel's own format.

    Besides the logged fields it has ``columns`` (all numbers, including metrics), ``extra`` (unknown keys),
    ``from`` (file, line, uid), ``tag`` and ``note``. NaN and infinities become null.
    """
    names = [field.name for field in schema.FIELDS]
    logged = {name: getattr(sample, name, None) for name in names}
    content: dict[str, Any] = {name: value for name, value in logged.items() if not _is_missing(value)}
    if sample.messages:
        content["prompt_messages"] = sample.prompt_messages
    for kind in PLAYED:
        content[f"{kind}s"] = [medium for medium in sample.media if medium["kind"] == kind]
    content["judge_calls"] = [_filled(asdict(call)) for call in sample.judge_calls]
    content |= {"policy_version": sample.policy_versions, "timing": {**sample.timing, "spans": sample.spans}}
    content = {key: value for key, value in content.items() if key not in _OPTIONAL or _holds(value)}
    content |= {"columns": sample.columns, "extra": sample.extra, "notes": sample.notes}
    content["from"] = {"file": sample.file, "line": sample.line, "uid": sample.uid}
    content |= {"tag": note.tag, "note": note.note}
    return json.dumps(to_json_types(content), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


#: Fields that are left out if they are empty.
_OPTIONAL = frozenset(
    {"messages", "policy_version", "timing", "judge", "judge_calls", "verifier", *schema.MEDIA}
)


def _filled(call: dict[str, Any]) -> dict[str, Any]:
    """Return a judge's call as it is logged, without what is not known."""
    request = [{"role": role, "content": text} for role, text in call["request"]]
    call |= {"request": request}
    return {key: value for key, value in call.items() if not _is_missing(value) and value not in ("", [])}


def _holds(value: Any) -> bool:
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def to_json_types(value: Any) -> Any:
    """Convert a value to JSON types; NaN and infinities become None."""
    if isinstance(value, np.ndarray):
        return to_json_types(value.tolist())
    if isinstance(value, dict):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_types(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


#: Number of samples whose texts are read at a time.
PIECE_ROWS = 500


class ExportFormat(NamedTuple):
    """A file format: its suffix, its media type, and a function that turns frames into its bytes."""

    ending: str
    media: str
    write: Callable[[Iterator[pd.DataFrame]], Iterator[bytes]]


class ExportPart(NamedTuple):
    """A chunk of the file, and the share of samples written up to it, between 0 and 1."""

    data: bytes
    done: float


def export_parts(
    index: RunIndex,
    view: RunView,
    rows: np.ndarray,
    notes: Notes,
    kind: str,
    piece_rows: int = PIECE_ROWS,
    answer_rule: str = AUTO,
) -> Iterator[ExportPart]:
    """Yield the file of these samples in chunks: position, labels, numbers, notes, texts and text metrics.

    In a run with ground truths, the answers and whether they match follow the texts.

    Parameters
    ----------
    kind : str
        A key of `FORMATS`.
    piece_rows : int
        Number of samples whose texts are read at a time.
    answer_rule : str
        How answers are read, as in `rlpanel.store.query.query.QuerySpec`.
    """
    read = 0
    answers = answer_columns(index, view.snapshot, answer_rule)

    def frames() -> Iterator[pd.DataFrame]:
        nonlocal read
        for start in range(0, max(len(rows), 1), piece_rows):
            part = rows[start : start + piece_rows]
            read += len(part)
            yield _frame(index, view, part, notes, answers)

    for data in FORMATS[kind].write(frames()):
        yield ExportPart(data, read / len(rows) if len(rows) else 1.0)


def available_formats() -> list[str]:
    """Return the formats that this installation can write."""
    return [name for name in FORMATS if name != "parquet" or importlib.util.find_spec("pyarrow")]


def _frame(
    index: RunIndex, view: RunView, rows: np.ndarray, notes: Notes, answers: AnswerColumns
) -> pd.DataFrame:
    """Return a part of the table; all parts have the same columns and types."""
    frame = view.frame(rows)
    notes_of_rows = [notes.of(uid) for uid in frame["uid"]]
    # If the file was rewritten, the rows' numbers are still valid.
    texts = [texts or {} for texts in fetch_all_texts(index, view.snapshot, rows)]
    added: dict[str, list[str | None]] = {
        "tag": [note.tag or None for note in notes_of_rows],
        "note": [note.note or None for note in notes_of_rows],
    }
    added |= {name: [row.get(name) for row in texts] for name in schema.TEXTS}
    if answers.chosen is not None:
        found = [answers.read(row) for row in texts]
        added |= {name: [row.get(name) for row in found] for name in answers.names}
    data: dict[str, Any] = {name: frame[name] for name in frame.columns}
    data |= {name: pd.Series(values, dtype=object) for name, values in added.items()}
    responses = np.array([row.get("response", "") for row in texts], object)
    return pd.DataFrame(data | text_columns(responses))


def _csv(frames: Iterator[pd.DataFrame], *, raw: bool = False) -> Iterator[bytes]:
    for number, frame in enumerate(frames):
        yield csv_text(frame, raw=raw, header=number == 0).encode("utf-8", "replace")


def _jsonl(frames: Iterator[pd.DataFrame]) -> Iterator[bytes]:
    for frame in frames:
        lines = [json.dumps(to_json_types(row), ensure_ascii=False) for row in frame.to_dict("records")]
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _parquet(frames: Iterator[pd.DataFrame]) -> Iterator[bytes]:
    import pyarrow
    from pyarrow import parquet

    buffer, sent = io.BytesIO(), 0
    writer = None
    for frame in frames:
        fields = [(name, _arrow_type(frame[name], pyarrow)) for name in frame.columns]
        table = pyarrow.Table.from_pandas(frame, pyarrow.schema(fields), preserve_index=False)
        writer = writer or parquet.ParquetWriter(buffer, table.schema, compression="zstd")
        writer.write_table(table)
        yield bytes(buffer.getbuffer()[sent:])
        sent = buffer.tell()
    if writer is not None:
        writer.close()
    yield bytes(buffer.getbuffer()[sent:])


def _arrow_type(values: pd.Series, pyarrow: Any) -> Any:
    """Return a column's type, which must be the same in parts without any value."""
    if pd.api.types.is_integer_dtype(values):
        return pyarrow.int64()
    return pyarrow.float64() if pd.api.types.is_float_dtype(values) else pyarrow.string()


#: "CSV" is safe to open in a spreadsheet; the other formats contain the texts as logged.
FORMATS: dict[str, ExportFormat] = {
    "CSV": ExportFormat("csv", "text/csv", _csv),
    "CSV, raw": ExportFormat("csv", "text/csv", partial(_csv, raw=True)),
    "JSONL": ExportFormat("jsonl", "application/jsonl", _jsonl),
    "parquet": ExportFormat("parquet", "application/vnd.apache.parquet", _parquet),
}
