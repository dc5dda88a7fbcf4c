"""Columns grow, and values seen before do not change."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rlpanel.store.columns.columns import MAP_BYTES, Column, Columns, Labels
from rlpanel.store.columns.page_memory import CAN_MAP


def place(step: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(step, dtype) for name, dtype in Columns.METADATA.items()}


def test_a_view_stays_as_it_was_while_the_column_grows() -> None:
    column = Column(np.float64, np.nan)
    column.write(0, np.arange(3.0))
    view = column.view(3)
    for start in range(3, 9000, 1000):
        column.write(start, np.full(1000, -1.0))
    assert view.tolist() == [0, 1, 2]


def test_rows_that_nobody_wrote_are_filled() -> None:
    column = Column(np.float64, np.nan)
    column.write(2, np.array([5.0]))
    np.testing.assert_array_equal(column.view(5), [np.nan, np.nan, 5, np.nan, np.nan])


def test_a_view_cannot_be_written() -> None:
    assert not Column(np.float64, 0).view(3).flags.writeable


def test_labels_keep_each_text_once() -> None:
    labels = Labels()
    labels.write(0, ["a", None, "b", "a"])
    assert (labels.codes.view(4).tolist(), labels.names) == ([0, -1, 1, 0], ["a", "b"])


def test_columns_that_come_late_or_stay_away_leave_gaps() -> None:
    columns = Columns()
    columns.append(place([1]), {"x": np.array([1.0])}, {})
    columns.append(place([2]), {"y": np.array([2.0])}, {"kind": ["a"]})
    found = [columns.numbers["x"].view(2), columns.numbers["y"].view(2), columns.labels["kind"].codes.view(2)]
    np.testing.assert_array_equal(np.stack(found), [[1, np.nan], [np.nan, 2], [-1, 0]])


def test_some_rows_can_be_taken_along() -> None:
    columns = Columns()
    columns.append(place([1, 2, 3]), {"x": np.arange(3.0)}, {"kind": ["a", "b", None]})
    kept = columns.select(np.array([1, 2]))
    names = [
        kept.labels["kind"].names[code] if code >= 0 else None for code in kept.labels["kind"].codes.view(2)
    ]
    assert (kept.rows, kept.metadata["step"].view(2).tolist(), names) == (2, [2, 3], ["b", None])


@pytest.mark.skipif(not CAN_MAP, reason="only Linux maps a file over an array")
def test_saved_rows_stay_pages_of_their_file_while_the_column_grows(tmp_path: Path) -> None:
    rows = MAP_BYTES // 8 + 100  # the last rows fill no whole page
    values = np.arange(float(rows))
    values.tofile(tmp_path / "values")
    column = Column(np.float64, np.nan)
    column.write(0, values)
    before = column.view(rows)
    descriptor = os.open(tmp_path / "values", os.O_RDONLY)
    column.map_saved(rows, descriptor)
    os.close(descriptor)
    (tmp_path / "values").unlink()
    mapped = column.mapped
    column.write(rows, np.full(10 * rows, -1.0))
    assert column.mapped == mapped > 0
    column.release()
    np.testing.assert_array_equal(column.view(rows), values)
    np.testing.assert_array_equal(before, values)
    assert (column.view(11 * rows)[rows:] == -1).all()
    shared = column.view(rows)
    column.rewrite(np.array([1, rows]), np.array([7.0, 8.0]))  # rows of the file are read-only
    assert (column.view(rows + 1)[[1, rows]].tolist(), column.mapped) == ([7, 8], 0)
    np.testing.assert_array_equal(shared, values)
