"""Samples that show where two runs part: of one prompt in both runs, the largest differences first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.divergence.parting import Parting
from rlpanel.divergence.step_pairs import StepPairs
from rlpanel.errors import RLPanelError
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.store.query.filter import Filter, FilterInput
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most pairs of samples, and pairs of steps after the onset whose samples are looked at.
MAX_SAMPLES, _AFTER = 5, 5


#: Rows, and the values of the stream's column there.
_Values = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SamplePair:
    """A sample of each run.

    Attributes
    ----------
    uid, against_uid : str
        Samples of the first and of the second run; empty without one.
    step, against_step : int or None
    value, against_value : float
        The stream's column; NaN without one.
    same_prompt : bool
    """

    uid: str
    against_uid: str
    step: int | None
    against_step: int | None
    value: float
    against_value: float
    same_prompt: bool


def samples_of(parting: Parting, here: RuleContext, there: RuleContext, pairs: StepPairs) -> list[SamplePair]:
    """Return samples of both runs right after a parting, those of the same prompt if the runs share any."""
    part = range(parting.onset, min(parting.onset + _AFTER, parting.last + 1))
    mine, theirs = (
        context.rows[np.isin(pair[context.row_steps], part)]
        for context, pair in ((here, pairs.here), (there, pairs.there))
    )
    column, sign = parting.stream.stream.column, np.sign(parting.difference) or 1.0
    if not len(mine) or not len(theirs):
        return []
    if not column or not all(run.snapshot.has_number(column) for run in (here, there)):
        marked = _where(there, parting.stream.stream.where, theirs)
        return [
            _pair(here.snapshot, there.snapshot, None, int(row), "") for row in marked[:MAX_SAMPLES].tolist()
        ]
    values, others = (run.snapshot.counted(column, rows) for run, rows in ((here, mine), (there, theirs)))
    found = _of_prompts(here.snapshot, there.snapshot, (mine, values), (theirs, others), sign)
    if not found:
        order = np.argsort(-sign * np.where(np.isfinite(others), others, -sign * np.inf), kind="stable")
        middle = np.argsort(np.abs(values - np.nanmedian(values)) if np.isfinite(values).any() else values)
        found = list(
            zip(mine[middle[:MAX_SAMPLES]].tolist(), theirs[order[:MAX_SAMPLES]].tolist(), strict=False)
        )
    return [_pair(here.snapshot, there.snapshot, a, b, column) for a, b in found]


def _of_prompts(
    here: Snapshot, there: Snapshot, mine: _Values, theirs: _Values,
    sign: float,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return rows of the same prompts, the largest differences of their means first."""
    sides = []
    for snapshot, (rows, values) in ((here, mine), (there, theirs)):
        known = np.isfinite(values)
        rows, values = rows[known], values[known]
        keys, cell = np.unique(snapshot.prompts(rows), return_inverse=True)
        mean = np.bincount(cell, values) / np.maximum(np.bincount(cell), 1)
        near = np.lexsort((np.abs(values - mean[cell]), cell))
        first = near[np.unique(cell[near], return_index=True)[1]] if len(near) else near
        sides.append((keys, mean, rows[first]))
    (keys, mean, rows), (other_keys, other_mean, other_rows) = sides
    shared, at, other_at = np.intersect1d(keys, other_keys, return_indices=True)
    if not len(shared):
        return []
    order = np.argsort(-sign * (other_mean[other_at] - mean[at]), kind="stable")[:MAX_SAMPLES]
    return list(zip(rows[at[order]].tolist(), other_rows[other_at[order]].tolist(), strict=True))


def _where(context: RuleContext, where: str, rows: np.ndarray) -> np.ndarray:
    """Return those rows that a filter passes; all if it cannot be applied."""
    if not where:
        return rows
    scope = FilterScope(context.snapshot, rows)
    try:
        return rows[Filter(where, scope.kinds()).evaluate(FilterInput(scope)).sure]
    except RLPanelError:
        return rows


def _pair(here: Snapshot, there: Snapshot, a: int | None, b: int, column: str) -> SamplePair:
    def of(snapshot: Snapshot, row: int | None) -> tuple[str, int | None, float, int]:
        if row is None:
            return "", None, float("nan"), -1
        at = np.array([row])
        value = float(snapshot.counted(column, at)[0]) if column else float("nan")
        return snapshot.uid(row), int(snapshot.metadata("step")[row]), value, int(snapshot.prompts(at)[0])

    mine, theirs = of(here, a), of(there, b)
    same = a is not None and mine[3] == theirs[3]
    return SamplePair(mine[0], theirs[0], mine[1], theirs[1], mine[2], theirs[2], same)
