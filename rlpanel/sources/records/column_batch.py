"""Lines of the same keys, column by column: what records tell, without objects for each sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.column_plan import ColumnPlan, Row
from rlpanel.sources.records.json_parser import document
from rlpanel.sources.records.record_types import Chunk, Record, is_eval, rank_of

#: A plan that so many lines in short order did not fit is given up.
_ODD = 8
#: Most lines that are read as records before a plan is made again.
_REST = 1024


@dataclass(frozen=True)
class SampleBatch:
    """Samples as columns.

    Attributes
    ----------
    step, rank, notes : ndarray of int, shape (N,)
        ``notes`` counts what was odd about each.
    numbers : dict of str to ndarray of float, shape (N,)
    labels, texts : dict of str to sequence of str, length N
        None where a label was not logged.
    counts : dict of str to ndarray of int, shape (N,)
        Tokens of each token array.
    arrays : dict of str to sequence, length N
        The token arrays, as buffers of float64.
    """

    step: np.ndarray
    rank: np.ndarray
    notes: np.ndarray
    numbers: dict[str, np.ndarray]
    labels: dict[str, Sequence[str | None]]
    texts: Mapping[str, Sequence[str]]
    counts: dict[str, np.ndarray]
    arrays: dict[str, Sequence[Any]]


@dataclass
class ColumnBatch:
    """The lines of one file that follow a plan, one after another.

    Attributes
    ----------
    plan : ColumnPlan
    path : str
        The file's path below the run.
    rows : list of tuple
    sizes, arrays : list of list
        What `ColumnPlan.lists` gave, a list a line; nothing where the lines have none.
    """

    plan: ColumnPlan
    path: str
    rows: list[Row] = field(default_factory=list)
    sizes: list[list[int]] = field(default_factory=list)
    arrays: list[list[Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def records(self) -> list[Record]:
        """The samples one by one."""
        found = join_batches([self])
        names = list(found.numbers)
        numbers = zip(*(column.tolist() for column in found.numbers.values()), strict=True)
        records = [
            Record(step, rank, dict(zip(names, row, strict=True)), notes=[""] * notes)
            for step, rank, row, notes in zip(
                found.step.tolist(), found.rank.tolist(), numbers, found.notes.tolist(), strict=True
            )
        ]
        for at, record in enumerate(records):
            record.texts = {name: texts[at] for name, texts in found.texts.items()}
            record.arrays = {name: np.frombuffer(arrays[at]) for name, arrays in found.arrays.items()}
            for name, labels in found.labels.items():
                if (label := labels[at]) is not None:
                    record.labels[name] = label
        return records


def join_batches(sheets: Sequence[ColumnBatch]) -> SampleBatch:
    """The samples of sheets with equal plans."""
    plan = sheets[0].plan
    columns = _columns(sheet.rows for sheet in sheets)
    texts = {name: columns[at] for at, (_, kind, name) in enumerate(plan.columns) if kind == "text"}
    lengths = _columns(sheet.sizes for sheet in sheets)
    sizes = [np.array(column, np.int64) for column in lengths]
    names = [name for _, name in plan.arrays]
    counts = dict(zip(names, sizes[len(plan.sizes) :], strict=True))
    tokens = sizes[0] if plan.sizes else counts.get("logprobs")
    notes = np.zeros(len(columns[0]), np.int64)
    if plan.sizes:
        for count in counts.values():
            notes += count != tokens
    return SampleBatch(
        np.array(columns[0], np.int64),
        np.concatenate([_ranks(sheet) for sheet in sheets]),
        notes,
        _numbers(plan, columns, texts, tokens),
        _labels(sheets, columns),
        texts,
        counts,
        dict(zip(names, _columns(sheet.arrays for sheet in sheets), strict=True)),
    )


def _columns(tables: Iterable[Iterable[Sequence[Any]]]) -> list[tuple[Any, ...]]:
    return list(zip(*chain.from_iterable(tables), strict=True))


def _ranks(sheet: ColumnBatch) -> np.ndarray:
    if sheet.plan.has_rank:
        return np.array([row[1] for row in sheet.rows], np.int64)
    return np.full(len(sheet), rank_of(sheet.path), np.int64)


def _numbers(
    plan: ColumnPlan,
    columns: list[tuple[Any, ...]],
    texts: Mapping[str, Sequence[str]],
    tokens: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """The number columns, in the order in which records have them."""
    kinds = [kind for _, kind, _ in plan.columns] + ["number"] * len(plan.parts)
    chosen = [column for column, kind in zip(columns, kinds, strict=True) if kind.endswith("number")]
    size = len(columns[0])
    try:  # no line of Python runs a value
        values = np.fromiter(chain.from_iterable(chosen), float, len(chosen) * size).reshape(-1, size)
    except TypeError:  # a null
        values = np.array([[np.nan if one is None else one for one in column] for column in chosen], float)
    found = dict(zip(plan.numbers, values, strict=True))
    found |= {f"{name}_chars": np.fromiter(map(len, column), float, size) for name, column in texts.items()}
    if tokens is not None:
        found["response_tokens"] = tokens.astype(float)
    return {name: found[name] for name in plan.order}


def _labels(sheets: Sequence[ColumnBatch], columns: list[tuple[Any, ...]]) -> dict[str, Sequence[str | None]]:
    """The label columns that hold something."""
    found: dict[str, Sequence[str | None]] = {}
    for (_, kind, name), column in zip(sheets[0].plan.columns, columns, strict=False):
        if kind == "own label":
            longest = max(map(len, column))
            found[name] = column if longest <= LABEL_MAX else [_short(text) for text in column]
        elif kind == "label":
            plain = set(map(type, column)) == {str}
            found[name] = column if plain else [None if one is None else str(one) for one in column]
    evals = [is_eval(sheet.path) for sheet in sheets for _ in range(len(sheet))]
    if any(evals):
        known = found.get("split", [None] * len(evals))
        found["split"] = [
            "eval" if here and split is None else split for here, split in zip(evals, known, strict=True)
        ]
    return {name: column for name, column in found.items() if any(one is not None for one in column)}


def _short(text: str) -> str | None:
    return text if len(text) <= LABEL_MAX else None


class ColumnReader:
    """Reads lines of one file into sheets, as long as they follow a plan.

    Parameters
    ----------
    path : str
        The file's path below the run.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._plan: ColumnPlan | None = None
        self._odd = self._rest = 0  # lines lately that did not fit; lines to be read as records first
        self._pause = 1

    def take(self, line: bytes, chunk: Chunk) -> bool:
        """Put a line into the chunk's last sheet; False where it does not follow the plan."""
        plan = self._plan
        if plan is None:
            return False
        try:
            found = document(line, lazy=plan.lazy)
            row = plan.row(found) if found is not None else None
            lists = plan.lists(found) if row is not None and plan.lazy else None
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError):
            row = None
        if row is not None and (lists is not None or not plan.lazy):
            sheet = self._sheet(plan, chunk)
            sheet.rows.append(row)
            if lists is not None:
                sheet.sizes.append(lists[0])
                sheet.arrays.append(lists[1])
            if self._odd:
                self._odd -= 1
            return True
        self._odd += 2
        if self._odd > _ODD:
            self._plan, self._odd, self._rest = None, 0, self._pause
            self._pause = min(2 * self._pause, _REST)
        return False

    def learn(self, fields: Mapping[str, Any], record: Record) -> bool:
        """Make a plan, if there is none, of a line that was read as a record; whether it was made now."""
        if self._plan is not None:
            return False
        if self._rest:
            self._rest -= 1
            return False
        self._plan = ColumnPlan.of(fields, record)
        if self._plan is None:
            self._rest = self._pause
            self._pause = min(2 * self._pause, _REST)
        return self._plan is not None

    def _sheet(self, plan: ColumnPlan, chunk: Chunk) -> ColumnBatch:
        last = chunk.parts[-1] if chunk.parts else None
        if isinstance(last, ColumnBatch) and last.plan is plan:
            return last
        sheet = ColumnBatch(plan, self._path)
        chunk.parts.append(sheet)
        return sheet
