"""Counts failures by class, step and environment; lines are read only where the log names no class."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.outcomes.failure_classes import (
    CLASSES,
    KINDS,
    NOT_READ,
    Ending,
    Failure,
    inferred_failure,
    logged_failure,
)
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN, discarded_split
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record, file_order
from rlpanel.store.query.filter_columns import answer_columns
from rlpanel.store.query.filter_syntax import MAX_CHARS, quote
from rlpanel.store.snapshot.prompt_grid import pass_rule
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Column by which environments are told apart; examples of a class; seconds between two reports of progress.
ENVIRONMENT_COLUMN, EXAMPLES, PULSE = "env", 20, 0.25
#: Characters that a filter leaves for the other conditions of an address.
_FILTER_CHARS = MAX_CHARS - 200


@dataclass(frozen=True)
class FailureExample:
    """A sample of a class, with the words that place it there."""

    uid: str
    step: int
    inferred: bool
    evidence: str
    place: str


@dataclass(frozen=True)
class FailureClass:
    """One class of failures.

    Attributes
    ----------
    name, kind : str
        Of `failure_classes.CLASSES`, and infrastructure, limit, policy or unknown.
    count, inferred : int
        Samples, and those of them whose class was inferred from texts.
    first_step : int
    by_step : ndarray of int, shape (S,)
        Number at each of the study's steps.
    by_environment : dict of str to int
    examples : tuple of FailureExample
        The newest first.
    where : str
        Filter that shows its samples.
    shown : int
        Number of samples that the filter shows; fewer than ``count`` if it would be too long.
    """

    name: str
    kind: str
    count: int
    inferred: int
    first_step: int
    by_step: np.ndarray
    by_environment: dict[str, int]
    examples: tuple[FailureExample, ...]
    where: str
    shown: int


@dataclass(frozen=True)
class FailureStudy:
    """Results so far; ``classes`` is empty while lines are read.

    Attributes
    ----------
    read, total : int
        Lines that were read, and that are to be read.
    samples, failed, unjudged : int
        Samples of the split with those discarded from it; those that failed; those with neither a reward nor
        a status that says how they ended.
    unread : int
        Failed samples whose line cannot be read any more.
    steps, of_step : ndarray of int, shape (S,)
        Steps, and the number of samples of each.
    least : float
        Reward from which on a sample passes; NaN if rewards are graded, or not logged.
    classes : tuple of FailureClass
        Those that occur.
    """

    read: int
    total: int
    samples: int = 0
    failed: int = 0
    unjudged: int = 0
    unread: int = 0
    least: float = np.nan
    steps: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    of_step: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    classes: tuple[FailureClass, ...] = ()


class FailureReader:
    """Classes of the samples of a run that were read; a run that grows is read on.

    Parameters
    ----------
    index : RunIndex
    """

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], Failure] = {}

    def study(self, view: RunView, per_step: int | None = None) -> Iterator[FailureStudy]:
        """Yield progress, and last the failures of the view's split and of the samples discarded from it.

        Parameters
        ----------
        view : RunView
        per_step : int, optional
            Most lines of a step that are read; all by default. Others without a logged class are `NOT_READ`.
        """
        snapshot = view.snapshot
        rows = _rows(snapshot)
        rule = pass_rule(snapshot) if snapshot.has_number("reward") else None
        # A share of the best reward is no verdict: rewards are graded, and a lower one is no failure.
        least = np.nan if rule is None or rule.origin == "range" else rule.reward
        ends = _endings(snapshot, rows, least)
        failed = [at for at, end in enumerate(ends) if end.failed or _lacks_verdict(snapshot, rows, at, end)]
        found: dict[int, Failure] = {}
        open_ends: list[int] = []
        for at in failed:
            logged = logged_failure(ends[at])
            if logged is not None:
                found[at] = logged
            else:
                open_ends.append(at)
        chosen = _chosen(open_ends, snapshot.metadata("step")[rows], per_step)
        found |= {at: Failure(NOT_READ) for at in set(open_ends) - set(chosen)}
        unread = 0
        begun = time.monotonic()
        for done, at in enumerate(self._in_file_order(snapshot, rows, chosen)):
            failure = self._infer(snapshot, int(rows[at]), ends[at])
            unread += failure is None
            found[at] = failure or Failure(NOT_READ)
            if time.monotonic() - begun > PULSE:
                begun = time.monotonic()
                yield FailureStudy(done + 1, len(chosen))
        yield _result(snapshot, rows, ends, found, len(chosen), unread, least)

    def _in_file_order(self, snapshot: Snapshot, rows: np.ndarray, chosen: Sequence[int]) -> Iterator[int]:
        at = np.array(chosen, np.int64)
        yield from at[file_order(snapshot, rows[at])].tolist() if len(at) else ()

    def _infer(self, snapshot: Snapshot, row: int, end: Ending) -> Failure | None:
        """Return the class of a sample by its texts; None if its line cannot be read."""
        key = snapshot.uid(row), int(snapshot.metadata("hash")[row])
        with self._lock:
            if key in self._known:
                return self._known[key]
        try:
            record = fetch_record(self._index, snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            return None
        columns = answer_columns(self._index, snapshot)
        answer: Mapping[str, str] = {}
        if columns.chosen is not None and record.texts.get("ground_truth"):
            read = columns.read(record.texts)
            answer = {"answer": read.get(columns.answer, ""), "match": read.get(columns.match, "")}
        failure = inferred_failure(end, record, answer)
        with self._lock:
            self._known[key] = failure
        return failure


def failures_of(index: RunIndex) -> FailureReader:
    """Return the reader of a run, which keeps what it found as long as the run is open."""
    with _GUARD:
        return _READERS.setdefault(index, FailureReader(index))


_GUARD = threading.Lock()
_READERS: WeakKeyDictionary[RunIndex, FailureReader] = WeakKeyDictionary()


def _rows(snapshot: Snapshot) -> np.ndarray:
    """Return the rows of a split and those discarded from it, each episode's outcome once."""
    alive = snapshot.alive
    if SPLIT_COLUMN in snapshot.labels:
        codes, names = snapshot.label_codes(SPLIT_COLUMN)
        wanted = {snapshot.split, discarded_split(snapshot.split)}
        own = np.array([*(name in wanted for name in names), snapshot.split == TRAIN])
        alive = alive | (own[codes] & snapshot.alive_in_all_splits)
    return snapshot.with_outcome(np.flatnonzero(alive))


def _endings(snapshot: Snapshot, rows: np.ndarray, least: float) -> list[Ending]:
    def texts(name: str) -> list[str]:
        if name not in snapshot.labels:
            return [""] * len(rows)
        return [each or "" for each in snapshot.label(name, rows)]

    def numbers(name: str) -> list[float]:
        known = snapshot.is_stored(name)
        return snapshot.number(name)[rows].tolist() if known else [np.nan] * len(rows)

    columns = (texts("status"), texts("status_reason"), texts("finish_reason"), numbers("truncated"))
    reached = least - EQUAL_WITHIN
    return [Ending(*each, reached) for each in zip(*columns, numbers("reward"), strict=True)]


def _lacks_verdict(snapshot: Snapshot, rows: np.ndarray, at: int, end: Ending) -> bool:
    """Return whether a sample has no reward, and a judge gave no verdict."""
    if np.isfinite(end.reward) or not snapshot.is_stored("judge_missing"):
        return False
    return bool(snapshot.number("judge_missing")[rows[at]] > 0)


def _chosen(open_ends: Sequence[int], step: np.ndarray, most: int | None) -> list[int]:
    """Return at most so many positions of each step, spread over it."""
    if most is None:
        return list(open_ends)
    by_step: dict[int, list[int]] = {}
    for at in open_ends:
        by_step.setdefault(int(step[at]), []).append(at)
    chosen: list[int] = []
    for found in by_step.values():
        places = np.unique(np.linspace(0, len(found) - 1, min(most, len(found))).astype(int))
        chosen += [found[place] for place in places.tolist()]
    return chosen


def _result(
    snapshot: Snapshot,
    rows: np.ndarray,
    ends: Sequence[Ending],
    found: Mapping[int, Failure],
    read: int,
    unread: int,
    least: float,
) -> FailureStudy:
    step = snapshot.metadata("step")[rows]
    steps, of_step = np.unique(step, return_counts=True)
    has_env = ENVIRONMENT_COLUMN in snapshot.labels
    environments = snapshot.label(ENVIRONMENT_COLUMN, rows) if has_env else [None] * len(rows)
    members: dict[str, list[int]] = {}
    for at in sorted(found):
        members.setdefault(found[at].name, []).append(at)
    classes = []
    for name in CLASSES:
        if name not in members:
            continue
        own = np.array(members[name])
        counts: dict[str, int] = {}
        for each in own.tolist() if has_env else ():
            key = environments[each] or ""
            counts[key] = counts.get(key, 0) + 1
        newest = own[np.argsort(-step[own], kind="stable")]
        examples = tuple(
            FailureExample(
                uid, int(step[each]), found[each].inferred, found[each].evidence, found[each].place
            )
            for each, uid in zip(
                newest[:EXAMPLES].tolist(), snapshot.uids(rows[newest[:EXAMPLES]]), strict=True
            )
        )
        where, shown = _filter(snapshot, rows[newest])
        by_step = np.bincount(np.searchsorted(steps, step[own]), minlength=len(steps))
        inferred = sum(found[each].inferred for each in own.tolist())
        classes.append(
            FailureClass(
                name,
                KINDS[name],
                len(own),
                inferred,
                int(step[own].min()),
                by_step,
                counts,
                examples,
                where,
                shown,
            )
        )
    unjudged = sum(
        not np.isfinite(end.reward) and not end.status and at not in found for at, end in enumerate(ends)
    )
    return FailureStudy(
        read, read, len(rows), len(found), unjudged, unread, least, steps, of_step, tuple(classes)
    )


def _filter(snapshot: Snapshot, rows: np.ndarray) -> tuple[str, int]:
    """Return a filter that shows these rows, or the first of them that fit, and their number."""
    lines, files = snapshot.lines(rows).tolist(), [snapshot.file(row) for row in rows.tolist()]
    by_file: dict[str, list[int]] = {}
    size = shown = 0
    for name, line in zip(files, lines, strict=True):
        size += len(str(line)) + 2 + (0 if name in by_file else len(quote(name)) + 32)
        if size > _FILTER_CHARS or not line:
            break
        by_file.setdefault(name, []).append(line)
        shown += 1
    parts = [
        f"file == {quote(name)} and line in [{', '.join(map(str, sorted(set(found))))}]"
        for name, found in by_file.items()
    ]
    return " or ".join(parts if len(parts) == 1 else [f"({part})" for part in parts]), shown
