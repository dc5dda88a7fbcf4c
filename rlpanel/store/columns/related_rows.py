"""Rows that belong together: equal lines, rows that a table repeats, and several rows of one episode.

Some trainers log the last samples they hold, whether new or not: they keep them in a queue of limited length,
and each line is the whole queue. Two lines of a step then overlap: the later one begins with the rows with
which the earlier one ends.

A unit is what the trainers score once: the rows of one split and step with the same episode, agent and
trajectory. The last row of a unit has the highest turn or, if none is logged, comes last by name of the file,
offset and part; so the order of reading does not matter.

A row without an episode, or with an empty one, is a unit of its own. So is one whose episode is a number
while group, agent, trajectory and turn are missing: that is a counter of the trainer, as in TRL's PPO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.sources.records.row_overlap import overlap
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.page_memory import allocate
from rlpanel.store.columns.splits import TRAIN_CODE, RowSelector, split_codes

#: New keys are collected in a Python set of at most this size, then merged into the sorted array.
MAX_RECENT = 65_536


def mix(keys: np.ndarray) -> np.ndarray:
    """Mix the bits of 64-bit keys, so that they are evenly distributed (the finalizer of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def has_key(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the mask of 64-bit keys that are among others, shape (N,).

    They are compared by sorting: before numpy 2.1, the table of `np.isin` fails for keys from 2^63 on.
    """
    return np.isin(keys, others, kind="sort")


class HashSet:
    """Set of all keys seen so far; reports which new keys are repeats.

    Attributes
    ----------
    has_repeats : bool
        Whether any added key was a repeat.
    """

    def __init__(self, max_recent: int = MAX_RECENT) -> None:
        self.has_repeats = False
        self._max_recent = max_recent
        self._sorted = np.empty(0, np.uint64)
        self._recent: set[int] = set()
        self._later: Callable[[], np.ndarray] | None = None

    def add_later(self, distinct: Callable[[], np.ndarray]) -> None:
        """Add keys, known to be distinct and not in the set, when other keys are added for the first time."""
        self._later = distinct

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Add keys and return a mask of repeats, including repeats within ``keys`` itself."""
        later, self._later = self._later, None
        if later is not None:
            self._add(later())
        repeats = self._add(keys)
        self.has_repeats |= bool(repeats.any())
        return repeats

    def _add(self, keys: np.ndarray) -> np.ndarray:
        if len(keys) > self._max_recent:
            return self._take_many(keys)
        before = self._in_sorted(keys)
        recent, new = self._recent, keys.tolist()
        if recent.isdisjoint(new) and len(set(new)) == len(new):
            recent.update(new)
        else:
            for position, key in enumerate(new):
                before[position] |= key in recent
                recent.add(key)
        if len(recent) > self._max_recent:
            self._merge_recent()
        return before

    def _take_many(self, keys: np.ndarray) -> np.ndarray:
        self._merge_recent()
        before, added = self._in_sorted(keys), np.sort(keys)
        repeated = added[1:][added[1:] == added[:-1]]
        if len(repeated):
            rows = np.flatnonzero(has_key(keys, repeated))
            order = rows[np.argsort(keys[rows], kind="stable")]
            before[order[1:][keys[order[1:]] == keys[order[:-1]]]] = True
        self._sorted = _merge_sorted(self._sorted, added)
        return before

    def _merge_recent(self) -> None:
        """Merge the recent keys into the sorted array."""
        added = np.fromiter(self._recent, np.uint64, len(self._recent))
        self._sorted, self._recent = _merge_sorted(self._sorted, np.sort(added)), set()

    def _in_sorted(self, keys: np.ndarray) -> np.ndarray:
        if not len(self._sorted):
            return np.zeros(len(keys), bool)
        order = np.argsort(keys)  # sorted lookups are faster: neighbours hit the same cache lines
        positions = np.searchsorted(self._sorted, keys[order]).clip(max=len(self._sorted) - 1)
        matches = np.empty(len(keys), bool)
        matches[order] = self._sorted[positions] == keys[order]
        return matches


def _merge_sorted(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Merge two sorted arrays."""
    merged = np.concatenate([first, second], out=allocate(len(first) + len(second), np.uint64))
    merged.sort(kind="stable")
    return merged


def equal_before(keys: Sequence[np.ndarray], place: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each row the number of rows before it that have the same keys.

    Parameters
    ----------
    keys : sequence of ndarray, shape (N,) each
    place : sequence of ndarray, shape (N,) each
        Order of the rows with the same keys; the first array decides first.

    Returns
    -------
    ndarray of int, shape (N,)
    """
    order = np.lexsort((*reversed(place), *keys))
    is_other = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    numbers = np.arange(len(order))
    first = np.maximum.accumulate(np.where(np.append(True, is_other), numbers, 0))
    before = np.empty(len(order), np.int64)
    before[order] = numbers - first
    return before


def is_copy(
    line: Sequence[np.ndarray], file: np.ndarray, offset: np.ndarray, has_session: np.ndarray
) -> np.ndarray:
    """Return a mask of the rows that copy an earlier line, if no two samples have equal lines by chance.

    A recorder writes each sample once. So equal lines that it wrote to one file are several samples, and the
    second such line of a file can only be a copy of the second one of another file.

    Parameters
    ----------
    line : sequence of ndarray, shape (N,) each
        Keys that equal lines have in common.
    file, offset : ndarray of int, shape (N,)
        Place of each line; files are numbered by name.
    has_session : ndarray of bool, shape (N,)
        Mask of the lines that rlpanel's recorder wrote.

    Returns
    -------
    ndarray of bool, shape (N,)
    """
    number = np.where(has_session, equal_before([*line, file], [offset]), 0)
    return equal_before([*line, number], [file, offset]) > 0


def repeated_rows(place: Mapping[str, np.ndarray], key: np.ndarray) -> np.ndarray:
    """Return a mask of rows that repeat a row of the table before, in the same step of the same file.

    A row is repeated if it belongs to the longest beginning of its table that is also the end of the table
    before. Equal rows of one table are no repetition.

    Parameters
    ----------
    place : mapping of str to ndarray of int, shape (N,)
        Columns ``file``, ``step``, ``offset`` and ``part``; a table is what has one offset.
    key : ndarray of uint64, shape (N,)
        Equal for rows with equal values.
    """
    order = np.lexsort([place[name] for name in ("part", "offset", "step", "file")])
    file, step, offset = (place[name][order] for name in ("file", "step", "offset"))
    is_new_step = (file[1:] != file[:-1]) | (step[1:] != step[:-1])
    starts = np.flatnonzero(np.concatenate([[True], is_new_step | (offset[1:] != offset[:-1])]))
    ends = np.append(starts[1:], len(order))
    mask = np.zeros(len(order), bool)
    for before, start, end in zip(starts, starts[1:], ends[1:], strict=False):
        if not is_new_step[start - 1]:
            tables = key[order[before:start]].tolist(), key[order[start:end]].tolist()
            mask[order[start : start + overlap(*tables)]] = True
    return mask


EPISODE, GROUP, AGENT, TRAJECTORY, TURN = "episode", "group", "agent", "trajectory", "turn"
#: Labels that tell the traces of an episode apart.
PLACES = (GROUP, AGENT, TRAJECTORY)
_MIN_ROWS = 1024


@dataclass(frozen=True)
class FurtherRows:
    """The rows whose outcome does not count, since their unit has a later row.

    Attributes
    ----------
    mask : ndarray of bool, shape (rows,)
    prompts : ndarray of uint64, shape (rows,)
        Hash of each row's prompt; for the last row of a unit, that of the unit's first row.
    """

    mask: np.ndarray
    prompts: np.ndarray


class EpisodeUnits:
    """Marks the further rows of a table; costs nothing until a row has an episode.

    Parameters
    ----------
    files : list of str
        Names by file number; may grow.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._seen = HashSet()
        #: With spare capacity; copied before a value that a snapshot sees changes.
        self._mask = np.zeros(0, bool)
        self._prompts = np.zeros(0, np.uint64)

    def add(self, columns: Columns, new: slice) -> set[int]:
        """Mark new rows, which are the last ones; return the steps that must be classified.

        Parameters
        ----------
        columns : Columns
        new : slice
            Rows that all count.
        """
        found = _unit_keys(columns, new)
        if len(self._mask):
            self._extend(columns, new)
        if found is None:
            return set()
        at, keys = found
        units, index = np.unique(keys, return_inverse=True)
        continued = self._seen.add(units)[index]
        if continued.any():
            return set(columns.metadata["step"].view(columns.rows)[new][at[continued]].tolist())
        if len(units) < len(keys):
            self.classify(columns, np.arange(new.start, new.stop))
        return set()

    def restart(self, columns: Columns) -> None:
        """Begin with the rows of another table; `classify` has to follow."""
        self._seen = HashSet()
        self._seen.add_later(lambda: _distinct_keys(columns))
        self._mask, self._prompts = np.zeros(0, bool), np.zeros(0, np.uint64)

    def classify(self, columns: Columns, rows: np.ndarray) -> None:
        """Mark which of these rows are further ones.

        Parameters
        ----------
        columns : Columns
        rows : ndarray of int
            All rows that count of some steps.
        """
        found = _unit_keys(columns, rows)
        several, groups = (rows[:0], rows[:0]) if found is None else _shared(rows[found[0]], found[1])
        if not len(several) and not len(self._mask):
            return
        mask = np.zeros(len(rows), bool)
        prompts = columns.metadata["prompt_hash"].view(columns.rows)
        firsts, lasts = self._ends(columns, several, groups)
        mask[np.searchsorted(rows, several)] = True
        mask[np.searchsorted(rows, lasts)] = False
        own = prompts[rows]
        own[np.searchsorted(rows, lasts)] = prompts[firsts]
        if not len(self._mask):
            self._extend(columns, slice(0, columns.rows))
        if (self._mask[rows] != mask).any() or (self._prompts[rows] != own).any():
            self._mask, self._prompts = self._mask.copy(), self._prompts.copy()  # snapshots see the old ones
            self._mask[rows], self._prompts[rows] = mask, own

    def further(self, rows: int) -> FurtherRows | None:
        """Return the marks of the first ``rows`` rows, read-only; None if no row is a further one."""
        if not len(self._mask):
            return None
        mask, prompts = self._mask[:rows], self._prompts[:rows]
        mask.flags.writeable = prompts.flags.writeable = False
        return FurtherRows(mask, prompts)

    def _extend(self, columns: Columns, new: slice) -> None:
        """Add rows that are not marked."""
        if new.stop > len(self._mask):
            size = max(_MIN_ROWS, new.stop, 2 * len(self._mask))
            mask, prompts = np.zeros(size, bool), np.zeros(size, np.uint64)
            mask[: new.start], prompts[: new.start] = self._mask[: new.start], self._prompts[: new.start]
            self._mask, self._prompts = mask, prompts
        self._mask[new] = False
        self._prompts[new] = columns.metadata["prompt_hash"].view(columns.rows)[new]

    def _ends(self, columns: Columns, rows: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last row of each unit; ``groups`` holds the unit of each row."""
        file, offset, part = (
            columns.metadata[n].view(columns.rows)[rows] for n in ("file", "offset", "part")
        )
        used, at = np.unique(file, return_inverse=True)
        names = np.array([self._files[number] for number in used.tolist()], dtype=object)
        by_name = np.argsort(np.argsort(names))[at]
        turns = columns.numbers.get(TURN)
        turn = np.zeros(len(rows)) if turns is None else turns.view(columns.rows)[rows]
        turn = np.where(np.isnan(turn), -np.inf, turn)
        order = np.lexsort((part, offset, by_name, turn, groups))
        rows, groups = rows[order], groups[order]
        changes = groups[1:] != groups[:-1]
        return rows[np.append(True, changes)[: len(rows)]], rows[np.append(changes, True)[: len(rows)]]


def _unit_keys(columns: Columns, where: RowSelector) -> tuple[np.ndarray, np.ndarray] | None:
    """Return which of these rows have an episode, and a hash of their unit; None if none has."""
    episodes = columns.labels.get(EPISODE)
    if episodes is None:
        return None
    codes = episodes.codes.view(columns.rows)[where]
    if "" in episodes.names:  # a trainer that has no id for it
        codes = np.where(codes == episodes.names.index(""), -1, codes)
    at = np.flatnonzero((codes >= 0) & ~_counters(columns, where, codes, episodes.names))
    if not len(at):
        return None
    splits = split_codes(columns.labels, columns.rows, where)
    parts = [codes[at], columns.metadata["step"].view(columns.rows)[where][at]]
    parts += [np.full(len(at), TRAIN_CODE) if splits is None else splits[0][at]]
    for name in (AGENT, TRAJECTORY):  # a key must not change if one of them appears later
        labels = columns.labels.get(name)
        missing = np.full(len(at), -1)
        parts.append(missing if labels is None else labels.codes.view(columns.rows)[where][at])
    key = np.zeros(len(at), np.uint64)
    for part in parts:
        key = mix(key ^ part.astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    return at, key


def _counters(columns: Columns, where: RowSelector, codes: np.ndarray, names: list[str]) -> np.ndarray:
    """Return a mask of the rows whose episode is a counter that all samples of a step may share."""
    labels = [
        columns.labels[name].codes.view(columns.rows)[where] for name in PLACES if name in columns.labels
    ]
    turns = columns.numbers[TURN].view(columns.rows)[where] if TURN in columns.numbers else None
    return counters(codes, names, labels, turns)


def counters(
    codes: np.ndarray, names: list[str], labels: Sequence[np.ndarray], turns: np.ndarray | None
) -> np.ndarray:
    """Return a mask of the rows whose episode is a counter that all samples of a step may share.

    Parameters
    ----------
    codes : ndarray of int, shape (N,)
        Code of each row's episode; negative for none.
    names : list of str
        Text of each code.
    labels : sequence of ndarray of int, shape (N,)
        Codes of those of `PLACES` that the run has.
    turns : ndarray of float, shape (N,), optional
    """
    alone = codes >= 0
    for places in labels:
        alone &= places < 0
    if turns is not None:
        alone &= np.isnan(turns)
    if alone.any():
        used, index = np.unique(codes[alone], return_inverse=True)
        alone[alone] = np.array([names[code].isdecimal() for code in used.tolist()])[index]
    return alone


def _distinct_keys(columns: Columns) -> np.ndarray:
    found = _unit_keys(columns, slice(0, columns.rows))
    return np.empty(0, np.uint64) if found is None else np.unique(found[1])


def _shared(rows: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of units with several rows, ascending, and the unit of each."""
    _, unit, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    several = sizes[unit] > 1
    return rows[several], unit[several]
