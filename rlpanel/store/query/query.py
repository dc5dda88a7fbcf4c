"""Queries over a run: the samples that pass a filter and contain a text, sorted, with partial results.

Sort order as a text: the name of a number column, with ``-`` in front for descending order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from rlpanel.errors import FilterError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.query.filter import LABEL, NUMBER, Filter, FilterInput, Truth
from rlpanel.store.query.filter_columns import COPIES, GROUP_REWARD, FilterScope, answer_columns
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.text_predicate import ANY, TextPredicate
from rlpanel.store.query.text_scan import ScannedRows, scan, scan_newest_first
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.final_answers import AUTO


@dataclass(frozen=True)
class Order:
    """A sort order by one column.

    Attributes
    ----------
    name : str
        The column.
    falling : bool
        True if the order is descending.
    """

    name: str
    falling: bool = False

    @property
    def text(self) -> str:
        """Form used in links; a name that would be ambiguous is put in backticks, as in a filter."""
        plain = self.name and self.name[0] not in "-`"
        return f"{'-' * self.falling}{self.name if plain else f'`{self.name}`'}"


def parse_order(text: str) -> Order | None:
    """Return the order that a text describes; None if it is empty."""
    name = text.removeprefix("-")
    if len(name) > 1 and name[0] == name[-1] == "`":
        return Order(name[1:-1], text.startswith("-"))
    return Order(name, text.startswith("-")) if name else None


@dataclass(frozen=True)
class QuerySpec:
    """Description of a query.

    Attributes
    ----------
    step : int, (int, int) or None
        One step, or the first and the last of several; None for the whole run.
    older : bool
        True if samples of older attempts are included.
    filter : str
        Filter expression (`rlpanel.store.query.filter_syntax`); empty passes all samples.
    search : str
        Text to find in prompts and responses, or a regular expression ``/like this/``.
    sort : str
        A number column, with ``-`` in front for descending order; empty keeps the order of arrival.
    newest_first : bool
        Search the texts of the newest steps first, and without a sort order sort by descending step.
    answer_rule : str
        How answers are read: a key of `rlpanel.texts.final_answers.RULES`, or the rule that fits the run.
    """

    step: int | tuple[int, int] | None = None
    older: bool = False
    filter: str = ""
    search: str = ""
    sort: str = ""
    newest_first: bool = False
    answer_rule: str = AUTO


@dataclass(frozen=True)
class QueryResult:
    """Result of a query so far.

    Attributes
    ----------
    rows : ndarray of int
        Rows that pass, in the query's sort order.
    total : int
        Number of samples in the query's scope.
    finished : bool
    bytes_done, bytes_total : int
        Size of the lines to search for texts; 0 without a text search.
    seconds : float
        Time since the query started.
    percentiles : dict of str to float
        Values of the percentiles in the filter, such as p99.
    columns : list of str
        Number and label columns that the query uses.
    unread : int
        Number of samples whose lines are no longer in their files.
    undecided : int
        Number of samples in scope whose texts are still to be searched.
    extra : dict of str to ndarray
        Values at ``rows`` of computed columns that the query uses, since the store does not have them.
    tests : tuple of TextPredicate
        The query's conditions on texts.
    """

    rows: np.ndarray
    total: int
    finished: bool = True
    bytes_done: int = 0
    bytes_total: int = 0
    seconds: float = 0.0
    percentiles: Mapping[str, float] = field(default_factory=dict)
    columns: Sequence[str] = ()
    unread: int = 0
    undecided: int = 0
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    tests: tuple[TextPredicate, ...] = ()


def rows_of_steps(
    snapshot: Snapshot, steps: int | tuple[int, int] | None, *, older: bool = False
) -> np.ndarray:
    """Return the rows of a step, of several or of all, in order of arrival; see `Snapshot.rows_of`."""
    if not isinstance(steps, tuple):
        return snapshot.rows_of(steps, older=older)
    rows = snapshot.rows_of(None, older=older)
    step = snapshot.metadata("step")[rows]
    return rows[(step >= steps[0]) & (step <= steps[1])]


class Query:
    """A parsed query on one snapshot.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    question : QuerySpec
    notes : Notes, optional
        Adds the columns ``tag`` and ``note``.

    Attributes
    ----------
    rows : ndarray of int
        The rows in its scope.
    reads : int
        Number of bytes of the log that it may have to read.
    scope : FilterScope
        These rows as a table.
    patient : bool
        True if it may take long whatever its size, because it has a regular expression.

    Raises
    ------
    FilterError
        If the filter, the search or the sort order is invalid.
    """

    def __init__(
        self,
        index: RunIndex,
        snapshot: Snapshot,
        question: QuerySpec,
        notes: Notes | None = None,
    ) -> None:
        self._index, self._snapshot, self._question = index, snapshot, question
        step = question.step
        self.rows = rows_of_steps(snapshot, step, older=question.older)
        copies = None if not isinstance(step, int) else lambda: _copies(index, snapshot, self.rows)
        self.scope = FilterScope(snapshot, self.rows, notes, copies)
        kinds = self.scope.kinds()
        self._filter = Filter(question.filter, kinds) if question.filter.strip() else None
        self._search = parse_search(question.search)
        self._order = _checked_order(question.sort, kinds)
        self._tests = [
            *(self._filter.texts if self._filter else ()),
            *([self._search] if self._search else ()),
        ]
        self._answers = None
        if {test.field for test in self._tests} & {*self.scope.answers.names}:
            self._answers = answer_columns(index, snapshot, question.answer_rule)
        self.patient = any(test.word == "matches" for test in self._tests) or (
            self._filter is not None and self._filter.patient
        )
        self.columns = [
            *(self._filter.columns if self._filter else ()),
            *([self._order.name] if self._order else ()),
        ]
        needed = bool(self._tests) or COPIES in self.columns
        self.reads = int(snapshot.metadata("length")[self.rows].sum(dtype=np.int64)) if needed else 0

    def results(self) -> Iterator[QueryResult]:
        """Run the query: yield partial results, then the complete one, which is marked as finished.

        Raises
        ------
        FilterError
            If a regular expression takes too long.
        """
        started = time.monotonic()
        percentiles: dict[str, float] = {}
        truth = self._truth(FilterInput(self.scope, percentiles=percentiles))
        passing = np.flatnonzero(truth.sure)
        undecided = np.flatnonzero(truth.maybe & ~truth.sure)
        batch: ScannedRows | None = None
        if len(undecided):
            undecided_rows, left = self.rows[undecided], len(undecided)
            search = scan_newest_first if self._question.newest_first else scan
            derive = self._answers.read if self._answers else None
            for batch in search(self._index, self._snapshot, undecided_rows, self._tests, derive):
                rows, texts = batch.rows, batch.texts
                if self._search is not None:  # most samples lack the text
                    found = texts[self._search]
                    rows, texts = rows[found], {test: passed[found] for test, passed in texts.items()}
                positions = undecided[np.searchsorted(undecided_rows, rows)]
                part = FilterInput(self.scope.subset(positions), texts, percentiles)
                passing = np.concatenate([passing, positions[self._truth(part).sure]])
                left -= len(batch.rows)
                yield self._result(passing, started, percentiles, batch, undecided=left, finished=False)
        yield self._result(passing, started, percentiles, batch, undecided=0, finished=True)

    def count_alone(self, condition: str) -> int | None:
        """Return how many rows a filter's condition finds by itself; None if texts had to be read for it."""
        truth = Filter(condition, self.scope.kinds()).evaluate(FilterInput(self.scope))
        return int(truth.sure.sum()) if truth.sure is truth.maybe else None

    def _truth(self, inputs: FilterInput) -> Truth:
        """Evaluate the filter and the search."""
        rows = len(inputs.table)
        all_rows = np.ones(rows, bool)
        truth = self._filter.evaluate(inputs) if self._filter else Truth(all_rows, all_rows)
        if self._search is None:
            return truth
        contains = inputs.texts.get(self._search)
        sure = truth.sure & contains if contains is not None else np.zeros(rows, bool)
        return Truth(sure, truth.maybe if contains is None else truth.maybe & contains)

    def _result(
        self,
        passing: np.ndarray,
        started: float,
        percentiles: Mapping[str, float],
        batch: ScannedRows | None,
        *,
        undecided: int,
        finished: bool,
    ) -> QueryResult:
        positions = self._sorted(passing)
        computed = [name for name in (GROUP_REWARD, COPIES) if name in self.columns]
        return QueryResult(
            rows=self.rows[positions],
            extra={name: self.scope.number(name)[positions] for name in computed},
            total=len(self.rows),
            finished=finished,
            bytes_done=batch.bytes_done if batch else 0,
            bytes_total=batch.bytes_total if batch else 0,
            seconds=time.monotonic() - started,
            percentiles=dict(percentiles),
            columns=self.columns,
            unread=batch.unread if batch else 0,
            undecided=undecided,
            tests=tuple(self._tests),
        )

    def _sorted(self, positions: np.ndarray) -> np.ndarray:
        """Return positions in the query's sort order; rows without a value come last."""
        if (positions[1:] < positions[:-1]).any():  # batches of found texts
            positions = np.sort(positions)
        if self._order is None:
            newest_first = -self._snapshot.metadata("step")[self.rows[positions]]
            return (
                positions[np.argsort(newest_first, kind="stable")]
                if self._question.newest_first
                else positions
            )
        values = self.scope.number(self._order.name)[positions]
        if self._order.falling:
            np.negative(values, out=values)
        return positions[np.argsort(values, kind="stable")]


def parse_search(text: str) -> TextPredicate | None:
    """Return the text test for the content of a search box; None if it is empty.

    Raises
    ------
    FilterError
        If the text between slashes is not a valid regular expression.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return TextPredicate(ANY, "matches", text[1:-1])
    return TextPredicate(ANY, "contains", text)


def _checked_order(sort: str, kinds: Mapping[str, str]) -> Order | None:
    """Parse a sort order; FilterError if it is not by a number column."""
    order = parse_order(sort)
    if order and kinds.get(order.name) != NUMBER:
        is_label = kinds.get(order.name) == LABEL
        reason = "holds texts" if is_label else "does not exist in this run, or only for single steps"
        near = get_close_matches(order.name, [name for name in kinds if kinds[name] == NUMBER], n=3)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        raise FilterError(f"cannot sort by {order.name!r}: it {reason}{hint}")
    return order


def _copies(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return how many of these rows have each row's prompt and response, shape (N,)."""
    texts = fetch_all_texts(index, snapshot, rows)
    keys = [_text_key(row, row_texts) for row, row_texts in zip(rows.tolist(), texts, strict=True)]
    count = Counter(keys)
    return np.array([count[key] for key in keys], float)


def _text_key(row: int, texts: Mapping[str, str] | None) -> Hashable:
    """Return the prompt and the response; the row itself if its texts cannot be read: it equals no other."""
    return row if texts is None else (texts.get("prompt"), texts.get("response"))
