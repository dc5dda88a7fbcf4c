"""Images of many spans: sums per cell against a loop over spans and cells, and datashader's counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel.panels.timeline.span_table import SpanTable, Window
from rlpanel.panels.timeline.timeline_plot import seconds_per_cell, span_image

NAMES = ("generation", "tool")
LANES = 7
spans = st.lists(
    st.tuples(st.integers(0, LANES - 1), st.floats(0, 9), st.floats(0, 5), st.integers(-1, len(NAMES) - 1)),
    max_size=25,
)
windows = st.builds(
    lambda start, length, first, lanes: Window(start, start + length, first, min(LANES, first + lanes)),
    st.floats(0, 8),
    st.floats(0.5, 10),
    st.integers(0, LANES - 1),
    st.integers(1, LANES),
)


def table(of: list[tuple[int, float, float, int]]) -> SpanTable:
    lane, start, length, code = (np.array([span[part] for span in of], float) for part in range(4))
    place = np.arange(len(of))
    return SpanTable(
        lane.astype(int), start, start + length, code.astype(int), place, NAMES, ("#000000",) * 2, LANES, 14.0
    )


def by_loop(of: list[tuple[int, float, float, int]], window: Window, columns: int, rows: int) -> np.ndarray:
    """Add up the overlap of each span with each cell."""
    sums = np.zeros((len(NAMES) + 1, rows, columns))
    width = (window.stop - window.start) / columns
    for lane, start, length, code in of:
        if window.first <= lane < window.last:
            row = (lane - window.first) * rows // window.lanes
            for column in range(columns):
                left = window.start + column * width
                overlap = min(start + length, left + width) - max(start, left)
                sums[code + 1, row, column] += max(0.0, overlap)
    return sums


@given(spans, windows, st.integers(1, 30), st.integers(1, LANES))
def test_seconds_in_each_cell_are_those_of_a_loop(
    of: list[tuple[int, float, float, int]], window: Window, columns: int, rows: int
) -> None:
    rows = min(rows, window.lanes)
    found = seconds_per_cell(table(of), window, columns, rows)
    np.testing.assert_allclose(found, by_loop(of, window, columns, rows), atol=1e-6)


# Datashader compiles for four seconds; a plot of many rollouts is drawn by it in each run of the unit tests.
@pytest.mark.parametrize("datashader", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_cell_has_the_name_that_prevails(datashader: bool) -> None:
    if datashader:
        pytest.importorskip("datashader")
    of = [(0, 0.0, 6.0, 0), (0, 6.0, 4.0, 1), (2, 0.0, 10.0, -1)]
    image = span_image(table(of), Window(0.0, 10.0, 0, 3), 10, 400, datashader=datashader)
    assert image.shape == (3, 10)  # never more rows than lanes
    assert image[0, :5].tolist() == [2] * 5
    assert image[0, 7:].tolist() == [3] * 3
    assert not image[1].any()
    assert image[2].tolist() == [1] * 10
