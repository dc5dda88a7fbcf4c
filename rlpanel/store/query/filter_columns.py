"""The rows that a query is about, with every column it may name: the store's, and those of the moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from rlpanel import schema
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.columns.hash_set import mix
from rlpanel.store.columns.run_table import OLDER
from rlpanel.store.query.filter import LABEL, NUMBER, TEXT, Labels
from rlpanel.store.query.notes import NOTED, Notes
from rlpanel.store.snapshot.snapshot import Snapshot

#: Where a sample stands, as number columns.
PLACES = ("step", "rank", "line")
#: Whether the sample is of its step's newest attempt, or of one that a restart replaced.
ATTEMPT = "attempt"
_ATTEMPTS = ("newest", "older")
#: Mean reward of the sample's group.
GROUP_REWARD = "group_reward"
#: How often the sample's prompt and response stand in the step.
COPIES = "copies"
#: Samples of one prompt have one key.
PROMPT_KEY = "prompt_key"


class Scope:
    """Rows of a snapshot as the table a filter asks (`rlpanel.store.query.filter.FilterTable`).

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    notes : Notes, optional
        Gives the columns ``tag`` and ``note``.
    copies : callable, optional
        Gives how often each row's texts stand in the step, shape (N,), where that can be read.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rows: np.ndarray,
        notes: Notes | None = None,
        copies: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.rows = rows
        self._notes = notes
        self._copies = copies

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self) -> dict[str, str]:
        """Column name to its kind; only what the run has, the most telling first."""
        snapshot = self.snapshot
        numbers = [name for name in snapshot.numbers if snapshot.has_number(name)]
        aliases = [alias for alias, name in ALIASES.items() if name in numbers]
        found = dict.fromkeys([*numbers, *aliases, *PLACES], NUMBER)
        if "reward" in numbers:
            found[GROUP_REWARD] = NUMBER
        if self._copies is not None:
            found[COPIES] = NUMBER
        found |= {label_name(snapshot, name): LABEL for name in snapshot.labels}
        found |= {PROMPT_KEY: LABEL} if snapshot.has_number("prompt_chars") else {}
        found |= {"file": LABEL}
        found |= dict.fromkeys(NOTED, LABEL) if self._notes is not None else {}
        found |= {ATTEMPT: LABEL} if self._older.any() else {}
        return found | dict.fromkeys(schema.TEXTS, TEXT)

    def number(self, name: str) -> np.ndarray:
        """A number column of the rows, shape (N,)."""
        if name == GROUP_REWARD:
            return self._group_reward
        if name == COPIES:
            return self._copied
        in_place = name in PLACES and name not in self.snapshot.numbers
        column = self.snapshot.place(name) if in_place else self.snapshot.number(name)
        return self._of_rows(column)

    def codes(self, name: str) -> Labels:
        """A label column of the rows: codes, shape (N,), and their texts; -1 where it was not logged."""
        if name in NOTED:
            return self._noted[name]
        if name == ATTEMPT:
            return self._older.astype(np.intp), _ATTEMPTS
        if name == PROMPT_KEY:
            hashes, codes = np.unique(self._of_rows(self.snapshot.place("prompt_hash")), return_inverse=True)
            return codes, [prompt_key(text) for text in hashes.tolist()]
        if name == "file":
            return self._of_rows(self.snapshot.place("file")), self.snapshot.files
        for own in self.snapshot.labels:
            if label_name(self.snapshot, own) == name:
                codes, texts = self.snapshot.coded(own)
                return self._of_rows(codes), texts
        raise KeyError(name)

    def only(self, which: np.ndarray) -> Scope:
        """The same columns of some of the rows; ``which`` are places, shape (M,)."""
        part = Scope(self.snapshot, self.rows[which], self._notes, self._copies)
        # A group's mean and the number of copies are over the whole scope.
        for name in ("_group_reward", "_copied"):
            if name in self.__dict__:
                part.__dict__[name] = self.__dict__[name][which]
        if "_noted" in self.__dict__:
            part._noted = {name: (codes[which], texts) for name, (codes, texts) in self._noted.items()}
        return part

    def _of_rows(self, column: np.ndarray) -> np.ndarray:
        """A column at the rows, without a copy where these are all."""
        return column if self._whole else column[self.rows]

    @cached_property
    def _whole(self) -> bool:
        rows = self.rows
        return len(rows) == self.snapshot.rows and bool((rows[1:] > rows[:-1]).all())

    @cached_property
    def _noted(self) -> dict[str, Labels]:
        labels = self._notes.labels(self.snapshot) if self._notes is not None else {}
        return {name: (self._of_rows(codes), texts) for name, (codes, texts) in labels.items()}

    @cached_property
    def _older(self) -> np.ndarray:
        return self._of_rows(self.snapshot.state) == OLDER

    @cached_property
    def _copied(self) -> np.ndarray:
        return self._copies() if self._copies is not None else np.full(len(self), np.nan)

    @cached_property
    def _group_reward(self) -> np.ndarray:
        """Mean reward of each row's group: by its label, else by its prompt, within the step's attempt."""
        group = self._of_rows(self.snapshot.place("prompt_hash"))
        if "group" in self.snapshot.labels:
            codes = self._of_rows(self.snapshot.coded("group")[0])
            group = np.where(codes >= 0, codes.astype(np.uint64), group)
        step = self._of_rows(self.snapshot.place("step")).astype(np.uint64)
        key = mix(group ^ mix(step ^ (self._older.astype(np.uint64) << np.uint64(63))))
        places = np.unique(key, return_inverse=True)[1]
        reward = self.number("reward")
        finite = np.isfinite(reward)
        count = np.bincount(places[finite], minlength=int(places.max(initial=-1)) + 1)
        total = np.bincount(places[finite], reward[finite], minlength=len(count))
        with np.errstate(invalid="ignore"):
            return (total / count)[places]


def prompt_key(prompt_hash: int) -> str:
    """The text of `PROMPT_KEY` for a prompt's hash."""
    return f"{prompt_hash:016x}"


def label_name(snapshot: Snapshot, name: str) -> str:
    """A label's name; where a key was logged as number too, the texts have a name of their own."""
    return f"{name}_text" if name in snapshot.numbers else name
