"""The rows a filter runs on, with stored columns and computed ones (attempt, copies, group_reward)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from rlpanel import schema
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.columns.row_table import OLDER
from rlpanel.store.query.answer_columns import answer_names
from rlpanel.store.query.filter import LABEL, NUMBER, TEXT, Labels
from rlpanel.store.query.sample_notes import NOTE_COLUMNS, Notes
from rlpanel.store.snapshot.snapshot import Snapshot

#: Number columns that locate a sample in the run.
POSITION_COLUMNS = ("step", "rank", "line")
#: Column that says whether a sample is of its step's newest attempt, or of one that a restart replaced.
ATTEMPT = "attempt"
_ATTEMPTS = ("newest", "older")
#: Column with the mean reward of the sample's group.
GROUP_REWARD = "group_reward"
#: Column with the number of samples of the step that have the same prompt and response.
COPIES = "copies"
#: Column with a key that all samples of one prompt share.
PROMPT_KEY = "prompt_key"


class FilterScope:
    """Rows of a snapshot as a `rlpanel.store.query.filter.FilterTable`.

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    notes : Notes, optional
        Adds the columns ``tag`` and ``note``.
    copies : callable, optional
        Returns the column `COPIES`, shape (N,); without it there is no such column.
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
        self.answers = answer_names(snapshot)
        self._notes = notes
        self._copies = copies

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column that the run has, the most useful columns first."""
        snapshot = self.snapshot
        numbers = [name for name in snapshot.numbers if snapshot.has_number(name)]
        aliases = [alias for alias, name in ALIASES.items() if name in numbers]
        kinds = dict.fromkeys([*numbers, *aliases, *POSITION_COLUMNS], NUMBER)
        if "reward" in numbers:
            kinds[GROUP_REWARD] = NUMBER
        if self._copies is not None:
            kinds[COPIES] = NUMBER
        kinds |= {label_name(snapshot, name): LABEL for name in snapshot.labels}
        kinds |= {PROMPT_KEY: LABEL} if snapshot.has_number("prompt_chars") else {}
        kinds |= {"file": LABEL}
        kinds |= dict.fromkeys(NOTE_COLUMNS, LABEL) if self._notes is not None else {}
        kinds |= {ATTEMPT: LABEL} if self._older.any() else {}
        return kinds | dict.fromkeys((*schema.TEXTS, *self.answers.names), TEXT)

    def number(self, name: str) -> np.ndarray:
        """Return a number column of the rows, shape (N,)."""
        if name == GROUP_REWARD:
            return self._group_reward
        if name == COPIES:
            return self._copied
        is_place = name in POSITION_COLUMNS and name not in self.snapshot.numbers
        column = self.snapshot.metadata(name) if is_place else self.snapshot.number(name)
        return self._of_rows(column)

    def codes(self, name: str) -> Labels:
        """Return a label column of the rows: codes, shape (N,), -1 if not logged, and texts by code."""
        if name in NOTE_COLUMNS:
            return self._noted[name]
        if name == ATTEMPT:
            return self._older.astype(np.intp), _ATTEMPTS
        if name == PROMPT_KEY:
            prompt_hashes = self._of_rows(self.snapshot.prompts())
            hashes, codes = np.unique(prompt_hashes, return_inverse=True)
            return codes, [prompt_key(text) for text in hashes.tolist()]
        if name == "file":
            return self._of_rows(self.snapshot.metadata("file")), self.snapshot.files
        for label in self.snapshot.labels:
            if label_name(self.snapshot, label) == name:
                codes, texts = self.snapshot.label_codes(label)
                return self._of_rows(codes), texts
        raise KeyError(name)

    def subset(self, positions: np.ndarray) -> FilterScope:
        """Return the same columns for some of the rows, given by their positions in `rows`, shape (M,)."""
        part = FilterScope(self.snapshot, self.rows[positions], self._notes, self._copies)
        # These columns aggregate over the whole scope, so they must not be computed from the part alone.
        for name in ("_group_reward", "_copied"):
            if name in self.__dict__:
                part.__dict__[name] = self.__dict__[name][positions]
        if "_noted" in self.__dict__:
            part._noted = {name: (codes[positions], texts) for name, (codes, texts) in self._noted.items()}
        return part

    def _of_rows(self, column: np.ndarray) -> np.ndarray:
        """Return a column at the rows, without a copy if these are all rows."""
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
        """Mean reward of each row's group; groups go by label, else prompt, within a step and attempt."""
        group = self._of_rows(self.snapshot.prompts())
        if "group" in self.snapshot.labels:
            codes = self._of_rows(self.snapshot.label_codes("group")[0])
            group = np.where(codes >= 0, codes.astype(np.uint64), group)
        step = self._of_rows(self.snapshot.metadata("step")).astype(np.uint64)
        key = mix(group ^ mix(step ^ (self._older.astype(np.uint64) << np.uint64(63))))
        group_of_row = np.unique(key, return_inverse=True)[1]
        reward = self._of_rows(self.snapshot.counted("reward"))
        finite = np.isfinite(reward)
        count = np.bincount(group_of_row[finite], minlength=int(group_of_row.max(initial=-1)) + 1)
        total = np.bincount(group_of_row[finite], reward[finite], minlength=len(count))
        with np.errstate(invalid="ignore"):
            return (total / count)[group_of_row]


def prompt_key(prompt_hash: int) -> str:
    """Return the value of `PROMPT_KEY` for a prompt's hash."""
    return f"{prompt_hash:016x}"


def label_name(snapshot: Snapshot, name: str) -> str:
    """Return a label column's name; it gets the suffix ``_text`` if a number column has the same name."""
    return f"{name}_text" if name in snapshot.numbers else name
