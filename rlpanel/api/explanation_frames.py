"""Explanations as data frames: shares of a step's change, differences of two selections, and clusters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from rlpanel.analysis.contrast_side import ContrastSide
from rlpanel.errors import SettingError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.query import Query, QuerySpec
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

    from rlpanel.analysis.response_clusters import ResponseCluster


@runtime_checkable
class RunOfSamples(Protocol):
    """The part of a `Run` that is needed here."""

    @property
    def name(self) -> str:
        """Name of the run."""

    @property
    def index(self) -> RunIndex:
        """Index of the run."""

    @property
    def view(self) -> RunView:
        """The newest snapshot with what is computed from it."""

    @property
    def snapshot(self) -> Snapshot:
        """Newest snapshot."""


#: Samples of one run: a step, steps (both ends included), or a filter.
InRun: TypeAlias = int | slice | str | tuple[int, int]
#: Samples of this run, all samples of a run, or samples of another run.
Selected: TypeAlias = InRun | RunOfSamples | tuple[RunOfSamples, InRun]

_CHANGE = ("kind", "name", "share", "contribution", "count", "count_before", "value", "before", "without")
_CONTRAST = ("kind", "name", "a", "b", "effect", "error", "z", "count_a", "count_b", "size_a", "size_b")
_CLUSTER = ("size", "first", "last", "prompts", "texts", "reward", "example", "uid")


def explain_frame(
    run: RunOfSamples, metric: str, step: int, since: int | None, *, tokens: bool
) -> pd.DataFrame:
    """Return the table of `Run.explain`."""
    import pandas as pd

    from rlpanel.analysis.change_sentences import sentences
    from rlpanel.analysis.step_change import explain_step
    from rlpanel.analysis.token_change import explain_tokens

    change = explain_step(run.view, metric, step, since)
    parts = list(change.parts)
    if tokens:
        *_, last = explain_tokens(run.index, run.snapshot, metric, step, since)
        parts += last.parts
    data = {name: [getattr(part, name) for part in parts] for name in _CHANGE}
    data |= {"filter": [part.where for part in parts], "uids": [list(part.uids) for part in parts]}
    frame = pd.DataFrame(data)
    frame.attrs = {
        "step": change.step,
        "since": change.since,
        "value": change.value,
        "before": change.before,
        "error": change.error,
        "sentences": sentences(change),
    }
    return frame


def contrast_frame(
    run: RunOfSamples, a: Selected, b: Selected | None, exclude: Collection[str], texts: int
) -> pd.DataFrame:
    """Return the table of `Run.contrast`."""
    import pandas as pd

    from rlpanel.analysis.selection_contrast import contrast

    first, other, used = contrast_sides(run, a, b)
    *_, found = contrast(first, other, exclude={*exclude, *used}, texts=texts)
    rows = [
        {name: getattr(d.tested if hasattr(d.tested, name) else d, name) for name in _CONTRAST}
        | {"filter": d.where, "uids_a": list(d.uids_a), "uids_b": list(d.uids_b)}
        for d in found.differences
    ]
    frame = pd.DataFrame(rows, columns=[*_CONTRAST, "filter", "uids_a", "uids_b"])
    frame.attrs = {
        "samples": (len(found.a.rows), len(found.b.rows)),
        "texts": found.texts_total,
        "tried": found.columns_tried + found.features_tried,
    }
    return frame


def contrast_sides(
    run: RunOfSamples, a: Selected, b: Selected | None
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


def clusters_frame(run: RunOfSamples, first: int | None, last: int | None) -> pd.DataFrame:
    """Return the table of `Run.clusters`."""
    import pandas as pd

    from rlpanel.analysis.response_clusters import response_clusters

    steps = run.snapshot.steps.values
    clusters: tuple[ResponseCluster, ...] = ()
    if len(steps):
        low, high = (int(steps[0]) if first is None else first), (int(steps[-1]) if last is None else last)
        *_, found = response_clusters(run.index, run.snapshot, low, high)
        clusters = found.clusters
    data = {name: [getattr(cluster, name) for cluster in clusters] for name in _CLUSTER}
    return pd.DataFrame(data | {"uids": [run.snapshot.uids(cluster.rows) for cluster in clusters]})


def selected(run: RunOfSamples, selection: Any) -> tuple[ContrastSide, set[str]]:
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
        query = Query(run.index, snapshot, QuerySpec(filter=selection))
        *_, result = query.results()
        return ContrastSide(selection, run.index, run.view, np.sort(result.rows)), set(query.columns)
    if isinstance(selection, RunOfSamples):
        rows = selection.snapshot.alive_rows
        return ContrastSide(selection.name, selection.index, selection.view, rows), set()
    if isinstance(selection, tuple) and len(selection) == 2 and isinstance(selection[0], RunOfSamples):
        side, used = selected(*selection)
        return replace(side, name=f"{selection[0].name}, {side.name}"), used
    ends = _bounds(selection)
    known = snapshot.steps.values[[0, -1]].tolist() if len(snapshot.steps.values) else [0, 0]
    first, last = (known[at] if end is None else end for at, end in enumerate(ends))
    if None not in ends and first > last:
        raise SettingError(f"steps {first}–{last} are no range: the first one is after the last one")
    step, name = snapshot.metadata("step"), f"step {first}" if first == last else f"steps {first}–{last}"
    rows = np.flatnonzero(snapshot.alive & (step >= first) & (step <= last))
    if not len(rows):
        raise SettingError(f"{name}: no samples in run {run.name!r}, which has steps {known[0]}–{known[1]}")
    return ContrastSide(name, run.index, run.view, rows), set()


def _bounds(selection: Any) -> tuple[int | None, int | None]:
    """Return the first and the last step of a selection by steps."""
    if isinstance(selection, slice) and selection.step is None:
        return selection.start, selection.stop
    if isinstance(selection, tuple) and len(selection) == 2 and all(_is_step(end) for end in selection):
        return int(selection[0]), int(selection[1])
    if _is_step(selection):
        return int(selection), int(selection)
    raise SettingError(
        f"{selection!r} is no selection: give a step, (first, last), a filter, a run, or (run, one of these)"
    )


def _is_step(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
