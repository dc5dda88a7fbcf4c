"""Tables of statistics per step: quantiles and histograms of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.snapshot.run_view import RunView

if TYPE_CHECKING:
    import pandas as pd


def quantile_frame(view: RunView, column: str, q: Sequence[float]) -> pd.DataFrame:
    """Return the table of `Run.quantiles`."""
    import pandas as pd

    _check_column(view, column)
    values = view.quantiles(column, tuple(q))
    return pd.DataFrame(values.T, pd.Index(view.snapshot.steps.values, name="step"), pd.Index(q, name=column))


def histogram_frame(view: RunView, column: str, bins: int) -> pd.DataFrame:
    """Return the table of `Run.histogram`."""
    import pandas as pd

    _check_column(view, column)
    histogram = view.histogram(column, bins)
    intervals = pd.IntervalIndex.from_breaks(histogram.edges, closed="left", name=column)
    return pd.DataFrame(histogram.counts, pd.Index(histogram.steps, name="step"), intervals)


def _check_column(view: RunView, column: str) -> None:
    """Raise SettingError if the run has no number column of this name."""
    snapshot = view.snapshot
    if snapshot.is_stored(ALIASES.get(column, column)) or column in view.derived:
        return
    known = [*(name for name in snapshot.numbers if snapshot.has_number(name)), *view.derived]
    raise SettingError(
        f"run {snapshot.name!r} has no number column {column[:80]!r}; it has {', '.join(known) or 'none'}"
    )
