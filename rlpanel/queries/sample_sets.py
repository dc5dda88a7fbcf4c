"""The samples that a question is about: a step, steps, a filter, or another run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from rlpanel.analysis.difference import ContrastSide
from rlpanel.errors import FilterError, SettingError
from rlpanel.queries.run_data import RunData
from rlpanel.queries.step_ranges import span_or_none
from rlpanel.store.query.query import Query, QuerySpec

#: Samples of one run: a step, steps (both ends included), or a filter.
InRun: TypeAlias = int | slice | range | str | tuple[int, int]
#: Samples of this run, all samples of a run, or samples of another run.
Selected: TypeAlias = InRun | RunData | tuple[RunData, InRun]
#: Steps as people write them elsewhere; as a filter this is a difference.
_DASHED = re.compile(r"(\d+)\s*[-–:]\s*(\d+)")


def contrast_sides(
    run: RunData, a: Selected, b: Selected | None
) -> tuple[ContrastSide, ContrastSide, set[str]]:
    """Return the two sets of a contrast, and the columns that their filters use.

    Raises
    ------
    SettingError
        If this is no selection.
    FilterError
        If a filter is not valid.
    """
    first, used = selected(run, a)
    if b is None:
        return first, ContrastSide("the rest", run.index, run.view, run.snapshot.alive_rows), used
    other, used_b = selected(run, b)
    return first, other, used | used_b


def selected(run: RunData, selection: Any) -> tuple[ContrastSide, set[str]]:
    """Return the samples of a selection, and the columns that its filter uses.

    Raises
    ------
    SettingError
        If this is no selection, or the steps have no samples.
    FilterError
        If the filter is not valid.
    """
    snapshot = run.snapshot
    if isinstance(selection, str):
        if meant := _DASHED.fullmatch(selection.strip()):
            first, last = meant.groups()
            raise FilterError(f"{selection!r} is a difference: write {first}..{last} for these steps")
        query = Query(run.index, snapshot, QuerySpec(filter=selection))
        *_, result = query.results()
        return ContrastSide(selection, run.index, run.view, np.sort(result.rows)), set(query.columns)
    if isinstance(selection, RunData):
        rows = selection.snapshot.alive_rows
        return ContrastSide(selection.name, selection.index, selection.view, rows), set()
    if isinstance(selection, tuple) and len(selection) == 2 and isinstance(selection[0], RunData):
        side, used = selected(*selection)
        return replace(side, name=f"{selection[0].name}, {side.name}"), used
    ends = span_or_none(selection)
    if ends is None:
        raise SettingError(
            f"{selection!r} is no selection: "
            "give a step, (first, last), a filter, a run, or (run, one of these)"
        )
    known = snapshot.steps.values[[0, -1]].tolist() if len(snapshot.steps.values) else [0, 0]
    first, last = (known[at] if end is None else end for at, end in enumerate(ends))
    if None not in ends and first > last:
        raise SettingError(f"steps {first}–{last} are no range: the first one is after the last one")
    step, name = snapshot.metadata("step"), f"step {first}" if first == last else f"steps {first}–{last}"
    rows = np.flatnonzero(snapshot.alive & (step >= first) & (step <= last))
    if not len(rows):
        raise SettingError(f"{name}: no samples in run {run.name!r}, which has steps {known[0]}–{known[1]}")
    return ContrastSide(name, run.index, run.view, rows), set()
