"""Finds files in which a resumed job logged steps again, and steps of a later epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.sources.records.path_numbers import epoch_from_path, rank_of
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.columns.splits import TRAIN

# -- training progress ---------------------------------------------------------------------------------
# Tells from columns that grow during training whether steps that come again are of a later epoch.
#
# A job that counts its steps anew in each epoch logs the same steps, but an ``epoch`` or another counter goes
# on. In a job that was resumed, the counter repeats with the steps.


#: Counters that go on where steps begin anew.
COUNTERS = (
    *("epoch", "epoch_id", "epoch_idx", "epoch_index", "current_epoch", "data_epoch"),
    *("global_step", "global_steps", "total_steps", "samples_seen"),
)


def goes_on(columns: Columns, before: np.ndarray, after: np.ndarray) -> bool:
    """Return True if a counter is higher in all rows of ``after`` than in those of ``before``."""
    if not (len(before) and len(after)):
        return False
    for name in COUNTERS:
        counter = columns.numbers.get(name)
        if counter is None:
            continue
        values = counter.view(columns.rows)
        if values[after].min() > values[before].max():  # NaN is never above or below
            return True
    return False


# -- resumed files -------------------------------------------------------------------------------------
# Finds files in which a resumed job logged steps again that an earlier file has.
#
# Files are compared whose lines have no session of the recorder, per rank and split. Files that begin with
# the same step are those of one attempt, as processes write them side by side, unless their times differ. **A
# later group of files is another attempt if it repeats the steps of an earlier one with about the same
# prompts at each step, and together they have at least one and a half times the usual number of samples.** It
# begins with a later step, or, with several steps, after the last time of the earlier group. From that step
# on, the earlier group's rows then belong to an older attempt.
#
# Files that share a step in halves, as a rotated log does, files of other prompts, as data sets have, files
# that were written at the same time, and those whose names give other ranks are left as they are. So are
# those of a later epoch.


#: Columns with the time of a sample: numbers, or texts that begin with a date.
_TIMES = ("time", "timestamp", "wall_time", "created_at", "ts")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: Share of the usual number of samples that steps of two attempts have together, at least.
_FULL = 1.5
#: Share of the newer attempt's prompts that the older one has at the same steps, at least.
_SAME = 0.5

#: Rank and split.
Place = tuple[int, str]
#: First and last step by file number.
Spans = dict[int, tuple[int, int]]


@dataclass
class _Group:
    """Files of one attempt with the rows of them, their steps and prompts."""

    files: list[int]
    rows: np.ndarray
    steps: np.ndarray
    prompts: np.ndarray
    start: Any = None
    end: Any = None

    @property
    def first(self) -> int:
        """The lowest step."""
        return int(self.steps.min())

    @property
    def last(self) -> int:
        """The highest step."""
        return int(self.steps.max())

    def pairs(self, back: int = 0) -> np.ndarray:
        """Return a key of step and prompt for each row, with steps moved by ``back``."""
        return mix(self.prompts) ^ (self.steps - back).astype(np.uint64)


class ResumedFiles:
    """Determines from which step on the files of a run belong to an older attempt.

    Parameters
    ----------
    files : sequence of str
        Names by file number; may grow.

    Attributes
    ----------
    cuts : dict
        By rank and split: the step from which on rows of a file belong to an older attempt, by its number.
    doubtful : dict
        Steps that two files have by rank and split, where it is not sure that a job was resumed.
    epochs : dict
        Number of later epochs that begin with another file, by rank and split.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self.cuts: dict[Place, dict[int, int]] = {}
        self.doubtful: dict[Place, tuple[int, ...]] = {}
        self.epochs: dict[Place, int] = {}

    def cut(self, file: int, rank: int, split: str) -> float:
        """Return the step from which on rows of a file belong to an older attempt; infinity for none."""
        return self.cuts.get((rank, split), {}).get(file, math.inf)

    def update(
        self, spans: Mapping[Place, Spans], rows_of: Callable[[Place], np.ndarray], columns: Columns
    ) -> set[Place]:
        """Determine the cuts anew; return the ranks and splits of which other rows count now.

        Parameters
        ----------
        spans : mapping
            First and last step of each file, for the ranks and splits of which these have changed.
        rows_of : callable
            Returns the rows of a rank and split without a session, of files that may be resumed.
        columns : Columns
        """
        changed = set()
        has_times = any(name in columns.numbers or name in columns.labels for name in _TIMES)
        for place, files in spans.items():
            before = self.cuts.get(place, {})
            for known in (self.doubtful, self.epochs):
                known.pop(place, None)
            cuts = self._compare(place, rows_of(place), columns) if _overlap(files, equal=has_times) else {}
            if cuts != before:
                self.cuts[place] = cuts
                changed.add(place)
        return changed

    def _compare(self, place: Place, rows: np.ndarray, columns: Columns) -> dict[int, int]:
        """Return the cut of each file that belongs to an older attempt."""
        groups = _groups(columns, rows)
        cuts: dict[int, int] = {}
        for at, newer in enumerate(groups):
            found = [
                older
                for older in groups[:at]
                if _may_precede(older, newer, place[1]) and not self._names_ranks(older, newer)
            ]
            if not found:
                continue
            older = _joined(found, cuts, columns)
            common = np.intersect1d(older.steps, newer.steps)
            if not len(common) or not _is_full(groups, older, newer, common):
                continue
            inside = [each.rows[np.isin(each.steps, common)] for each in (older, newer)]
            if goes_on(columns, *inside) or self._names_epochs(older, newer):
                self.epochs[place] = self.epochs.get(place, 0) + 1
                continue
            if not np.isin(newer.prompts, older.prompts).any():
                continue
            later = older.end is not None and newer.start is not None
            is_new = newer.first > older.first
            if _has_same_prompts(older, newer, common) or (later and is_new and len(common) > 1):
                cuts |= {file: min(newer.first, cuts.get(file, newer.first)) for file in older.files}
            elif is_new and len(common) > 1:
                self.doubtful[place] = (*self.doubtful.get(place, ()), *common.tolist())
        return cuts

    def _names_ranks(self, older: _Group, newer: _Group) -> bool:
        """Return True if the names of both groups' files give ranks, which differ: both wrote at once."""
        ranks = [{rank_of(self._files[file]) for file in group.files} for group in (older, newer)]
        return -1 not in (ranks[0] | ranks[1]) and ranks[0].isdisjoint(ranks[1])

    def _names_epochs(self, older: _Group, newer: _Group) -> bool:
        """Return True if the names of the newer files give a later epoch than those of the older ones."""
        epochs = [[epoch_from_path(self._files[file]) for file in group.files] for group in (older, newer)]
        known = [[epoch for epoch in found if epoch is not None] for found in epochs]
        return all(known) and max(known[0]) < min(known[1])


def _overlap(spans: Spans, *, equal: bool) -> bool:
    """Return True if a file begins within the steps of an earlier one; ``equal`` includes its first step."""
    ordered = sorted(spans.values())
    highest, before = -math.inf, -math.inf  # last step of the files that begin earlier
    for index, (first, last) in enumerate(ordered):
        if index and first != ordered[index - 1][0]:
            before = highest
        if first <= (highest if equal and last > first else before):
            return True
        highest = max(highest, last)
    return False


def _groups(columns: Columns, rows: np.ndarray) -> list[_Group]:
    """Return the groups of files that were written side by side, in the order of first step and time."""
    file, step, prompt = (
        columns.metadata[name].view(columns.rows)[rows] for name in ("file", "step", "prompt_hash")
    )
    order = np.argsort(file, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(file[order])) + 1) if len(order) else []
    single = [
        _Group([int(file[part[0]])], rows[part], step[part], prompt[part], *_times(columns, rows[part]))
        for part in parts
    ]
    timed = all(group.start is not None for group in single)
    single.sort(key=lambda group: (group.first, group.start if timed else 0, group.files))
    groups: list[_Group] = []
    for group in single:
        last = groups[-1] if groups else None
        if last is not None and last.first == group.first and not (timed and group.start > last.end):
            last.files += group.files
            for name in ("rows", "steps", "prompts"):
                setattr(last, name, np.concatenate([getattr(last, name), getattr(group, name)]))
            if timed:
                last.end = max(last.end, group.end)
        else:
            groups.append(group if timed else _Group(group.files, group.rows, group.steps, group.prompts))
    return groups


def _times(columns: Columns, rows: np.ndarray) -> tuple[Any, Any]:
    """Return the first and the last time of some rows; None if not all have one."""
    for name in _TIMES:
        if name in columns.numbers:
            values = columns.numbers[name].view(columns.rows)[rows]
            if np.isfinite(values).all():
                return float(values.min()), float(values.max())
        if name in columns.labels:
            label = columns.labels[name]
            codes = np.unique(label.codes.view(columns.rows)[rows])
            texts = [label.names[code] for code in codes.tolist() if code >= 0]
            if codes[0] >= 0 and all(map(_DATE.match, texts)):
                return min(texts), max(texts)
    return None, None


def _may_precede(older: _Group, newer: _Group, split: str) -> bool:
    """Return True if steps and times allow that the newer group repeats steps of the older one."""
    if older.last < newer.first:
        return False
    timed = older.end is not None and newer.start is not None and type(older.end) is type(newer.start)
    if older.first == newer.first:
        # A job that began anew. Evaluations may be repeated, and so is a log of a single step.
        return timed and newer.start > older.end and split == TRAIN and older.last > older.first
    return not timed or newer.start > older.end


def _joined(groups: Sequence[_Group], cuts: Mapping[int, int], columns: Columns) -> _Group:
    """Return groups as one, without rows that a group between them has replaced."""
    rows = np.concatenate([group.rows for group in groups])
    file, step, prompt = (
        columns.metadata[name].view(columns.rows)[rows] for name in ("file", "step", "prompt_hash")
    )
    bounds = np.array([cuts.get(number, math.inf) for number in range(int(file.max()) + 1)])
    kept = step < bounds[file]
    end = None if any(group.end is None for group in groups) else max(group.end for group in groups)
    files = [number for group in groups for number in group.files]
    return _Group(files, rows[kept], step[kept], prompt[kept], None, end)


def _is_full(groups: Sequence[_Group], older: _Group, newer: _Group, common: np.ndarray) -> bool:
    """Return True if the common steps have together more samples than a step has, as halves of one do not."""
    steps, counts = np.unique(np.concatenate([group.steps for group in groups]), return_counts=True)
    others = counts[~np.isin(steps, common)]
    both = [np.array([np.count_nonzero(group.steps == step) for step in common]) for group in (older, newer)]
    usual = np.median(others) if len(others) else max(np.median(part) for part in both)
    return bool(np.median(both[0] + both[1]) >= _FULL * usual)


def _has_same_prompts(older: _Group, newer: _Group, common: np.ndarray) -> bool:
    """Return True if the newer group has the older one's prompts at the common steps.

    Prompts that other steps have as well say less: the newer group must then reach as far as the older one.
    """
    inside = np.isin(newer.steps, common)
    share = np.isin(newer.pairs()[inside], older.pairs()).mean()
    moved = np.isin(newer.pairs(1)[inside], older.pairs()).mean()
    return bool(share >= _SAME and (2 * moved <= share or newer.last >= older.last))
