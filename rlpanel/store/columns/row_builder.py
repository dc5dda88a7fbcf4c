"""Records on their way to become rows: gathered over files, turned into columns, joined.

Few numpy calls over many records cost less than many over few, so records wait for company; but not for
long, because their token arrays should still be in the processor's cache when they are reduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.metrics.engine.column_info import computed_columns
from rlpanel.metrics.engine.compute import derive_columns, reduce_ragged, reduce_tokens
from rlpanel.metrics.engine.constants import USUAL, Constants
from rlpanel.metrics.engine.ragged import Ragged
from rlpanel.sources.records.column_batch import ColumnBatch, SampleBatch, join_batches
from rlpanel.sources.records.record_types import Chunk, Locator, Record, Several
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.page_memory import keep_pages

#: Records, and bytes of their lines, that are turned into columns together.
GATHERED_RECORDS = 1024
GATHERED_BYTES = 4 << 20
#: Samples for which columns of their own are worth while.
WORTH = 32
#: Most number columns and most label columns; a log that makes up keys must not fill the memory.
MOST_COLUMNS = 512


@dataclass(frozen=True)
class Rows:
    """Columns of new rows; names as in `rlpanel.store.columns.columns.Columns`."""

    place: Mapping[str, np.ndarray]
    numbers: Mapping[str, np.ndarray]
    labels: Mapping[str, Sequence[str | None]]

    def __len__(self) -> int:
        return len(self.place["step"])


class RowBuilder:
    """Takes chunks, gives rows.

    Attributes
    ----------
    left_out : str
        The first logged column beyond `MOST_COLUMNS`; empty if there is none.
    constants : Constants
        What is known of the training, for metrics of the rows that come.
    """

    def __init__(self) -> None:
        keep_pages()
        self.left_out = ""
        self.constants: Constants = USUAL
        self._number_names: set[str] = set()
        self._label_names: set[str] = set()
        self._parts: list[Rows] = []
        self._clear()

    def __len__(self) -> int:
        return len(self._locators) + sum(map(len, self._parts))

    def know(self, numbers: Iterable[str], labels: Iterable[str]) -> None:
        """These columns are there already."""
        self._number_names |= set(numbers) - computed_columns()
        self._label_names |= set(labels)

    def take(self, file: int, chunk: Chunk) -> None:
        """The records of a chunk read from file number ``file``."""
        self._files += [file] * len(chunk)
        self._locators += chunk.places
        self._taken += chunk.parts
        self._bytes += chunk.bytes
        if len(self._locators) >= GATHERED_RECORDS or self._bytes >= GATHERED_BYTES:
            self._digest()

    def join(self, rows: Rows) -> None:
        """Rows that another stage gathered."""
        self._digest()
        logged = {name: values for name, values in rows.numbers.items() if name not in computed_columns()}
        numbers = {name: values for name, values in rows.numbers.items() if name in computed_columns()}
        numbers |= {name: logged[key] for name, key in self._admit([logged], self._number_names).items()}
        labels = {
            name: rows.labels[key] for name, key in self._admit([rows.labels], self._label_names).items()
        }
        self._parts.append(Rows(rows.place, numbers, labels))

    def gathered(self) -> Rows | None:
        """All that was taken, as rows without what follows from other columns; None if that is nothing."""
        self._digest()
        parts, self._parts = self._parts, []
        if not parts:
            return None
        return Rows(
            {name: np.concatenate([part.place[name] for part in parts]) for name in Columns.PLACE},
            _join_numbers(parts),
            _join_labels(parts),
        )

    def flush(self) -> Rows | None:
        """All that was taken, as whole rows; None if that is nothing."""
        rows = self.gathered()
        if rows is None:
            return None
        return Rows(rows.place, {**rows.numbers, **derive_columns(rows.numbers, self.constants)}, rows.labels)

    def _clear(self) -> None:
        self._files: list[int] = []
        self._locators: list[tuple[int, ...]] = []
        self._taken: list[Several] = []
        self._bytes = 0

    def _digest(self) -> None:
        """What was taken becomes columns and is let go."""
        start = 0
        for group in _groups(self._taken):
            if isinstance(group[0], ColumnBatch):
                numbers, labels, place = self._of_samples(join_batches(group))
            else:
                numbers, labels, place = self._of_records(group)
            end = start + len(place["step"])
            place |= _located(self._files[start:end], self._locators[start:end])
            self._parts.append(Rows(place, numbers, labels))
            start = end
        self._clear()

    def _of_samples(self, found: SampleBatch) -> _Made:
        """Columns of samples that are columns already."""
        admitted = self._admit([found.numbers], self._number_names)
        numbers = {name: found.numbers[key] for name, key in admitted.items()}
        truncated = found.numbers["truncated"].tolist() if "truncated" in found.numbers else None
        numbers |= _ended(truncated, found.labels.get("finish_reason"))
        numbers |= _invalid(found.texts.get("response", ()))
        laid = {
            name: Ragged(found.counts[name], np.frombuffer(b"".join(arrays)))
            for name, arrays in found.arrays.items()
        }
        numbers |= reduce_ragged(laid, numbers, self.constants)
        admitted = self._admit([found.labels], self._label_names)
        labels = {name: found.labels[key] for name, key in admitted.items()}
        place = {"step": found.step, "rank": found.rank.astype(np.int32)}
        place["notes"] = found.notes.clip(max=255).astype(np.uint8)
        nothing = [""] * len(found.step)
        return numbers, labels, place | _hashes({text: found.texts.get(text, nothing) for text in _TEXTS})

    def _of_records(self, records: list[Record]) -> _Made:
        """Columns of records."""
        numbers = _numbers(records, self._admit([r.numbers for r in records], self._number_names))
        numbers |= _ended(
            [record.numbers.get("truncated") for record in records],
            [record.labels.get("finish_reason") for record in records],
        )
        numbers |= _invalid([record.texts.get("response") for record in records])
        numbers |= reduce_tokens([record.arrays for record in records], numbers, self.constants)
        labels = _labels(records, self._admit([r.labels for r in records], self._label_names))
        place = {
            name: np.fromiter(map(attrgetter(name), records), Columns.PLACE[name])
            for name in ("step", "rank")
        }
        notes = np.fromiter(map(len, map(attrgetter("notes"), records)), np.int64)
        place["notes"] = notes.clip(max=255).astype(np.uint8)
        texts = {text: [record.texts.get(text, "") for record in records] for text in _TEXTS}
        return numbers, labels, place | _hashes(texts)

    def _admit(self, logged: Iterable[Iterable[str]], known: set[str]) -> dict[str, str]:
        """Columns under names that nothing else uses, as many as there is room for; each to its logged name.

        Asked before a column is made: a step's lines may name more of them than the memory holds.
        """
        admitted = {}
        for key in dict.fromkeys(chain.from_iterable(logged)):
            name = f"logged_{key}" if key in computed_columns() else key
            if name in known or len(known) < MOST_COLUMNS:
                known.add(name)
                admitted[name] = key
            else:
                self.left_out = self.left_out or name
        return admitted


_TEXTS = ("prompt", "response")
#: Numbers, labels, and places.
_Made = tuple[dict[str, np.ndarray], Mapping[str, Sequence[str | None]], dict[str, np.ndarray]]


def _groups(taken: Sequence[Several]) -> list[list[ColumnBatch]] | list[list[Record]]:
    """What can become columns together: sheets of one plan; records, and all where plans change too often."""
    groups: list[list[Any]] = []
    for part in taken:
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
    if len(groups) > 1 and WORTH * len(groups) > sum(map(len, taken)):
        return [[record for part in taken for record in part.records()]]
    return groups


def _located(files: Sequence[int], locators: Sequence[tuple[int, ...]]) -> dict[str, np.ndarray]:
    found = zip(Locator._fields, zip(*locators, strict=True), strict=True)
    place = {name: np.array(values, Columns.PLACE[name]) for name, values in found}
    place["file"] = np.array(files, np.int32)
    return place


def _hashes(texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """By what equal texts are known."""
    return {
        f"{name}_hash": np.fromiter(map(xxh3_64_intdigest, map(str.encode, column)), np.uint64, len(column))
        for name, column in texts.items()
    }


#: How trainers and engines say that a response was finished, or cut.
_ENDS = {"stop": 1.0, "eos": 1.0, "eos_token": 1.0, "end_turn": 1.0, "stop_sequence": 1.0, "completed": 1.0}
_ENDS |= dict.fromkeys(("length", "max_tokens", "max_length", "truncated"), 0.0)


def _ended(
    truncated: Sequence[float | None] | None, reasons: Sequence[str | None] | None
) -> dict[str, np.ndarray]:
    """Whether each response ended by itself; NaN where neither tells, None for a key that no sample has."""
    if truncated is None and reasons is None:
        return {}
    cuts = repeat(None) if truncated is None else truncated
    why = repeat(None) if reasons is None else reasons
    column = np.array(
        [
            1.0 - cut if cut is not None else _ENDS.get((reason or "").lower(), np.nan)
            for cut, reason in zip(cuts, why, strict=False)
        ]
    )
    return {} if np.isnan(column).all() else {"ended": column}


def _invalid(texts: Sequence[str | None]) -> dict[str, np.ndarray]:
    """How many characters of each response stand for bytes that are none; NaN where there is no response."""
    if all(text is None for text in texts):
        return {}
    found = [np.nan if text is None else 0 if text.isascii() else text.count("\ufffd") for text in texts]
    return {"invalid_chars": np.array(found, float)}


def _numbers(records: Sequence[Record], names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The records' numbers as columns; NaN where a record lacks one."""
    rows = [record.numbers for record in records]
    keys = list(names.values())
    # Mostly all records have all names: then nothing is looked at twice, and no line of Python runs a value.
    if len(keys) > 1 and sum(map(len, rows)) == len(keys) * len(rows):
        try:
            values = np.fromiter(chain.from_iterable(map(itemgetter(*keys), rows)), float)
            return dict(zip(names, values.reshape(len(rows), -1).T, strict=True))
        except KeyError:  # as many names, but not the same
            pass
    return {name: np.array([row.get(key, np.nan) for row in rows]) for name, key in names.items()}


def _labels(records: Sequence[Record], names: Mapping[str, str]) -> dict[str, list[str | None]]:
    return {name: [record.labels.get(key) for record in records] for name, key in names.items()}


def _join_numbers(parts: Sequence[Rows]) -> dict[str, np.ndarray]:
    """Columns end to end; NaN where a part lacks one."""
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
