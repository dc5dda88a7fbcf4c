"""Finds the rows that are further outputs of an episode: its outcome is that of the last row.

A unit is what the trainers score once: the rows of one split and step with the same episode, agent and
trajectory. The last row of a unit has the highest turn or, if none is logged, comes last by name of the file,
offset and part; so the order of reading does not matter.

A row without an episode, or with an empty one, is a unit of its own. So is one whose episode is a number
while group, agent, trajectory and turn are missing: that is a counter of the trainer, as in TRL's PPO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.hash_set import HashSet, mix
from rlpanel.store.columns.splits import TRAIN_CODE, RowSelector, split_codes

EPISODE, GROUP, AGENT, TRAJECTORY, TURN = "episode", "group", "agent", "trajectory", "turn"
_FEWEST = 1024


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
            size = max(_FEWEST, new.stop, 2 * len(self._mask))
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
    alone = codes >= 0
    for name in (GROUP, AGENT, TRAJECTORY):
        if name in columns.labels:
            alone &= columns.labels[name].codes.view(columns.rows)[where] < 0
    if TURN in columns.numbers:
        alone &= np.isnan(columns.numbers[TURN].view(columns.rows)[where])
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
