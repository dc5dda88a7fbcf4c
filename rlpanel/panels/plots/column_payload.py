"""Formats columns for the browser: short arrays as lists within the message, long ones as binary buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Maximum length of an array that is sent as a list.
MAX_LIST_LENGTH = 128


def column_payload(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns in the format to send to the browser.

    Short arrays become lists, because each array takes two websocket messages and two system calls. Long
    arrays are copied, because a data source writes its patches into its own arrays.
    """
    return {name: _list_or_copy(values) for name, values in columns.items()}


def _list_or_copy(values: Any) -> Any:
    if not isinstance(values, np.ndarray):
        return values
    return values.tolist() if len(values) <= MAX_LIST_LENGTH else values.copy()
