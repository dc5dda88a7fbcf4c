"""What can be drawn as a curve, under our names and under those that people know from their trainer."""

from __future__ import annotations

from rlpanel.metrics import registry
from rlpanel.store.snapshot import Snapshot


def options(snapshot: Snapshot) -> dict[str, str]:
    """The menu of curves: label → column or step metric. A search finds the trainer's names as well."""
    columns = [name for name in snapshot.numbers if snapshot.has_number(name)]
    pooled = [name for name in registry.step_names() if name in snapshot.step_metrics]
    return {_label(name): name for name in [*columns, *pooled]}


def _label(name: str) -> str:
    column = registry.describe(name)
    return " · ".join([column.axis, *column.aliases])
