"""Columns grow, and values seen before do not change."""

from __future__ import annotations

import numpy as np

from rlpanel.store.columns.columns import Column, Columns, Labels


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
