"""Makes the links of a chain from changes of streams, and the sets of samples that carry them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rlpanel.bisect.bisection import Link
from rlpanel.bisect.carried_changes import BisectWindow, places_filter, places_text
from rlpanel.bisect.explained_share import ExplainedShare
from rlpanel.bisect.run_changes import RunChange, mean_of
from rlpanel.bisect.undoing_samples import SampleSet
from rlpanel.metrics.engine.column_info import describe

#: Roles of changes whose curves are shown.
_ON_CURVES = ("link", "target")
#: Quantile of the samples before beyond which a sample has the changed number.
_USUAL = 0.95


def name_of(change: RunChange) -> str:
    """Return the name of the number that changed, without its place."""
    stream = change.stream
    if stream.signal is not None and stream.place:
        return describe(stream.column).label
    return stream.name


def link_of(window: BisectWindow, change: RunChange, share: ExplainedShare, role: str) -> Link:
    """Return a change as a link of the chain, or beside it.

    Parameters
    ----------
    window : BisectWindow
    change : RunChange
    share : ExplainedShare
        What it explains of the target's change.
    role : str
        See `Link`.
    """
    stream, steps = change.stream, window.context.steps
    places = window.where(change) if role in ("link", "target") else ()
    values = window.values(change)
    if values is not None and stream.signal is not None:
        low, high = window.bounds(change.at)
        before, after = (mean_of(values[mask]) for mask in (low, high))
    else:
        before = mean_of(stream.values[max(window.first, change.at - 20) : change.at])
        after = mean_of(stream.values[change.at : min(change.at + 8, window.stop)])
    carried = window.carriers(change)
    rows = window.batch.rows[carried] if role == "link" and values is not None else np.empty(0, int)
    return Link(
        step=int(steps[change.at]),
        name=name_of(change),
        column=stream.column,
        place=places_text(places),
        where=places_filter(places) or stream.where,
        before=before,
        after=after,
        error=abs(after - before) / change.z if change.z > 0 else float("nan"),
        unit="%" if stream.scale == "share" else describe(stream.column).unit if stream.column else "",
        z=change.z,
        share=share.share,
        share_error=share.error,
        of_next=float("nan"),
        within=share.within,
        by=share.by or "time",
        uids=tuple(window.context.snapshot.uids(rows[:20])) if len(rows) else (),
        count=len(rows),
        role=role,
        sudden=change.sudden,
        curve=tuple(stream.values[window.first : window.stop].tolist()) if role in _ON_CURVES else (),
    )


def sets_of(window: BisectWindow, chain: Sequence[RunChange], before: np.ndarray) -> Iterator[SampleSet]:
    """Yield the sets of samples that may be removed: of each rank and label, and of each change.

    Parameters
    ----------
    window : BisectWindow
    chain : sequence of RunChange
    before : ndarray of bool, shape (N,)
        The samples before the target's change.
    """
    for place in window.places:
        if place:
            yield SampleSet(place.text, place.where, window.inside(place))
    for change in chain:
        x = window.values(change)
        if x is None or (change.stream.signal is None and not change.stream.text):
            continue
        old = x[before & np.isfinite(x)]
        if not len(old):
            continue
        high = change.size > 0
        known = np.unique(x[np.isfinite(x)])
        flag = len(known) <= 2
        limit = float(known.mean()) if flag else float(np.quantile(old, _USUAL if high else 1 - _USUAL))
        mask = np.isfinite(x) & ((x > limit) if high else (x < limit))
        # The filter language knows columns; other numbers of samples are named by their uids.
        signal = change.stream.signal
        column = signal.column if signal is not None and not change.stream.text else ""
        is_column = column in window.context.snapshot.numbers and "`" not in column
        sign = ">" if high else "<"
        where = f"`{column}` {sign} {limit:.6g}" if is_column else ""
        yield SampleSet(f"{name_of(change)} {sign} {limit:.4g}", where, mask)
