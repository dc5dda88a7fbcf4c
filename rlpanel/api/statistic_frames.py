"""Tables of statistics per step: quantiles and histograms of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlpanel.store.snapshot.run_view import RunView

if TYPE_CHECKING:
    import pandas as pd


def quantile_frame(view: RunView, column: str, q: Sequence[float]) -> pd.DataFrame:
    """Return the table of `Run.quantiles`."""
    import pandas as pd

    values = view.quantiles(column, tuple(q))
    return pd.DataFrame(values.T, pd.Index(view.snapshot.steps.values, name="step"), pd.Index(q, name=column))


def histogram_frame(view: RunView, column: str, bins: int) -> pd.DataFrame:
    """Return the table of `Run.histogram`."""
    import pandas as pd

    histogram = view.histogram(column, bins)
    intervals = pd.IntervalIndex.from_breaks(histogram.edges, closed="left", name=column)
    return pd.DataFrame(histogram.counts, pd.Index(histogram.steps, name="step"), intervals)
