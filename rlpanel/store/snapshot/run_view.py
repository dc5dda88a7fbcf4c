"""What is computed from a snapshot on demand: step metrics, group columns, quantiles, histograms, tables.

Results are kept from one version of the run to the next and brought up to date for the steps that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.metrics.engine.column_info import ALIASES, pooling_columns, step_names, token_mean_columns
from rlpanel.metrics.engine.constants import Constants
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot import step_metric_cache
from rlpanel.store.snapshot.histograms import Histogram, Histograms
from rlpanel.store.snapshot.quantiles import Quantiles
from rlpanel.store.snapshot.snapshot import Snapshot

#: The least R² of a fitted KL coefficient that is shown.
_GOOD_FIT = 0.99


class SplitMemory:
    """Results of one split, kept between versions of a run. Any thread may use it."""

    def __init__(self) -> None:
        self.quantiles = Quantiles()
        self.histograms = Histograms()
        self.step_metrics = step_metric_cache.StepMetricCache()


class RunView:
    """A snapshot with everything that is computed from it. Sessions that show the same version share it.

    Parameters
    ----------
    snapshot : Snapshot
    memories : dict of str to SplitMemory, optional
        Results of earlier versions by split; the views of one run share this dictionary.
    """

    def __init__(self, snapshot: Snapshot, memories: dict[str, SplitMemory] | None = None) -> None:
        self.snapshot = snapshot
        self._memories: dict[str, SplitMemory] = {} if memories is None else memories
        self._splits: dict[str, RunView] = {}

    def in_split(self, split: str) -> RunView:
        """Return the view of another split; this one where the run has no split of that name."""
        snapshot = self.snapshot.in_split(split)
        if snapshot is self.snapshot:
            return self
        return self._splits.setdefault(split, RunView(snapshot, self._memories))

    @property
    def _memory(self) -> SplitMemory:
        return self._memories.setdefault(self.snapshot.split, SplitMemory())

    # -- columns ---------------------------------------------------------------------------------

    @cached_property
    def grouped(self) -> bool:
        """Whether samples come in groups of one prompt."""
        return step_metric_cache.grouped(self.snapshot)

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """Number columns that compare the samples of a group; they are not in `Snapshot.numbers`."""
        return step_metric_cache.lazy_columns(self.snapshot, self.grouped)

    @cached_property
    def step_metrics(self) -> frozenset[str]:
        """The step metrics that have a finite value at any step."""
        return self._memory.step_metrics.offered(self.snapshot, self.grouped)

    def has(self, column: str) -> bool:
        """Return True if a number column or step metric of this name holds a finite value."""
        return self.snapshot.has_number(column) or column in self.step_metrics

    def number(self, column: str) -> np.ndarray:
        """A stored or derived number column, shape (rows,)."""
        name = ALIASES.get(column, column)
        if name in self.derived:
            return step_metric_cache.sample_values(self.snapshot, name, np.arange(self.snapshot.rows))
        return self.snapshot.number(name)

    def values(self, column: str, rows: np.ndarray) -> np.ndarray:
        """A stored or derived number column at ``rows``; a derived one is computed for their steps alone."""
        if column in self.derived:
            return step_metric_cache.sample_values(self.snapshot, column, rows)
        return self.snapshot.number(column)[rows]

    # -- steps -----------------------------------------------------------------------------------

    def step_values(self, column: str) -> np.ndarray:
        """One number a step, shape (S,): a step metric, or the mean of a number column."""
        if column in step_names():
            return self.step_metrics_of([column])[column]
        return self.snapshot.steps.mean(ALIASES.get(column, column))

    def step_metrics_of(self, names: list[str]) -> dict[str, np.ndarray]:
        """Step metrics by name, shape (S,) each; only steps that changed are computed again."""
        return self._memory.step_metrics.of(self.snapshot, names, self.grouped)

    @cached_property
    def constants(self) -> Constants:
        """The training's constants; a KL coefficient that was not given is inferred from token rewards."""
        constants = self.snapshot.constants
        if "kl_coef" in constants or "kl_coef_fit" not in self.step_metrics:
            return constants
        coefficient, r2 = (self.step_values(name) for name in ("kl_coef_fit", "kl_coef_r2"))
        good = r2 >= _GOOD_FIT
        if not good.any():
            return constants
        share = f"R² ≥ {r2[good].min():.4f} in {good.sum()} of {len(good)} steps"
        median = float(np.median(coefficient[good]))
        spread = "" if np.ptp(coefficient[good]) < 1e-3 * abs(median) else ", median of steps"
        return constants.with_inferred("kl_coef", median, f"inferred from token rewards{spread}, {share}")

    def quantiles(self, column: str, q: tuple[float, ...]) -> np.ndarray:
        """Exact quantiles by step, shape (len(q), S); NaN where a step has no finite value."""
        name, step, values = self._living(column)
        version, steps = self.snapshot.version, self.snapshot.steps
        return self._memory.quantiles.get(name, q, version, steps, step, values)

    def histogram(self, column: str, bins: int = 64) -> Histogram:
        """Histogram of a column's finite values in each step, over at most ``bins`` bins for all steps."""
        name, step, values = self._living(column)
        version, steps = self.snapshot.version, self.snapshot.steps
        return self._memory.histograms.get(name, bins, version, steps, step, values)

    def _living(self, column: str) -> tuple[str, np.ndarray, np.ndarray]:
        """A column's own name, and step and value of the rows that count."""
        living = self.snapshot.living
        return ALIASES.get(column, column), self.snapshot.place("step")[living], self.number(column)[living]

    # -- tables ----------------------------------------------------------------------------------

    def frame(self, rows: np.ndarray, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """A row a sample: uid, step, rank, line, labels and numbers.

        Where a key was logged as text and as number, the texts are in ``<key>_text``.

        Parameters
        ----------
        rows : ndarray of int
        columns : iterable of str, optional
            Only these number and label columns; all of them, aliases included, by default.
        """
        snapshot = self.snapshot
        data: dict[str, Any] = {
            "uid": snapshot.uids(rows),
            "step": snapshot.place("step")[rows],
            "rank": snapshot.place("rank")[rows],
            "line": snapshot.lines(rows),
        }
        aliases = [alias for alias, name in ALIASES.items() if snapshot.is_stored(name)]
        numbers = [*snapshot.numbers, *self.derived]
        wanted = set(columns) if columns is not None else {*numbers, *snapshot.labels, *aliases}
        for name in snapshot.labels:
            if name in wanted:
                data[f"{name}_text" if snapshot.is_stored(name) else name] = snapshot.label(name, rows)
        for name in [*numbers, *aliases]:
            if name in wanted:
                data[name] = self.values(name, rows)
        return pd.DataFrame(data)

    def step_frame(self) -> pd.DataFrame:
        """A row a step: step, samples, the step metrics, and mean, std, min, max of every column.

        ``<column>_mean`` and so on; a column that is itself a mean over tokens keeps its name: ``kl_k3_mean``
        is the mean over the step's samples of their ``kl_k3_mean``.
        """
        steps = self.snapshot.steps
        data: dict[str, np.ndarray] = {"step": steps.values, "samples": steps.samples}
        aliases = {alias: name for alias, name in ALIASES.items() if name in steps.columns}
        for shown, name in {**{c: c for c in steps.columns}, **aliases}.items():
            if name in pooling_columns() or not self.snapshot.has_number(name):
                continue
            data[step_name(shown, "mean")] = steps.mean(name)
            data[step_name(shown, "std")] = steps.std(name)
            data[step_name(shown, "min")] = steps.stat(name, MIN)
            data[step_name(shown, "max")] = steps.stat(name, MAX)
        offered = [name for name in step_names() if name in self.step_metrics]
        return pd.DataFrame(data | self.step_metrics_of(offered))


def step_name(column: str, reduction: str) -> str:
    """Return the step column of a reduction; the mean of a mean over tokens keeps its name."""
    if reduction == "mean" and ALIASES.get(column, column) in token_mean_columns():
        return column
    return f"{column}_{reduction}"
