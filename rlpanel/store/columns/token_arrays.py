"""The undeclared token arrays of a run: which of them have columns, and which samples lack them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rlpanel.metrics.engine.ragged import Ragged
from rlpanel.metrics.logged_arrays import array_columns, array_names
from rlpanel.schema import ARRAYS, MAX_TOKEN_ARRAYS, TOKEN_ARRAYS_LEFT_OUT, TOKEN_COLUMNS, TOKEN_MEAN
from rlpanel.sources.records.record_types import Record

_FIELDS = frozenset(ARRAYS)
#: Most names of lists whose lengths are compared with the tokens.
_MAX_LISTS = 1024


class TokenArrays:
    """Admits the token arrays of a run, in order of appearance.

    A list may be as long as the tokens by chance. It is one of tokens if it was so more often than not.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self._fitting: Counter[str] = Counter()
        self._unfit: Counter[str] = Counter()

    def declare(self, columns: Iterable[str]) -> None:
        """Admit the arrays that have columns already, as far as there is room."""
        for name in array_names(columns):
            if len(self.names) < MAX_TOKEN_ARRAYS:
                self.names[name] = None

    def note_batch(self, counts: Mapping[str, np.ndarray]) -> None:
        """Count the lists of a batch of columns, which all fit; by name, their lengths."""
        for name, lengths in counts.items():
            if name not in _FIELDS:
                self._fitting[name] += len(lengths)

    def note_lengths(self, records: Sequence[Record]) -> None:
        """Count the lists of some samples that fit their tokens, and note those of other lengths."""
        found = [name for record in records for name in record.arrays if name not in _FIELDS]
        unfit = [name for record in records for name in record.unfit]
        for counter, names in ((self._fitting, found), (self._unfit, unfit)):
            counter.update(names if len(counter) < _MAX_LISTS else [n for n in names if n in counter])
        for record in records:
            for name, length in record.unfit.items():
                if self._fitting[name] > self._unfit[name]:
                    record.notes.append(unfit_note(name, length, all_tokens(record)))

    def columns(self, fields: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
        """Return the columns of a batch's admitted arrays, and of how many others each sample has."""
        others = [name for name in fields if name not in _FIELDS]
        for name in others:
            if len(self.names) < MAX_TOKEN_ARRAYS and self._unfit[name] < max(1, self._fitting[name]):
                self.names.setdefault(name)
        columns = array_columns(fields, [name for name in others if name in self.names])
        surplus = [fields[name].counts > 0 for name in others if self._is_beyond(name)]
        return columns | ({TOKEN_ARRAYS_LEFT_OUT: _counts(np.sum(surplus, 0))} if surplus else {})

    def fold(self, numbers: dict[str, np.ndarray]) -> None:
        """Replace the columns of arrays that are not admitted by their number, in place.

        The columns are those of a part of the run that another process read.
        """
        self.declare(numbers)
        surplus = [name for name in array_names(numbers) if name not in self.names]
        beyond = [~np.isnan(numbers[TOKEN_MEAN + name]) for name in surplus]
        for prefix in TOKEN_COLUMNS:
            for name in surplus:
                numbers.pop(prefix + name, None)
        if beyond:
            before = np.nan_to_num(numbers[TOKEN_ARRAYS_LEFT_OUT]) if TOKEN_ARRAYS_LEFT_OUT in numbers else 0
            numbers[TOKEN_ARRAYS_LEFT_OUT] = _counts(np.sum(beyond, 0) + before)

    def _is_beyond(self, name: str) -> bool:
        return name not in self.names and len(self.names) == MAX_TOKEN_ARRAYS


def _counts(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers > 0, numbers, np.nan).astype(float)


def all_tokens(record: Record) -> int:
    """Return the number of a sample's response tokens, with those of tools and environments."""
    return int(record.numbers.get("trajectory_tokens", record.numbers.get("response_tokens", 0)))


def unfit_note(name: str, length: int, tokens: int) -> str:
    """Return the note on an array that has another length than the tokens."""
    return f"{name!r} has {length:,} values for {tokens:,} tokens; it is left out"
