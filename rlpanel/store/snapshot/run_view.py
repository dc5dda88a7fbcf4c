"""Computes statistics of a snapshot on demand: step metrics, group columns, quantiles, histograms, tables.

Results are cached between versions of a run; for a new version, only the changed steps are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpanel.metrics.engine.column_info import ALIASES, pooling_columns, step_names, token_mean_columns
from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.engine.metric import STATISTICS, split_statistic
from rlpanel.store.snapshot import step_metric_cache
from rlpanel.store.snapshot.quantiles import Histogram, Histograms, Quantiles, Values
from rlpanel.store.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

#: Minimum R² of a fitted KL coefficient; worse fits are ignored.
_GOOD_FIT = 0.99
#: Maximum range of the fitted coefficients of a constant one, relative to their median.
_SAME_COEFFICIENT = 1e-3


class SplitMemory:
    """Cached results of one split, shared by all versions of a run; thread-safe."""

    def __init__(self) -> None:
        self.quantiles = Quantiles()
        self.histograms = Histograms()
        self.step_metrics = step_metric_cache.StepMetricCache()


#: Split, and whether statistics count the outcome of each row.
MemoryKey = tuple[str, bool]


class RunView:
    """A snapshot and the results computed from it. Sessions that show the same version share one view.

    Parameters
    ----------
    snapshot : Snapshot
    memories : dict of (str, bool) to SplitMemory, optional
        Cached results by split, and whether each row counts; all views of one run share this dictionary.
    release : callable, optional
        Releases the memory of saved rows; thread-safe.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        memories: dict[MemoryKey, SplitMemory] | None = None,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._release = release
        self._memories: dict[MemoryKey, SplitMemory] = {} if memories is None else memories
        self._splits: dict[str, RunView] = {}
        self._asked: tuple[np.ndarray | None, np.ndarray] = (None, np.empty(0, int))

    def in_split(self, split: str) -> RunView:
        """Return the view of another split; this view if the run does not have that split."""
        snapshot = self.snapshot.in_split(split)
        if snapshot is self.snapshot:
            return self
        return self._splits.setdefault(split, RunView(snapshot, self._memories, self._release))

    @cached_property
    def by_rows(self) -> RunView:
        """The view of `Snapshot.by_rows`; this view if no episode has several rows."""
        snapshot = self.snapshot.by_rows
        return self if snapshot is self.snapshot else self.with_snapshot(snapshot)

    def with_snapshot(self, snapshot: Snapshot) -> RunView:
        """Return the view of another snapshot that has the same rows."""
        return RunView(snapshot, self._memories, self._release)

    def prepare(self) -> None:
        """Compute what each page needs: in a large run that takes seconds, which no event loop has."""
        _ = self.constants, self.derived, self.snapshot.remarks

    def release(self) -> None:
        """Release the memory of saved rows that were read; they stay readable.

        What reads all rows of many columns calls it from time to time. The reader does so every two seconds.
        """
        if self._release is not None:
            self._release()

    @property
    def _memory(self) -> SplitMemory:
        key = self.snapshot.split, self.snapshot.counts_rows
        return self._memories.setdefault(key, SplitMemory())

    # -- columns ---------------------------------------------------------------------------------

    @cached_property
    def grouped(self) -> bool:
        """True if samples come in groups of one prompt."""
        return step_metric_cache.grouped(self.snapshot)

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """Names of number columns that compare the samples of a group; `Snapshot.numbers` excludes them."""
        return step_metric_cache.lazy_columns(self.snapshot, self.constants, self.grouped)

    @cached_property
    def step_metrics(self) -> frozenset[str]:
        """Names of the step metrics that have a finite value at some step."""
        return self._memory.step_metrics.names_with_values(self.snapshot, self.grouped)

    def has(self, curve: str) -> bool:
        """Return True if a number column, step metric or statistic of this name has a finite value."""
        if self.snapshot.has_number(curve) or curve in self.step_metrics:
            return True
        return self.is_statistic(curve) and self.snapshot.has_number(split_statistic(curve)[0])

    def is_statistic(self, curve: str) -> bool:
        """Return True if this is a statistic of a column per step, such as ``reward:std``, and no column."""
        return bool(split_statistic(curve)[1]) and not self.snapshot.has_number(curve)

    def number(self, column: str) -> np.ndarray:
        """Return a stored or derived number column, shape (rows,)."""
        name = ALIASES.get(column, column)
        if name in self.derived:
            return self.values(name, np.arange(self.snapshot.rows))
        return self.snapshot.number(name)

    def values(self, column: str, rows: np.ndarray) -> np.ndarray:
        """Return a number column at ``rows``; a derived column is computed for their steps only."""
        if column in self.derived:
            metrics = self._memory.step_metrics
            return metrics.sample_values(self.snapshot, self.constants, column, rows)
        return self.snapshot.number(column)[rows]

    def counted(self, column: str, rows: np.ndarray) -> np.ndarray:
        """Return a number column at ``rows`` as statistics count it, see `Snapshot.counted`."""
        return self.values(column, rows) if column in self.derived else self.snapshot.counted(column, rows)

    # -- steps -----------------------------------------------------------------------------------

    def step_values(self, curve: str) -> np.ndarray:
        """Return one value per step, shape (S,): a step metric, or a number column's mean or statistic."""
        if curve in step_names():
            return self.step_metrics_of([curve])[curve]
        column, statistic = split_statistic(curve) if self.is_statistic(curve) else (curve, "mean")
        return self.snapshot.steps.statistic(ALIASES.get(column, column), statistic)

    def values_at(self, curve: str, positions: Sequence[int]) -> list[float]:
        """Return what `step_values` has at some positions; step metrics are computed for these steps only."""
        if curve in step_names():
            at = self._memory.step_metrics.at(self.snapshot, curve, positions, self.grouped)
            return at.tolist()
        return self.step_values(curve)[list(positions)].tolist()

    def step_metrics_of(self, names: list[str]) -> dict[str, np.ndarray]:
        """Return step metrics by name, shape (S,) each; only changed steps are recomputed."""
        return self._memory.step_metrics.get(self.snapshot, names, self.grouped)

    @cached_property
    def constants(self) -> Constants:
        """Training constants; a KL coefficient that was not given is inferred from token rewards.

        It is inferred only if it is the same at all steps: an adaptive one is no constant.
        """
        constants = self.snapshot.constants
        if "kl_coef" in constants or "kl_coef_fit" not in self.step_metrics:
            return constants
        coefficient, r2 = (self.step_values(name) for name in ("kl_coef_fit", "kl_coef_r2"))
        good = r2 >= _GOOD_FIT
        if not good.any():
            return constants
        share = f"R² ≥ {r2[good].min():.4f} in {good.sum()} of {len(good)} steps"
        median = float(np.median(coefficient[good]))
        if np.ptp(coefficient[good]) > _SAME_COEFFICIENT * abs(median):
            return constants
        # Rounded, so that a new step does not change it by the rounding of the logged numbers.
        return constants.with_inferred(
            "kl_coef", float(f"{median:.4g}"), f"inferred from token rewards, {share}"
        )

    def quantiles(
        self, column: str, q: tuple[float, ...], size: int = 1, most: int | None = None
    ) -> np.ndarray:
        """Return quantiles of every ``size`` consecutive steps together; NaN if these have no finite value.

        Parameters
        ----------
        column : str
        q : tuple of float
        size : int
            By default each step has its own quantiles.
        most : int, optional
            In a run with more samples, quantiles are those of every second (fourth, eighth, …) sample. By
            default they are exact.

        Returns
        -------
        ndarray, shape (len(q), ceil(S / size))
        """
        name, snapshot, part = ALIASES.get(column, column), self.snapshot, 1
        while most is not None and snapshot.samples > part * most:
            part *= 2

        def read(wanted: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, Values]:
            rows = self._rows_at(wanted)
            rows = rows[rows % part == 0] if part > 1 else rows
            column = self._counted(name) if wanted is None else None
            return (
                snapshot.metadata("step"),
                rows,
                lambda some: self.counted(name, some) if column is None else column[some],
            )

        return self._memory.quantiles.get((name, part), q, snapshot.version, snapshot.steps, read, size)

    def _counted(self, column: str) -> np.ndarray:
        """Return a whole number column as statistics count it."""
        name = ALIASES.get(column, column)
        return self.number(name) if name in self.derived else self.snapshot.counted(name)

    def _rows_at(self, steps: np.ndarray | None) -> np.ndarray:
        """Return the rows of some steps, or of all; curves ask for the same steps one after another."""
        if steps is None:
            return self.snapshot.alive_rows
        asked, rows = self._asked
        if asked is None or not np.array_equal(asked, steps):
            rows = self.snapshot.rows_of_steps(steps)
            self._asked = steps, rows
        return rows

    def histogram(self, column: str, bins: int = 64) -> Histogram:
        """Return a histogram of a column's finite values per step; all steps share at most ``bins`` bins."""
        name, step, values = self._values_by_step(column)
        version, steps = self.snapshot.version, self.snapshot.steps
        return self._memory.histograms.get(name, bins, version, steps, step, values)

    def _values_by_step(self, column: str) -> tuple[str, np.ndarray, np.ndarray]:
        """Return a column's name without alias, and the step and value of the rows that count."""
        snapshot = self.snapshot
        step, values = snapshot.metadata("step"), self._counted(column)
        if not snapshot.alive.all():
            step, values = step[snapshot.alive_rows], values[snapshot.alive_rows]
        return ALIASES.get(column, column), step, values

    # -- tables ----------------------------------------------------------------------------------

    def frame(self, rows: np.ndarray, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """Return a table with one row per sample: uid, step, rank, line, labels and numbers.

        If a key was logged both as text and as number, the texts are in ``<key>_text``.

        Parameters
        ----------
        rows : ndarray of int
        columns : iterable of str, optional
            Number and label columns to include; by default all, aliases included.
        """
        import pandas as pd

        return pd.DataFrame(self.row_columns(rows, columns))

    def row_columns(self, rows: np.ndarray, columns: Iterable[str] | None = None) -> dict[str, Any]:
        """Return the columns of `frame` by name."""
        snapshot = self.snapshot
        data: dict[str, Any] = {
            "uid": snapshot.uids(rows),
            "step": snapshot.metadata("step")[rows],
            "rank": snapshot.metadata("rank")[rows],
            "line": snapshot.lines(rows),
        }
        wanted = None if columns is None else set(columns)
        for shown, name in self.label_names.items():
            if wanted is None or name in wanted:
                data[shown] = snapshot.label(name, rows)
        for name in self.number_names:
            if wanted is None or name in wanted:
                data[name] = self.values(name, rows)
        return data

    @property
    def label_names(self) -> dict[str, str]:
        """The label columns by their names in tables of samples: ``<key>_text`` if numbers have the name."""
        snapshot = self.snapshot
        return {f"{name}_text" if snapshot.is_stored(name) else name: name for name in snapshot.labels}

    @property
    def failed_metrics(self) -> dict[str, str]:
        """Metrics that raised an error, each with the error's text; in a long run, a few steps are tried."""
        if len(self.snapshot.steps.values):
            self._memory.step_metrics.names_with_values(self.snapshot, self.grouped)
        return self.known_failures

    @property
    def known_failures(self) -> dict[str, str]:
        """Those of `failed_metrics` among the metrics that were computed so far, by whom ever."""
        return dict(self._memory.step_metrics.failures)

    @property
    def number_names(self) -> list[str]:
        """Names of the number columns in tables of samples: stored ones, computed ones, second names."""
        aliases = [alias for alias, name in ALIASES.items() if self.snapshot.is_stored(name)]
        return [*self.snapshot.numbers, *self.derived, *aliases]

    def step_frame(self) -> pd.DataFrame:
        """Return a table with one row per step: step, samples, step metrics, and statistics of every column.

        ``episodes`` is there if an episode has several samples.
        """
        import pandas as pd

        steps = self.snapshot.steps
        head = {"step": steps.values, "samples": steps.samples}
        head |= {"episodes": steps.episodes} if self.snapshot.has_episodes else {}
        return pd.DataFrame(head | self.step_columns())

    def step_columns(self) -> dict[str, np.ndarray]:
        """Return all statistics and step metrics that have a value at some step by name, shape (S,) each."""
        metrics = [name for name in step_names() if name in self.step_metrics]
        statistics = {name: self.step_values(curve) for name, curve in self.step_statistics().items()}
        return statistics | self.step_metrics_of(metrics)

    def step_statistics(self) -> dict[str, str]:
        """Return the names of statistics of number columns in tables of steps, and the curve behind each.

        They are ``<column>_mean``, ``_std``, ``_min`` and ``_max``. The mean of a column that is itself a
        mean over tokens keeps its name: ``kl_k3_mean`` is the mean of the samples' ``kl_k3_mean``.
        """
        snapshot, found = self.snapshot, {}
        snapshot.steps.compute_all()
        for column in [*snapshot.steps.columns, *ALIASES]:
            name = ALIASES.get(column, column)
            if name not in pooling_columns() and snapshot.has_number(name):
                for statistic in ("mean", *STATISTICS):
                    curve = column if statistic == "mean" else f"{name}:{statistic}"
                    found[step_name(column, statistic)] = curve
        return found


def step_name(column: str, reduction: str) -> str:
    """Return the name of a step table's column; the mean of a mean over tokens keeps its name."""
    if reduction == "mean" and ALIASES.get(column, column) in token_mean_columns():
        return column
    return f"{column}_{reduction}"
