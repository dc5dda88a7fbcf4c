"""A question to a run, answered bit by bit: which samples pass a filter and hold a text, in which order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlpanel.errors import FilterError, RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch_texts
from rlpanel.store.query.filter import LABEL, NUMBER, Filter, FilterResult, Truth
from rlpanel.store.query.filter_columns import COPIES, GROUP_REWARD, Scope
from rlpanel.store.query.notes import Notes
from rlpanel.store.query.order import Order, parse_order
from rlpanel.store.query.text_predicate import ANY, TextPredicate
from rlpanel.store.query.text_scan import ScannedRows, scan
from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class QuerySpec:
    """What is asked.

    Attributes
    ----------
    step : int or None
        One step; None asks the whole run.
    older : bool
        Whether samples of older attempts are asked too.
    filter : str
        An expression (`rlpanel.store.query.filter_syntax`); empty passes all.
    search : str
        A text sought in prompts and responses, or a regular expression ``/like this/``.
    sort : str
        A number column, with ``-`` before it from the largest down; empty keeps the order of arrival.
    """

    step: int | None = None
    older: bool = False
    filter: str = ""
    search: str = ""
    sort: str = ""


@dataclass(frozen=True)
class QueryResult:
    """What was found so far.

    Attributes
    ----------
    rows : ndarray of int
        Rows that pass, sorted as asked.
    of : int
        Samples that were asked about.
    finished : bool
    bytes_done, bytes_total : int
        Of lines that a text is sought in; 0 where none is.
    seconds : float
    percentiles : dict of str to float
        What p99 and the like came to.
    columns : list of str
        Number and label columns that the question names.
    unread : int
        Samples whose bytes are gone.
    extra : dict of str to ndarray
        Values at ``rows`` of columns that the question names and the store does not hold.
    """

    rows: np.ndarray
    of: int
    finished: bool = True
    bytes_done: int = 0
    bytes_total: int = 0
    seconds: float = 0.0
    percentiles: Mapping[str, float] = field(default_factory=dict)
    columns: Sequence[str] = ()
    unread: int = 0
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)


class Query:
    """A question that was understood, put to one snapshot.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    question : QuerySpec
    notes : Notes, optional
        What readers left, as columns.

    Attributes
    ----------
    rows : ndarray of int
        The rows it is about.
    reads : int
        Bytes of log that it may have to look through.
    scope : Scope
        Those rows as a table.
    patient : bool
        Whether it may take long whatever its size: a regular expression is asked.

    Raises
    ------
    FilterError
        If the filter, the search or the sort cannot be understood.
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
        self.rows = snapshot.rows_of(step, older=question.older)
        copies = None if step is None else lambda: _copies(index, snapshot, self.rows)
        self.scope = Scope(snapshot, self.rows, notes, copies)
        kinds = self.scope.kinds()
        self._filter = Filter(question.filter, kinds) if question.filter.strip() else None
        self._search = search_test(question.search)
        self._order = _checked_order(question.sort, kinds)
        self._tests = [
            *(self._filter.texts if self._filter else ()),
            *([self._search] if self._search else ()),
        ]
        self.patient = any(test.word == "matches" for test in self._tests)
        self.columns = [
            *(self._filter.columns if self._filter else ()),
            *([self._order.name] if self._order else ()),
        ]
        needed = bool(self._tests) or COPIES in self.columns
        self.reads = int(snapshot.place("length")[self.rows].sum(dtype=np.int64)) if needed else 0

    def outcomes(self) -> Iterator[QueryResult]:
        """What is found, from the first bit to all of it; the last outcome is finished.

        Raises
        ------
        FilterError
            If a regular expression takes too long.
        """
        started = time.monotonic()
        percentiles: dict[str, float] = {}
        truth = self._truth(FilterResult(self.scope, percentiles=percentiles))
        found = np.flatnonzero(truth.sure)
        open_places = np.flatnonzero(truth.maybe & ~truth.sure)
        last: ScannedRows | None = None
        if len(open_places):
            open_rows = self.rows[open_places]
            for last in scan(self._index, self._snapshot, open_rows, self._tests):
                places = open_places[np.searchsorted(open_rows, last.rows)]
                part = FilterResult(self.scope.only(places), last.texts, percentiles)
                found = np.concatenate([found, places[self._truth(part).sure]])
                yield self._outcome(found, started, percentiles, last, finished=False)
        yield self._outcome(found, started, percentiles, last, finished=True)

    def _truth(self, asked: FilterResult) -> Truth:
        rows = len(asked.table)
        everything = np.ones(rows, bool)
        truth = self._filter.ask(asked) if self._filter else Truth(everything, everything)
        if self._search is None:
            return truth
        held = asked.texts.get(self._search)
        sure = truth.sure & held if held is not None else np.zeros(rows, bool)
        return Truth(sure, truth.maybe if held is None else truth.maybe & held)

    def _outcome(
        self,
        found: np.ndarray,
        started: float,
        percentiles: Mapping[str, float],
        batch: ScannedRows | None,
        *,
        finished: bool,
    ) -> QueryResult:
        places = self._sorted(found)
        named = [name for name in (GROUP_REWARD, COPIES) if name in self.columns]
        return QueryResult(
            rows=self.rows[places],
            extra={name: self.scope.number(name)[places] for name in named},
            of=len(self.rows),
            finished=finished,
            bytes_done=batch.bytes_done if batch else 0,
            bytes_total=batch.bytes_total if batch else 0,
            seconds=time.monotonic() - started,
            percentiles=dict(percentiles),
            columns=self.columns,
            unread=batch.unread if batch else 0,
        )

    def _sorted(self, places: np.ndarray) -> np.ndarray:
        """Places in the order asked for; rows without a value come last."""
        places = np.sort(places)
        if self._order is None:
            return places
        values = self.scope.number(self._order.name)[places]
        if self._order.falling:
            values = -values
        return places[np.argsort(values, kind="stable")]


def search_test(text: str) -> TextPredicate | None:
    """The test that a search box's text stands for.

    Raises
    ------
    FilterError
        If ``/…/`` holds no regular expression.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return TextPredicate(ANY, "matches", text[1:-1])
    return TextPredicate(ANY, "contains", text)


def _checked_order(sort: str, kinds: Mapping[str, str]) -> Order | None:
    order = parse_order(sort)
    if order and kinds.get(order.name) != NUMBER:
        text = kinds.get(order.name) == LABEL
        what = "holds texts" if text else "is not in this run, or not in all steps at once"
        raise FilterError(f"cannot sort by {order.name!r}: it {what}")
    return order


def _copies(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """How often each row's prompt and response stand among these rows, shape (N,)."""
    keys = [_pair(index, snapshot, row) for row in rows.tolist()]
    count: dict[tuple[str | None, ...], int] = {}
    for key in keys:
        count[key] = count.get(key, 0) + 1
    return np.array([count[key] for key in keys], float)


def _pair(index: RunIndex, snapshot: Snapshot, row: int) -> tuple[str | None, ...]:
    try:
        texts = fetch_texts(index, snapshot, row)
    except (RLPanelError, IndexError):  # its file was written anew; it equals nothing
        return (snapshot.uid(row),)
    return texts.get("prompt"), texts.get("response")
