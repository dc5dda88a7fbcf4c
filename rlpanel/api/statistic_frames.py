"""Tables of statistics per step: quantiles and histograms of a column."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rlpanel.store.snapshot.run_view import RunView


def quantile_frame(view: RunView, column: str, q: Sequence[float]) -> pd.DataFrame:
    """Return the table of `Run.quantiles`."""
    values = view.quantiles(column, tuple(q))
    return pd.DataFrame(values.T, pd.Index(view.snapshot.steps.values, name="step"), pd.Index(q, name=column))


def histogram_frame(view: RunView, column: str, bins: int) -> pd.DataFrame:
    """Return the table of `Run.histogram`."""
    histogram = view.histogram(column, bins)
    intervals = pd.IntervalIndex.from_breaks(histogram.edges, closed="left", name=column)
    return pd.DataFrame(histogram.counts, pd.Index(histogram.steps, name="step"), intervals)
