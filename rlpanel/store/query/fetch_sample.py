"""Read one complete sample back from its file, by the locator of its row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.errors import SourceChanged
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.metrics.engine.derived_arrays import derived_of_sample
from rlpanel.schema import Sample
from rlpanel.sources.records.agent_fields import AgentFields
from rlpanel.sources.records.record_types import Locator, Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


def fetch_record(index: RunIndex, snapshot: Snapshot, row: int) -> Record:
    """Read the record of a row from its file; SourceChanged if the file has changed."""
    return index.reader(snapshot.file(row)).fetch(snapshot.locator(row))


def fetch_texts(index: RunIndex, snapshot: Snapshot, row: int) -> dict[str, str]:
    """Read only the texts of a row from its file, as `fetch_record` does."""
    return index.reader(snapshot.file(row)).texts(snapshot.locator(row))


def fetch_many_texts(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray
) -> Iterator[dict[str, str] | None]:
    """Yield the texts of rows, or None where the line cannot be read any more.

    A file is opened once for consecutive rows of it, so rows in the order of the files are read fastest.
    """
    columns = [snapshot.metadata(name)[rows] for name in ("file", "offset", "length", "part", "hash")]
    file, offset, length, part, digest = (column.tolist() for column in columns)
    places = zip(file, offset, length, snapshot.lines(rows).tolist(), part, digest, strict=True)
    for number, group in groupby(places, key=lambda place: place[0]):
        reader = index.reader(snapshot.files[number])
        yield from reader.many_texts(Locator(*place[1:]) for place in group)


def file_order(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the positions of ``rows`` in the order in which the files hold them, shape (N,)."""
    return np.lexsort([snapshot.metadata(name)[rows] for name in ("part", "offset", "file")])


def fetch_all_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[dict[str, str] | None]:
    """Return what `fetch_many_texts` yields, in the order of ``rows``, but open each file once."""
    order = file_order(snapshot, rows)
    texts = dict(zip(order.tolist(), fetch_many_texts(index, snapshot, rows[order]), strict=True))
    return [texts[position] for position in range(len(rows))]


def fetch(index: RunIndex, view: RunView, row: int) -> Sample:
    """Read the sample of a row from its file."""
    snapshot = view.snapshot
    try:
        record = fetch_record(index, snapshot, row)
    except IndexError as error:
        raise SourceChanged(
            f"{snapshot.uid(row)}: its line now holds fewer samples than when it was indexed"
        ) from error
    numbers = {name: float(snapshot.number(name)[row]) for name in snapshot.numbers}
    numbers.update({alias: numbers[name] for alias, name in ALIASES.items() if name in numbers})
    values: dict[str, Any] = {name: record.numbers[name] for name in schema.NUMBERS if name in record.numbers}
    values.update({name: record.labels[name] for name in schema.LABELS if name in record.labels})
    values.update(record.texts)
    values.update({name: array for name, array in record.arrays.items() if name in schema.ARRAYS})
    if record.agent is not None:
        values |= _agent_values(record.agent)
    numbers |= {name: float(view.values(name, np.array([row]))[0]) for name in view.derived}
    locator = snapshot.locator(row)
    return Sample(
        uid=snapshot.uid(row),
        step=record.step,
        rank=int(snapshot.metadata("rank")[row]),
        file=snapshot.file(row),
        line=locator.line,
        offset=locator.offset,
        response_tokens=record.tokens,
        messages=record.messages,
        prompt_messages=record.prompt_messages,
        derived=derived_of_sample(record.arrays, record.numbers, snapshot.constants),
        columns=numbers,
        extra=record.extra,
        notes=tuple(record.notes),
        **values,
    )


def _agent_values(fields: AgentFields) -> dict[str, Any]:
    values = {field.name: getattr(fields, field.name) for field in dataclasses.fields(fields)}
    return values | {"images": tuple(fields.images), "media": tuple(fields.media)}
