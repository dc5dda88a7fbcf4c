"""Columns become bytes and come back; what does not fit them is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.store.cache.saved_state import AppendFile, new_parts, restore_column
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.page_memory import SavedBytes


def columns(rows: int = 3) -> Columns:
    made = Columns()
    place = {name: np.arange(rows, dtype=dtype) for name, dtype in Columns.METADATA.items()}
    made.append(place, {"mine": np.linspace(0, 1, rows)}, {"group": [f"g{i}" for i in range(rows)]})
    return made


def test_columns_come_back_from_their_bytes() -> None:
    before, after = columns(), Columns()
    after.rows = before.rows
    for key, _, data in new_parts(before, {}):
        restore_column(after, key, SavedBytes(data, data))
    for name, column in before.metadata.items():
        np.testing.assert_array_equal(after.metadata[name].view(3), column.view(3))
    np.testing.assert_array_equal(after.numbers["mine"].view(3), [0, 0.5, 1])
    np.testing.assert_array_equal(after.labels["group"].codes.view(3), [0, 1, 2])
    assert list(after.labels["group"].names) == ["g0", "g1", "g2"]


def test_only_what_a_file_lacks_is_given() -> None:
    written = {key: AppendFile().extended(items, data) for key, items, data in new_parts(columns(2), {})}
    assert {items for _, items, _ in new_parts(columns(3), written)} == {1}


@pytest.mark.parametrize(
    ("key", "size", "error", "message"),
    [
        ("number/mine", 23, ValueError, "wrong length"),
        ("number/reward_gap", 24, ValueError, "name of a new metric"),
        ("place/nothing", 24, KeyError, "nothing"),
        ("other/step", 24, KeyError, "other"),
        ("texts/unknown", 24, KeyError, "unknown"),
    ],
)
def test_bytes_that_do_not_fit_are_refused(key: str, size: int, error: type[Exception], message: str) -> None:
    found = Columns()
    found.rows = 3
    with pytest.raises(error, match=message):
        restore_column(found, key, SavedBytes(np.zeros(size, np.uint8), np.zeros(size, np.uint8)))
