"""What can be drawn as a curve, under our names and under those that people know from their trainer."""

from __future__ import annotations

from collections.abc import Iterable

from rlpanel.metrics.engine import column_info
from rlpanel.store.snapshot.run_view import RunView


def options(view: RunView) -> dict[str, str]:
    """The menu of curves: label → column or step metric. A search finds the trainer's names as well."""
    columns = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    pooled = [name for name in column_info.step_names() if name in view.step_metrics]
    return labelled([(_label(name), name) for name in [*columns, *pooled]])


def labelled(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The entries of a menu by label; a label that is taken is told apart by its name."""
    found: dict[str, str] = {}
    for label, name in entries:
        while label in found:
            label = f"{label} [{name}]"
        found[label] = name
    return found


def _label(name: str) -> str:
    column = column_info.describe(name)
    return " · ".join([column.axis, *column.aliases])
