"""The menu of columns that can be drawn as curves, with our names and the names used by trainers."""

from __future__ import annotations

from collections.abc import Iterable

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.metric import STATISTICS
from rlpanel.store.snapshot.run_view import RunView


def options(view: RunView) -> dict[str, str]:
    """Return the menu of curves: label → column or step metric. A search also matches the trainers' names."""
    columns = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    pooled = [name for name in column_info.step_names() if name in view.step_metrics]
    statistics = [
        f"{name}:{statistic}" for name in columns if _has_statistics(name) for statistic in STATISTICS
    ]
    return unique_labels([(_label(name), name) for name in [*columns, *statistics, *pooled]])


def _has_statistics(column: str) -> bool:
    """Return True if the menu offers a column's statistics; offering those of every column would flood it."""
    return column in ("reward", "response_tokens") or column.startswith("rewards/")


def unique_labels(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the entries of a menu by label; a duplicate label gets its column's name appended."""
    by_label: dict[str, str] = {}
    for label, name in entries:
        while label in by_label:
            label = f"{label} [{name}]"
        by_label[label] = name
    return by_label


def _label(name: str) -> str:
    column = column_info.describe(name)
    return " · ".join([column.axis, *(alias for alias in column.aliases if not alias.startswith(name))])
