"""Reads Trackio's traces: rows of the table ``traces`` in ``{project}.db`` or ``{project}_traces.parquet``.

A row is a conversation with a step; ``messages`` and ``metadata`` are JSON texts. The runs of a project share
the file: ``trackio_run`` is the name of a row's run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.fields import build_record
from rlpanel.sources.records.json_parser import to_python
from rlpanel.sources.records.record_types import Record
from rlpanel.sources.records.tool_calls import parsed_text

_ROW = frozenset({"run_name", "step", "key", "messages", "metadata"})
#: Columns of the table that are read in another way, or repeat what others hold.
_OWN = _ROW | {"id", "run_id", "search_text", "log_id", "space_id", "timestamp", "trace_index", "spans"}


class Trackio:
    """Adapter for Trackio's traces."""

    name = "Trackio"
    looks = "{project}.db or {project}_traces.parquet with 'run_name', 'messages' and 'metadata' (Trackio)"
    table_columns = ("run_name", "messages", "metadata")

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if the row is a trace."""
        return document.keys() >= _ROW

    def read(self, document: Mapping[str, Any], path: str, *, full: bool) -> list[Record]:
        """Read the row's only sample."""
        row = {key: to_python(value) for key, value in document.items()}
        messages = parsed_text(row.get("messages"))
        if not isinstance(messages, list):
            raise LineError("'messages' is not a list of chat messages")
        return [build_record(row.get("step"), _fields(row, messages), path, full=full)]


def _fields(row: Mapping[str, Any], messages: list[Any]) -> Iterator[tuple[str, Any]]:
    yield "messages", messages
    metadata = parsed_text(row.get("metadata"))
    if isinstance(metadata, Mapping):
        yield from ((key, value) for key, value in metadata.items() if key not in ("messages", "step"))
    yield "trackio_run", row["run_name"]
    yield "trace_key", row["key"]
    yield from ((key, value) for key, value in row.items() if key not in _OWN)
