"""Frames of `Run` that no question answers: quantiles and histograms; and the counts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

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
    from rlpanel.queries.run_columns import similar

    known = [*(name for name in snapshot.numbers if snapshot.has_number(name)), *view.derived]
    others = similar(column, known) or "; it has none"
    raise SettingError(f"run {snapshot.name!r} has no number column {column[:80]!r}{others}")


@dataclass(frozen=True)
class Stats:
    """Counts from indexing a run; of the rows of one episode, ``episodes`` counts one."""

    rows: int
    episodes: int
    bad_lines: int
    blank_lines: int
    steps: int
    ranks: int
    files: int
    bytes: int


def stats_of(snapshot: Snapshot, *, split: bool) -> Stats:
    """Return the counts so far; with ``split`` the rows of the snapshot's split only."""
    return Stats(
        rows=snapshot.samples if split else snapshot.all_samples,
        episodes=snapshot.episodes if split else snapshot.all_episodes,
        bad_lines=snapshot.bad_count,
        blank_lines=snapshot.blank_count,
        steps=len(snapshot.steps.values),
        ranks=snapshot.ranks,
        files=len(snapshot.files),
        bytes=snapshot.progress.bytes_read,
    )
