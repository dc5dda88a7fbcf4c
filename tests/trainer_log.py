"""Comparisons of all numbers of a run with its trainer's log."""

from __future__ import annotations

from rlpanel.metrics.engine.metric import STATISTICS
from rlpanel.panels.curves.trainer_scalars import LogComparison, comparisons
from rlpanel.store.snapshot.run_view import RunView


def all_comparisons(view: RunView) -> list[LogComparison]:
    """Return the comparisons of all columns, their statistics and all step metrics."""
    columns = [*view.snapshot.numbers, *view.step_metrics]
    curves = [*columns, *(f"{column}:{statistic}" for column in columns for statistic in STATISTICS)]
    return [comparison for curve in curves for comparison in comparisons(view, curve)]
