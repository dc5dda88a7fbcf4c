"""Splits of a run (training, evaluations): their codes and names, and step statistics per split.

A sample's split is the value of ``split`` in its line; a sample without it belongs to training. Splits are
separate throughout: for duplicates, for older attempts and for step statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlpanel.metrics.engine.column_info import is_outcome
from rlpanel.store.columns.columns import Labels
from rlpanel.store.columns.deferred_columns import OutcomeColumn
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.columns.step_table import StepTable

TRAIN = "train"
#: Split of samples that were not trained on; those of another split are in ``discarded <split>``.
DISCARDED = "discarded"
#: Name of the label column that holds the split.
SPLIT_COLUMN = "split"
#: Code of training samples, whether their lines name the split or not.
TRAIN_CODE = -1
#: Number of separate splits, in order of appearance; the statistics of each cost memory.
MAX_SPLITS = 16
#: Name and code that all further splits share.
REST, REST_CODE = "(other splits)", -2

RowSelector = slice | np.ndarray
#: Pairs of a split's name and its rows.
SplitRows = list[tuple[str, RowSelector]]


def limit_codes(codes: np.ndarray, names: list[str]) -> np.ndarray:
    """Return split codes with one code for all training samples and one for splits beyond the limit."""
    if TRAIN in names:
        codes = np.where(codes == names.index(TRAIN), TRAIN_CODE, codes)
    return np.where(codes >= MAX_SPLITS, REST_CODE, codes) if len(names) > MAX_SPLITS else codes


def split_name(code: int, names: list[str]) -> str:
    """Return the name of the split with this code."""
    return {TRAIN_CODE: TRAIN, REST_CODE: REST}.get(code) or names[code]


def split_code(split: str, names: list[str]) -> int:
    """Return the code that `limit_codes` gives to rows of this split."""
    if split == TRAIN:
        return TRAIN_CODE
    return names.index(split) if split in names else REST_CODE


def group_rows(codes: np.ndarray, names: list[str]) -> SplitRows:
    """Group rows by split.

    Parameters
    ----------
    codes : ndarray of int, shape (N,)
        As returned by `limit_codes`; codes of names change when the table is compacted.
    names : list of str
    """
    present = np.unique(codes).tolist()
    if len(present) == 1:
        return [(split_name(present[0], names), slice(None))]
    return [(split_name(code, names), np.flatnonzero(codes == code)) for code in present]


def split_codes(
    labels: Mapping[str, Labels], rows: int, where: RowSelector
) -> tuple[np.ndarray, list[str]] | None:
    """Return codes and names of the splits of some rows; None if no line has a split."""
    column = labels.get(SPLIT_COLUMN)
    return (
        None if column is None else (limit_codes(column.codes.view(rows)[where], column.names), column.names)
    )


def default_split(by_split: Mapping[str, Steps]) -> str:
    """Return the split shown by default: training if there is any, else the one with the most samples."""
    if TRAIN in by_split or not by_split:
        return TRAIN
    return min(by_split, key=lambda name: (-int(by_split[name].samples.sum()), name))


def discarded_split(split: str) -> str:
    """Return the name of the split of samples that were discarded from a split."""
    return DISCARDED if split == TRAIN else f"{DISCARDED} {split}"


def display_name(run: str, split: str) -> str:
    """Return the name of a run while one of its splits is shown, such as ``run · eval``."""
    return run if split == TRAIN else f"{run} · {split}"


class SplitSteps:
    """Step statistics and number of rows of each split; dead rows are not counted.

    Further outputs of an episode have a table of their own. In the table of all rows their outcomes are
    missing, so both together give the statistics by row.
    """

    def __init__(self) -> None:
        self._tables: dict[str, StepTable] = {}
        self._further: dict[str, StepTable] = {}
        self._rows: Counter[str] = Counter()

    def count(self, parts: SplitRows, rows: int, sign: int = 1) -> None:
        """Count ``rows`` rows in total as added, or as dead (sign -1)."""
        for name, where in parts:
            self._rows[name] += sign * (rows if isinstance(where, slice) else len(where))

    def add(
        self,
        parts: SplitRows,
        steps: np.ndarray,
        values: Mapping[str, np.ndarray],
        version: int,
        further: np.ndarray | None = None,
    ) -> None:
        """Add new rows to the statistics of their splits, see `StepTable.add`.

        ``further`` is a mask of the rows that are further outputs of an episode.
        """
        if further is not None and further.any():
            outcomes = {name: column for name, column in values.items() if is_outcome(name)}
            values = {**values, **{name: np.where(further, np.nan, outcomes[name]) for name in outcomes}}
            for name, where in parts:
                also = further[where]
                if also.any():
                    part = {column: numbers[where][also] for column, numbers in outcomes.items()}
                    _table(self._further, name).add(steps[where][also], part, version)
        for name, where in parts:
            part = {column: numbers[where] for column, numbers in values.items()}
            _table(self._tables, name).add(steps[where], part, version)

    def add_deferred(
        self,
        parts: Sequence[tuple[str, np.ndarray | None]],
        steps: np.ndarray,
        values: Mapping[str, np.ndarray],
        version: int,
        further: np.ndarray | None = None,
    ) -> None:
        """Count the rows of each split, all rows if they are None, see `StepTable.add_deferred`.

        ``further`` is as for `add`.
        """
        masked: Mapping[str, np.ndarray | OutcomeColumn] = values
        if further is not None and further.any():
            outcomes = {name: column for name, column in values.items() if is_outcome(name)}
            masked = {**values, **{name: OutcomeColumn(outcomes[name], further) for name in outcomes}}
            for name, rows in parts:
                also = np.flatnonzero(further) if rows is None else rows[further[rows]]
                if len(also):
                    _table(self._further, name).add_deferred(also, steps, outcomes, version)
        for name, rows in parts:
            _table(self._tables, name).add_deferred(rows, steps, masked, version)

    def compute_deferred(self, release: Callable[[], None] | None = None) -> None:
        """Compute the statistics that `add_deferred` left, see `StepTable.compute_deferred`."""
        for table in (*self._tables.values(), *self._further.values()):
            table.compute_deferred(release)

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Reset the statistics of these steps, see `StepTable.clear`."""
        for table in (*self._tables.values(), *self._further.values()):
            table.clear(steps, version)

    def freeze(self) -> dict[str, Steps]:
        """Return an immutable view of the statistics of each split that has rows, by name."""
        frozen = {name: _table(self._tables, name).freeze() for name, rows in self._rows.items() if rows}
        return {
            name: replace(steps, further=self._further[name].freeze()) if name in self._further else steps
            for name, steps in frozen.items()
        }


def _table(tables: dict[str, StepTable], split: str) -> StepTable:
    if split not in tables:
        tables[split] = StepTable()
    return tables[split]
