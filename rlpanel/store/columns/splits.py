"""The splits of a run: training samples, and those of evaluations, each with statistics of its own.

A sample's split is what its line says (`split`); without a word it is a training sample. Splits are kept
apart throughout: what comes twice, what belongs to an older attempt, what a step's mean is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from rlpanel.store.columns.columns import Labels
from rlpanel.store.columns.step_stats import Steps, StepTable

TRAIN = "train"
#: The label column that tells splits.
COLUMN = "split"
#: The code of training samples, whether a line says so or nothing.
TRAIN_CODE = -1
#: Splits that are told apart, the first that come; each has statistics of its own, which cost memory.
MOST_SPLITS = 16
#: What all others are called together.
REST, REST_CODE = "(other splits)", -2

Where = slice | np.ndarray
#: Splits by name, with the places of their rows.
Parts = list[tuple[str, Where]]


def codes_of(codes: np.ndarray, names: list[str]) -> np.ndarray:
    """The split of each row as the code of its name; one code for all training samples, one for the rest."""
    if TRAIN in names:
        codes = np.where(codes == names.index(TRAIN), TRAIN_CODE, codes)
    return np.where(codes >= MOST_SPLITS, REST_CODE, codes) if len(names) > MOST_SPLITS else codes


def name_of(code: int, names: list[str]) -> str:
    """The split that a code of `codes_of` stands for."""
    return {TRAIN_CODE: TRAIN, REST_CODE: REST}.get(code) or names[code]


def code_of(split: str, names: list[str]) -> int:
    """The code that `codes_of` gives a split's rows."""
    if split == TRAIN:
        return TRAIN_CODE
    return names.index(split) if split in names else REST_CODE


def parts_of(codes: np.ndarray, names: list[str]) -> Parts:
    """The rows of each split.

    Parameters
    ----------
    codes : ndarray of int, shape (N,)
        As `codes_of` gives them; names may have other codes after dead rows were left behind.
    names : list of str
    """
    found = np.unique(codes).tolist()
    if len(found) == 1:
        return [(name_of(found[0], names), slice(None))]
    return [(name_of(code, names), np.flatnonzero(codes == code)) for code in found]


def split_codes(labels: Mapping[str, Labels], rows: int, where: Where) -> tuple[np.ndarray, list[str]] | None:
    """The split of some of the first rows as codes, with their names; None where none is logged."""
    column = labels.get(COLUMN)
    return None if column is None else (codes_of(column.codes.view(rows)[where], column.names), column.names)


def default_of(by_split: Mapping[str, Steps]) -> str:
    """The split shown while none is chosen: training where there is one, else that of the most samples."""
    if TRAIN in by_split or not by_split:
        return TRAIN
    return min(by_split, key=lambda name: (-int(by_split[name].samples.sum()), name))


def shown_name(run: str, split: str) -> str:
    """What a run is called while one of its splits is shown: two splits are as different as two runs."""
    return run if split == TRAIN else f"{run} · {split}"


class SplitSteps:
    """Statistics by step, each split's own, and how many rows of it are not dead."""

    def __init__(self) -> None:
        self._tables: dict[str, StepTable] = {}
        self._rows: Counter[str] = Counter()

    def count(self, parts: Parts, rows: int, sign: int = 1) -> None:
        """Note ``rows`` rows in all that came, or died (sign -1)."""
        for name, where in parts:
            self._rows[name] += sign * (rows if isinstance(where, slice) else len(where))

    def add(self, parts: Parts, steps: np.ndarray, values: Mapping[str, np.ndarray], version: int) -> None:
        """Merge new rows in, as `StepTable.add`."""
        for name, where in parts:
            part = {column: numbers[where] for column, numbers in values.items()}
            self._table(name).add(steps[where], part, version)

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Empty these steps, as `StepTable.clear`."""
        for table in self._tables.values():
            table.clear(steps, version)

    def freeze(self) -> dict[str, Steps]:
        """An immutable view of each split that has rows, by name."""
        return {name: self._table(name).freeze() for name, rows in self._rows.items() if rows}

    def _table(self, name: str) -> StepTable:
        if name not in self._tables:
            self._tables[name] = StepTable()
        return self._tables[name]
