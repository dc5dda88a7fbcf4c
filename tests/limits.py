"""Small limits of the store, so that small runs have what large ones have: ranges, an index, turns."""

from __future__ import annotations

from typing import Any

from rlpanel.runtime import Runtime
from rlpanel.settings import (
    BackfillLimits,
    BacklogLimits,
    CacheLimits,
    Limits,
    SearchLimits,
    StoreLimits,
    TableLimits,
)

_GROUPS = {
    "backlog": BacklogLimits,
    "cache": CacheLimits,
    "table": TableLimits,
    "backfill": BackfillLimits,
    "search": SearchLimits,
}


def store_limits(**values: float) -> StoreLimits:
    """Return the limits of the store with some values changed, by the names of their fields."""
    groups: dict[str, Any] = {
        group: kind(**{name: values.pop(name) for name in kind.__dataclass_fields__ if name in values})
        for group, kind in _GROUPS.items()
    }
    assert not values, values
    return StoreLimits(**groups)


def small_runtime(**values: float) -> Runtime:
    """Return a runtime with such limits, for `open_run` without following."""
    return Runtime(limits=Limits(store=store_limits(**values)))


#: The columns of small runs are saved, too.
SAVED = store_limits(min_log_bytes=0)
