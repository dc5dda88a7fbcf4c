"""Columns as the browser gets them: few numbers in the message itself, many as bytes behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Most numbers of a column that go as text.
FEW = 128


def column_payload(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Short arrays as lists: each array is two websocket messages of its own, and two calls of the system.

    Long ones are copied: a source writes its patches into the arrays that it has.
    """
    return {name: _plain(values) for name, values in columns.items()}


def _plain(values: Any) -> Any:
    if not isinstance(values, np.ndarray):
        return values
    return values.tolist() if len(values) <= FEW else values.copy()
