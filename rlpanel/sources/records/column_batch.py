"""Batches of columns: consecutive lines with the same keys are parsed straight into them, by a plan.

A line that a plan cannot read, for whatever reason, is left to the file's adapter, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import contains
from typing import Any

import numpy as np

from rlpanel.schema import LABEL_MAX
from rlpanel.sources.records.column_plan import NUMBERS, ColumnPlan, Kind, Row
from rlpanel.sources.records.embedded_media import EMBEDDED_MARK, without_embedded
from rlpanel.sources.records.json_parser import parse_fast, parse_lines
from rlpanel.sources.records.path_numbers import is_eval, rank_of
from rlpanel.sources.records.record_types import Chunk, FlatFormat, Record

#: Characters of `EMBEDDED_MARK`. One character is searched much faster than the whole mark.
_RARE_IN_MARK = ";64"


@dataclass(frozen=True)
class SampleBatch:
    """Samples as columns.

    Attributes
    ----------
    step, rank : ndarray of int, shape (N,)
    numbers : dict of str to ndarray of float, shape (N,)
    labels, texts : dict of str to sequence of str, length N
        A label is None if it was not logged.
    counts : dict of str to ndarray of int, shape (N,)
        Number of tokens in each token array.
    arrays : dict of str to sequence, length N
        Token arrays as buffers of float64.
    """

    step: np.ndarray
    rank: np.ndarray
    numbers: dict[str, np.ndarray]
    labels: dict[str, Sequence[str | None]]
    texts: Mapping[str, Sequence[str]]
    counts: dict[str, np.ndarray]
    arrays: dict[str, Sequence[Any]]


@dataclass
class ColumnBatch:
    """Consecutive lines of one file that fit the same plan.

    Attributes
    ----------
    plan : ColumnPlan
    path : str
        The file's path below the run.
    step : int or None
        Step of lines that do not contain one.
    columns : list of list
        Values of the first lines, as `ColumnPlan.parse_columns` returns them; empty if the lines have lists.
    rows : list of tuple
        Values of the lines after them, as `ColumnPlan.parse_row` returns them.
    sizes, arrays : list of list
        Results of `ColumnPlan.parse_lists`, one list per line; empty if the lines have no lists.
    split : str
        Split of lines that do not name one; empty for training.
    """

    plan: ColumnPlan
    path: str
    step: int | None = None
    columns: list[list[Any]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    sizes: list[list[int]] = field(default_factory=list)
    arrays: list[list[Any]] = field(default_factory=list)
    split: str = ""

    def __len__(self) -> int:
        return len(self.rows) + (len(self.columns[0]) if self.columns else 0)

    def add_columns(self, columns: list[list[Any]]) -> None:
        """Append lines without lists."""
        if self.rows:
            rows, self.rows = self.rows, []
            self.add_columns(list(map(list, zip(*rows, strict=True))))
        if not self.columns:
            self.columns = columns
            return
        for column, values in zip(self.columns, columns, strict=True):
            column += values

    def as_columns(self) -> Sequence[Sequence[Any]]:
        """Return the stored values of all lines, one column for each value of a row."""
        if not self.columns:
            return list(zip(*self.rows, strict=True))
        self.add_columns([[] for _ in self.columns])
        return self.columns

    def singles(self) -> list[ColumnBatch]:
        """Return a batch for each sample."""
        rows = self.rows if self.plan.lazy else list(zip(*self.as_columns(), strict=True))
        return [
            ColumnBatch(
                *(self.plan, self.path, self.step, [], [row], self.sizes[at : at + 1]),
                self.arrays[at : at + 1],
                self.split,
            )
            for at, row in enumerate(rows)
        ]

    def records(self) -> list[Record]:
        """Return the samples as individual records."""
        batch = join_batches([self])
        names = list(batch.numbers)
        numbers = zip(*(column.tolist() for column in batch.numbers.values()), strict=True)
        records = [
            Record(step, rank, dict(zip(names, row, strict=True)))
            for step, rank, row in zip(batch.step.tolist(), batch.rank.tolist(), numbers, strict=True)
        ]
        for position, record in enumerate(records):
            record.texts = {name: texts[position] for name, texts in batch.texts.items()}
            record.arrays = {name: np.frombuffer(arrays[position]) for name, arrays in batch.arrays.items()}
            for name, labels in batch.labels.items():
                if (label := labels[position]) is not None:
                    record.labels[name] = label
        return records


def join_batches(batches: Sequence[ColumnBatch]) -> SampleBatch:
    """Concatenate the samples of batches whose plans are equal."""
    plan = batches[0].plan
    columns = _values(batches)
    texts = {
        name: _without_embedded(columns[index], shared=name == "prompt")
        for index, (_, kind, name) in enumerate(plan.columns)
        if kind is Kind.TEXT
    }
    lengths = _columns(batch.sizes for batch in batches)
    sizes = [np.array(column, np.int64) for column in lengths]
    names = [name for _, name in plan.arrays]
    counts = dict(zip(names, sizes[len(plan.sizes) :], strict=True))
    arrays: dict[str, Sequence[Any]] = dict(
        zip(names, _columns(batch.arrays for batch in batches), strict=True)
    )
    tokens = sizes[0] if plan.sizes else counts.get("logprobs")
    return SampleBatch(
        _integers(plan, Kind.STEP, columns, [(batch.step, len(batch)) for batch in batches]),
        _integers(plan, Kind.RANK, columns, [(rank_of(batch.path), len(batch)) for batch in batches]),
        _numbers(plan, columns, texts, _token_counts(tokens, counts.get("loss_mask"), arrays)),
        _labels(batches, columns),
        texts,
        counts,
        arrays,
    )


def _values(batches: Sequence[ColumnBatch]) -> list[Sequence[Any]]:
    """Return the stored values of all lines as columns."""
    if batches[0].plan.lazy:
        return list(_columns(batch.rows for batch in batches))
    if len(batches) == 1:
        return list(batches[0].as_columns())
    parts = zip(*(batch.as_columns() for batch in batches), strict=True)
    return [list(chain.from_iterable(part)) for part in parts]


def _columns(row_lists: Iterable[Iterable[Sequence[Any]]]) -> list[tuple[Any, ...]]:
    return list(zip(*chain.from_iterable(row_lists), strict=True))


def _without_embedded(texts: Sequence[str], *, shared: bool) -> Sequence[str]:
    """Leave embedded images out of a column of texts, as records do; ``shared`` if many texts are equal."""
    some = list(dict.fromkeys(texts)) if shared else texts
    for part in (*_RARE_IN_MARK, EMBEDDED_MARK):
        some = list(compress(some, map(contains, some, repeat(part))))
    return list(map(without_embedded, texts)) if some else texts


def _integers(
    plan: ColumnPlan,
    kind: Kind,
    columns: Sequence[Sequence[Any]],
    otherwise: Sequence[tuple[int | None, int]],
) -> np.ndarray:
    """Return the column of steps or ranks; the value and length of each batch if lines do not contain it."""
    at = plan.place.get(kind)
    if at is None:
        return np.concatenate([np.full(length, value, np.int64) for value, length in otherwise])
    return np.array(columns[at], np.int64)


def _numbers(
    plan: ColumnPlan,
    columns: Sequence[Sequence[Any]],
    texts: Mapping[str, Sequence[str]],
    token_counts: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the number columns in the order in which records have them."""
    kinds = [kind for _, kind, _ in plan.columns] + [Kind.NUMBER] * len(plan.parts)
    number_columns = [column for column, kind in zip(columns, kinds, strict=True) if kind in NUMBERS]
    size = len(columns[0])
    try:  # numpy consumes the iterator without running Python code per value
        flat = np.fromiter(chain.from_iterable(number_columns), float, len(number_columns) * size)
        values = flat.reshape(-1, size)
    except TypeError:  # some value is None
        rows = [[np.nan if value is None else value for value in column] for column in number_columns]
        values = np.array(rows, float)
    numbers = dict(zip(plan.numbers, values, strict=True))
    numbers |= {f"{name}_chars": np.fromiter(map(len, column), float, size) for name, column in texts.items()}
    numbers |= token_counts
    return {name: numbers[name] for name in plan.order}


def _token_counts(
    tokens: np.ndarray | None, mask_sizes: np.ndarray | None, arrays: Mapping[str, Sequence[Any]]
) -> dict[str, np.ndarray]:
    """Return the columns of token counts, as records have them."""
    if tokens is None:
        return {}
    if mask_sizes is None:
        return {"response_tokens": tokens.astype(float)}
    nonzero = (np.count_nonzero(np.frombuffer(mask)) for mask in arrays["loss_mask"])
    written = np.fromiter(nonzero, np.int64, len(tokens))
    by_writer = (mask_sizes == tokens) & (written > 0)  # other masks do not show who wrote which token
    return {
        "response_tokens": np.where(by_writer, written, tokens).astype(float),
        "trajectory_tokens": tokens.astype(float),
        "context_tokens": np.where(by_writer, tokens - written, np.nan),
    }


def _labels(
    batches: Sequence[ColumnBatch], columns: Sequence[Sequence[Any]]
) -> dict[str, Sequence[str | None]]:
    """Return the label columns with at least one value; lines without a split get that of their file."""
    labels: dict[str, Sequence[str | None]] = {}
    for (_, kind, name), column in zip(batches[0].plan.columns, columns, strict=False):
        if kind is Kind.OWN_LABEL:
            longest = max(map(len, column))
            labels[name] = column if longest <= LABEL_MAX else [_short(text) for text in column]
        elif kind is Kind.LABEL:
            all_text = set(map(type, column)) == {str}
            labels[name] = column if all_text else [None if value is None else str(value) for value in column]
    if any(batch.split for batch in batches):
        of_file = [batch.split for batch in batches for _ in range(len(batch))]
        logged = labels.get("split", [None] * len(of_file))
        labels["split"] = [
            split if split is not None else default or None
            for default, split in zip(of_file, logged, strict=True)
        ]
    return {name: column for name, column in labels.items() if any(label is not None for label in column)}


def _short(text: str) -> str | None:
    return text if len(text) <= LABEL_MAX else None


#: Misfit score above which a plan is dropped: +2 for a line that does not fit, -1 for a line that fits.
_MAX_MISFITS = 8


@dataclass
class _Pause:
    """A number of lines to wait after a failure. It doubles with each failure, up to a limit.

    Attributes
    ----------
    least, most : int
        Lines to wait after the first failure, and after many.
    left : int
        Lines still to wait.
    """

    least: int
    most: int
    left: int = 0

    def __post_init__(self) -> None:
        self._next = self.least

    def start(self) -> None:
        """Start to wait, after a failure."""
        self.left, self._next = self._next, min(2 * self._next, self.most)

    def shorten(self) -> None:
        """Wait for the least number of lines after the next failure."""
        self._next = self.least


class ColumnReader:
    """Reads lines of one file into column batches, as long as they fit a plan.

    It is in one of three states. Without a plan, lines are read as records; after a pause, one of them gives
    a plan. With a plan, lines are parsed many at once. If one of many does not fit, or if they have lists,
    lines are parsed one by one: for a pause, or always. Too many misfits drop the plan.

    Parameters
    ----------
    path : str
        The file's path below the run.
    flat : FlatFormat or None
        How the keys of a line become fields; None if no line of the format can be read by a plan.
    """

    def __init__(self, path: str, flat: FlatFormat | None) -> None:
        self._path = path
        self._flat = flat
        self._step = None if flat is None else flat.step_of(path)
        self._split = "eval" if is_eval(path) else "" if flat is None else flat.split
        self._plan: ColumnPlan | None = None
        self._misfits = 0  # misfit score of the plan, see `_MAX_MISFITS`
        self._as_records = _Pause(1, 1024)  # before the next plan is made
        self._one_by_one = _Pause(64, 4096)  # before many lines are parsed at once again

    @property
    def takes_many(self) -> bool:
        """True if `add_lines` may succeed."""
        return self._plan is not None and not self._plan.lazy and not self._one_by_one.left

    def add_lines(self, lines: Sequence[bytes], chunk: Chunk) -> bool:
        """Append lines to the chunk's last batch; return False if one does not fit a plan without lists."""
        columns = self._parse_columns(lines)
        if columns is None or self._plan is None:
            self._one_by_one.start()
            return False
        self._one_by_one.shorten()
        self._batch(self._plan, chunk).add_columns(columns)
        self._misfits = max(0, self._misfits - len(lines))
        return True

    def add_line(self, line: bytes, chunk: Chunk) -> bool:
        """Append a line to the chunk's last batch; return False if the line does not fit the plan."""
        plan = self._plan
        if plan is None:
            return False
        if self._one_by_one.left:
            self._one_by_one.left -= 1
        if self._add_alone(plan, line, chunk):
            self._misfits = max(0, self._misfits - 1)
            return True
        self._misfits += 2
        if self._misfits > _MAX_MISFITS:
            self._plan, self._misfits = None, 0
            self._as_records.start()
        return False

    def make_plan(self, fields: Mapping[str, Any], record: Record) -> bool:
        """Make a plan from a line that was read as a record; return whether this call made one."""
        if self._plan is not None or self._flat is None:
            return False
        if self._as_records.left:
            self._as_records.left -= 1
            return False
        self._plan = self._plan_of(self._flat, fields, record)
        if self._plan is None:
            self._as_records.start()
        return self._plan is not None

    def _plan_of(self, flat: FlatFormat, fields: Mapping[str, Any], record: Record) -> ColumnPlan | None:
        """Return the plan for lines like this one, if the plan can give what the adapter gives."""
        document = dict(fields)
        is_completed = any(key in document for key in flat.told_by)
        try:
            if is_completed and flat.complete is not None and not flat.complete(document):
                return None
            plan = ColumnPlan.from_line(document, record, flat.names)
        except MemoryError:
            raise
        except Exception:
            return None
        if plan is None or (plan.lazy and is_completed):  # lazy lines cannot be completed
            return None
        return plan if Kind.STEP in plan.place or self._step == record.step else None

    def _parse_columns(self, lines: Sequence[bytes]) -> list[list[Any]] | None:
        plan, flat = self._plan, self._flat
        if plan is None or flat is None or plan.lazy:
            return None
        # Without one of these keys there is nothing to complete, and the plan knows all keys of its lines.
        complete = flat.complete if plan.reads_any(flat.told_by) else None
        try:
            documents = parse_lines(lines)
            if documents is None or (complete is not None and not all(map(complete, documents))):
                return None
            return plan.parse_columns(documents)
        except MemoryError:
            raise
        except Exception:
            return None

    def _add_alone(self, plan: ColumnPlan, line: bytes, chunk: Chunk) -> bool:
        """Append one line; of a line with lists, only the values needed become Python objects."""
        try:
            fields = parse_fast(line, lazy=plan.lazy)
            if fields is None or not self._is_complete(fields, plan):
                return False
            row = plan.parse_row(fields)
            lists = plan.parse_lists(fields) if row is not None and plan.lazy else None
        except MemoryError:
            raise
        except Exception:
            return False
        if row is None or (plan.lazy and lists is None):
            return False
        batch = self._batch(plan, chunk)
        batch.rows.append(row)
        if lists is not None:
            batch.sizes.append(lists[0])
            batch.arrays.append(lists[1])
        return True

    def _is_complete(self, fields: Any, plan: ColumnPlan) -> bool:
        """Complete a line without lists; return False if the adapter must read it."""
        complete = None if self._flat is None or plan.lazy else self._flat.complete
        return complete is None or complete(fields)

    def _batch(self, plan: ColumnPlan, chunk: Chunk) -> ColumnBatch:
        """Return the batch to append to: the chunk's last one if it has this plan, otherwise a new one."""
        last = chunk.parts[-1] if chunk.parts else None
        if isinstance(last, ColumnBatch) and last.plan is plan:
            return last
        batch = ColumnBatch(plan, self._path, self._step, split=self._split)
        chunk.parts.append(batch)
        return batch
