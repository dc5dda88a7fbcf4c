"""Builds rows from parsed records: batches the records of all files and turns each batch into columns.

Batching saves numpy calls. The batches are small enough that the token arrays are still in the processor's
cache when they are reduced.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from rlpanel.errors import describe_error
from rlpanel.metrics.engine.column_info import is_computed
from rlpanel.metrics.engine.compute import derive_columns, reduce_ragged
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.metrics.engine.ragged import Ragged, ragged_fields, unscored_columns
from rlpanel.metrics.logged_arrays import shift_columns
from rlpanel.schema import ARRAYS, FIELD_REMARKS
from rlpanel.sources.records.column_batch import ColumnBatch, SampleBatch, join_batches
from rlpanel.sources.records.record_types import (
    BadLine,
    Chunk,
    Locator,
    Record,
    SampleSequence,
    empty_locators,
)
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.logged_columns import (
    TokenArrays,
    ToolNames,
    field_remarks,
    separate_failed,
    text_columns,
    texts_as_numbers,
)
from rlpanel.store.columns.page_memory import raise_trim_threshold

log = logging.getLogger(__name__)

#: A batch is converted when it has this many records, or lines of this many bytes.
BATCH_RECORDS = 1024
BATCH_BYTES = 4 << 20
#: Average batch size below which columnar batches are converted record by record.
MIN_BATCH_SAMPLES = 32
#: Limit for number columns, and for label columns: a log with ever new keys must not fill the memory.
MAX_COLUMNS = 512


@dataclass(frozen=True)
class Rows:
    """Columns of new rows; names as in `rlpanel.store.columns.columns.Columns`."""

    metadata: Mapping[str, np.ndarray]
    numbers: Mapping[str, np.ndarray]
    labels: Mapping[str, Sequence[str | None]]

    def __len__(self) -> int:
        return len(self.metadata["step"])

    def row(self, number: int) -> Rows:
        """Return one of the rows."""
        at = slice(number, number + 1)
        return Rows(
            {name: values[at] for name, values in self.metadata.items()},
            {name: values[at] for name, values in self.numbers.items()},
            {name: values[at] for name, values in self.labels.items()},
        )


class RowBuilder:
    """Collects chunks of records and builds rows from them.

    Attributes
    ----------
    left_out : str
        The first logged column beyond `MAX_COLUMNS`; empty if all fit.
    constants : Constants
        Training constants that the metrics of new rows are computed with.
    rejected : list of (int, BadLine)
        Lines, each with the number of its file, whose samples no columns can be computed of.
    """

    def __init__(self) -> None:
        raise_trim_threshold()
        self.left_out = ""
        self.constants: Constants = USUAL_CONSTANTS
        self.rejected: list[tuple[int, BadLine]] = []
        self._number_names: set[str] = set()
        self._label_names: set[str] = set()
        self._settled: set[str] = set()  # label columns of earlier rows
        self._tools = ToolNames()
        self._arrays = TokenArrays()
        self._parts: list[Rows] = []
        self._clear()

    def __len__(self) -> int:
        return len(self._files) + sum(map(len, self._parts))

    def declare_columns(self, numbers: Iterable[str], labels: Iterable[str]) -> None:
        """Declare columns that exist already."""
        numbers = list(numbers)
        self._tools.declare(numbers)
        self._arrays.declare(numbers)
        self._number_names |= {name for name in numbers if not is_computed(name)}
        self._label_names |= set(labels)
        self._settled |= self._label_names

    def add_chunk(self, file: int, chunk: Chunk) -> None:
        """Add the records of a chunk read from file number ``file``."""
        self._files += [file] * len(chunk)
        self._locators += chunk.raw_locators
        self._batches += chunk.parts
        self._bytes += chunk.bytes
        if len(self._files) >= BATCH_RECORDS or self._bytes >= BATCH_BYTES:
            self._convert()

    def add_rows(self, rows: Rows) -> None:
        """Add rows from `flush_raw` of another builder, as worker processes return them."""
        self._convert()
        computed, logged = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for name, values in rows.numbers.items():
            (computed if is_computed(name) else logged)[name] = values
        self._tools.fold_columns(logged)
        self._arrays.fold(computed)
        numbers = computed
        numbers |= {name: logged[key] for name, key in self._admit([logged], self._number_names).items()}
        labels = {
            name: rows.labels[key] for name, key in self._admit([rows.labels], self._label_names).items()
        }
        self._parts.append(Rows(rows.metadata, numbers, labels))

    def flush_raw(self) -> Rows | None:
        """Return the collected rows without derived columns, and start over; None if empty."""
        self._convert()
        parts, self._parts = self._parts, []
        return _join(parts) if parts else None

    def flush(self) -> Rows | None:
        """Return the collected rows with derived columns, and start over; None if empty."""
        rows = self.flush_raw()
        if rows is None:
            return None
        rows = self._as_numbers(rows)
        try:
            return self._with_derived(rows)
        except MemoryError:
            raise
        except Exception:  # of one row, perhaps
            singles = map(rows.row, range(len(rows)))
            tried = [self._tried(partial(self._with_derived, row), row.metadata) for row in singles]
            parts = [row for row in tried if row is not None]
            return _join(parts) if parts else None

    def _as_numbers(self, rows: Rows) -> Rows:
        """Move texts of numbers to the number columns that they belong to, within the limit on columns."""
        known, settled = self._number_names, self._settled
        labels, numbers = texts_as_numbers(rows.labels, rows.numbers, known, settled)
        self._settled = settled | labels.keys()
        if numbers.keys() == rows.numbers.keys() and labels is rows.labels:
            return rows
        self._number_names = known | {name for name in numbers if not is_computed(name)}
        return Rows(rows.metadata, numbers, labels)

    def _with_derived(self, rows: Rows) -> Rows:
        derived = derive_columns(rows.numbers, self.constants)
        return Rows(rows.metadata, {**rows.numbers, **derived}, rows.labels)

    def _tried(self, compute: Callable[[], Rows], place: Mapping[str, np.ndarray]) -> Rows | None:
        """Return the columns of the row at a place; None, and the row is rejected, if that fails."""
        try:
            return compute()
        except MemoryError:
            raise
        except Exception as error:
            log.debug("no columns of a line", exc_info=True)
            line, offset, file = (int(place[name][0]) for name in ("line", "offset", "file"))
            reason = f"no columns can be computed of it: {describe_error(error)}"
            self.rejected.append((file, BadLine(line, offset, reason)))
            return None

    def _clear(self) -> None:
        self._files: list[int] = []
        self._locators = empty_locators()
        self._batches: list[SampleSequence] = []
        self._bytes = 0

    def _convert(self) -> None:
        """Convert the collected records into columns and release them."""
        start, locators = 0, _locator_columns(self._files, self._locators)
        for group in _group_batches(self._batches):
            end = start + sum(len(part) if isinstance(part, ColumnBatch) else 1 for part in group)
            places = {name: values[start:end] for name, values in locators.items()}
            try:
                self._parts.append(self._rows(group, places))
            except MemoryError:
                raise
            except Exception:  # of one sample, perhaps
                self._convert_singly(group, places)
            start = end
        self._clear()

    def _convert_singly(self, group: _Group, places: Mapping[str, np.ndarray]) -> None:
        """Convert samples one by one; those that cannot be converted are rejected."""
        singles: list[_Group] = [
            [single]
            for part in group
            for single in (part.singles() if isinstance(part, ColumnBatch) else [part])
        ]
        for number, single in enumerate(singles):
            place = {name: values[number : number + 1] for name, values in places.items()}
            row = self._tried(partial(self._rows, single, place), place)
            if row is not None:
                self._parts.append(row)

    def _rows(self, group: _Group, places: Mapping[str, np.ndarray]) -> Rows:
        """Return the rows of samples of one kind, whose lines are at these places."""
        if isinstance(group[0], ColumnBatch):
            numbers, labels, metadata = self._from_batch(join_batches(group))
        else:
            numbers, labels, metadata = self._from_records(group)
        return Rows({**metadata, **places}, numbers, labels)

    def _from_batch(self, batch: SampleBatch) -> _BuiltColumns:
        """Build columns from a batch that the parser returned as columns."""
        admitted = self._admit([batch.numbers], self._number_names)
        numbers = {name: batch.numbers[key] for name, key in admitted.items()}
        numbers |= _ended_column(batch.numbers.get("truncated"), batch.labels.get("finish_reason"))
        missing: Sequence[str | None] = [None] * len(batch.step)
        columns, hashes = text_columns(*(batch.texts.get(name, missing) for name in _TEXTS))
        numbers |= columns
        if not _FIELDS.issuperset(batch.counts):
            self._arrays.note_batch(batch.counts)
        ragged = {
            name: Ragged(batch.counts[name], np.frombuffer(b"".join(arrays)))
            for name, arrays in batch.arrays.items()
        }
        numbers |= self._token_columns(ragged, numbers)
        admitted = self._admit([batch.labels], self._label_names)
        labels = separate_failed({name: batch.labels[key] for name, key in admitted.items()}, self.constants)
        metadata = {"step": batch.step, "rank": batch.rank.astype(np.int32)}
        return numbers, labels, metadata | hashes

    def _from_records(self, records: list[Record]) -> _BuiltColumns:
        """Build columns from single records."""
        if any(record.unfit or not _FIELDS.issuperset(record.arrays) for record in records):
            self._arrays.note_lengths(records)
        for record in records:
            if record.notes:
                record.labels[FIELD_REMARKS] = field_remarks(record.notes)
        logged_numbers = [record.numbers for record in records]
        self._tools.fold_rows(logged_numbers, dict.fromkeys(chain.from_iterable(logged_numbers)))
        numbers = _number_columns(records, self._admit(logged_numbers, self._number_names))
        numbers |= _ended_column(
            np.array([record.numbers.get("truncated", np.nan) for record in records]),
            [record.labels.get("finish_reason") for record in records],
        )
        columns, hashes = text_columns(*([record.texts.get(name) for record in records] for name in _TEXTS))
        numbers |= columns
        numbers |= self._token_columns(ragged_fields([record.arrays for record in records]), numbers)
        logged = _label_columns(records, self._admit([r.labels for r in records], self._label_names))
        labels = separate_failed(logged, self.constants)
        metadata = {
            name: np.fromiter(map(attrgetter(name), records), Columns.METADATA[name])
            for name in ("step", "rank")
        }
        return numbers, labels, metadata | hashes

    def _token_columns(
        self, fields: Mapping[str, Ragged], numbers: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the columns that token arrays give."""
        columns = reduce_ragged(fields, numbers, self.constants) | shift_columns(fields)
        columns |= unscored_columns(fields)
        return columns if _FIELDS.issuperset(fields) else columns | self._arrays.columns(fields)

    def _admit(self, logged: Iterable[Iterable[str]], known: set[str]) -> dict[str, str]:
        """Map column names to logged keys, within the limit on columns.

        A key that is the name of a computed column is renamed to ``logged_<key>``. This runs before any
        column is allocated, because the lines of one step may have more keys than fit into memory.
        """
        admitted = {}
        for key in dict.fromkeys(chain.from_iterable(logged)):
            name = f"logged_{key}" if is_computed(key) else key
            if name in known or len(known) < MAX_COLUMNS:
                known.add(name)
                admitted[name] = key
            else:
                self.left_out = self.left_out or name
        return admitted


_TEXTS = ("prompt", "response")
_FIELDS = frozenset(ARRAYS)
#: Number columns, label columns, and columns that every row has.
_Group = list[Any]  # column batches of one plan, or records
_BuiltColumns = tuple[dict[str, np.ndarray], Mapping[str, Sequence[str | None]], dict[str, np.ndarray]]


def _group_batches(batches: Sequence[SampleSequence]) -> list[list[ColumnBatch]] | list[list[Record]]:
    """Group what can be converted together: column batches of one plan, or consecutive single records.

    If the plan changes so often that groups would be small, all are converted as single records.
    """
    groups: list[list[Any]] = []
    for part in batches:
        last = groups[-1][-1] if groups else None
        if isinstance(part, ColumnBatch):
            if isinstance(last, ColumnBatch) and last.plan == part.plan:
                groups[-1].append(part)
            else:
                groups.append([part])
        elif isinstance(last, Record):
            groups[-1] += part.records()
        else:
            groups.append([*part.records()])
    if len(groups) > 1 and MIN_BATCH_SAMPLES * len(groups) > sum(map(len, batches)):
        return [[record for part in batches for record in part.records()]]
    return groups


def _locator_columns(files: Sequence[int], locators: array[int]) -> dict[str, np.ndarray]:
    fields = zip(Locator._fields, np.asarray(locators).reshape(-1, len(Locator._fields)).T, strict=True)
    columns = {name: values.astype(Columns.METADATA[name]) for name, values in fields}
    return columns | {"file": np.array(files, np.int32)}


#: Finish reasons of trainers and engines: 1 for a finished response, 0 for a truncated one.
_FINISHED = {
    "stop": 1.0,
    "eos": 1.0,
    "eos_token": 1.0,
    "end_turn": 1.0,
    "stop_sequence": 1.0,
    "completed": 1.0,
}
_FINISHED |= dict.fromkeys(("length", "max_tokens", "max_length", "truncated"), 0.0)


def _ended_column(
    truncated: np.ndarray | None, reasons: Sequence[str | None] | None
) -> dict[str, np.ndarray]:
    """Return column ``ended``: 1 if a response finished, 0 if it was truncated, NaN if unknown.

    The finish reason is used where ``truncated`` is missing or null. An argument is None if no sample has
    that key. The result is empty if nothing is known of any response.
    """
    if truncated is None and reasons is None:
        return {}
    column = 1.0 - truncated if truncated is not None else np.full(len(reasons or ()), np.nan)
    if reasons is not None:
        for row in np.flatnonzero(np.isnan(column)).tolist():
            column[row] = _FINISHED.get((reasons[row] or "").lower(), np.nan)
    return {} if np.isnan(column).all() else {"ended": column}


def _number_columns(records: Sequence[Record], names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the records' numbers as columns; NaN if a record lacks one."""
    rows = [record.numbers for record in records]
    keys = list(names.values())
    # Fast path for the usual case that all records have the same keys: no Python code runs per value.
    if len(keys) > 1 and sum(map(len, rows)) == len(keys) * len(rows):
        try:
            values = np.fromiter(chain.from_iterable(map(itemgetter(*keys), rows)), float)
            return dict(zip(names, values.reshape(len(rows), -1).T, strict=True))
        except KeyError:  # the same number of keys, but different ones
            pass
    return {name: np.array([row.get(key, np.nan) for row in rows]) for name, key in names.items()}


def _label_columns(records: Sequence[Record], names: Mapping[str, str]) -> dict[str, list[str | None]]:
    return {name: [record.labels.get(key) for record in records] for name, key in names.items()}


def _join(parts: Sequence[Rows]) -> Rows:
    """Concatenate the rows of all parts."""
    metadata = {name: np.concatenate([part.metadata[name] for part in parts]) for name in Columns.METADATA}
    return Rows(metadata, _join_numbers(parts), _join_labels(parts))


def _join_numbers(parts: Sequence[Rows]) -> dict[str, np.ndarray]:
    """Concatenate the number columns of all parts; NaN where a part lacks a column."""
    gaps = [np.full(len(part), np.nan) for part in parts]
    return {
        name: np.concatenate([part.numbers.get(name, gap) for part, gap in zip(parts, gaps, strict=True)])
        for name in dict.fromkeys(name for part in parts for name in part.numbers)
    }


def _join_labels(parts: Sequence[Rows]) -> dict[str, list[str | None]]:
    return {
        name: [text for part in parts for text in part.labels.get(name, [None] * len(part))]
        for name in dict.fromkeys(name for part in parts for name in part.labels)
    }
