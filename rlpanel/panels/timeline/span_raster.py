"""Draws many spans as an image: each cell shows the phase, version or lag that prevails in it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.panels.timeline.span_table import SpanTable, Window


@cache
def has_datashader() -> bool:
    """Return True if datashader is installed."""
    return find_spec("datashader") is not None


def span_image(
    table: SpanTable, window: Window, columns: int, rows: int, *, datashader: bool | None = None
) -> np.ndarray:
    """Return the name that prevails in each cell of a window.

    Parameters
    ----------
    table : SpanTable
    window : Window
    columns, rows : int
        There are never more rows than lanes, so that a lane is never thinner than its neighbours.
    datashader : bool, optional
        Whether datashader counts the rollouts in each cell; by default if it is installed. Else the seconds
        of each name are added up.

    Returns
    -------
    ndarray of uint8, shape (rows, columns)
        Position in ``table.names`` plus 2, 1 if it is not known, and 0 where nothing is. The first row has
        the window's first lanes.
    """
    rows = max(1, min(rows, window.lanes))
    use = has_datashader() if datashader is None else datashader
    weights = (_rollouts if use else seconds_per_cell)(table, window, columns, rows)
    image = weights.argmax(axis=0) + 1
    image[weights.max(axis=0) <= 0] = 0
    return image.astype(np.uint8)


def seconds_per_cell(table: SpanTable, window: Window, columns: int, rows: int) -> np.ndarray:
    """Return how many seconds of the spans with each name are in each cell.

    The seconds of a row up to a point in time grow with slope one inside a span. So it suffices to note
    where spans begin and end, and to add up along the row.

    Returns
    -------
    ndarray, shape (names + 1, rows, columns)
        Spans of an unknown name come first.
    """
    inside = table.inside(window)
    width = (window.stop - window.start) / columns
    row = (table.lane[inside] - window.first) * rows // window.lanes
    line = (table.code[inside] + 1) * rows + row
    lines = (len(table.names) + 1) * rows
    slopes = np.zeros(lines * (columns + 2))
    for edge, sign in ((table.start, 1.0), (table.stop, -1.0)):
        place = np.clip((edge[inside] - window.start) / width, 0, columns)
        whole = place.astype(np.int64)
        part = place - whole
        at = line * (columns + 2) + whole
        slopes += np.bincount(at, sign * (1 - part), len(slopes))
        slopes += np.bincount(at + 1, sign * part, len(slopes))
    covered = np.cumsum(slopes.reshape(lines, columns + 2), axis=1)[:, :columns]
    covered[covered < 1e-9] = 0.0  # what rounding left
    return covered.reshape(-1, rows, columns) * width


def _rollouts(table: SpanTable, window: Window, columns: int, rows: int) -> np.ndarray:
    """Return how many spans with each name touch each cell, counted by datashader."""
    import datashader as ds  # takes seconds to import
    import holoviews as hv
    from holoviews.operation.datashader import rasterize

    inside = table.inside(window)
    codes = pd.Categorical.from_codes(table.code[inside] + 1, range(len(table.names) + 1))
    middle = table.lane[inside] + 0.5
    frame = pd.DataFrame(
        {
            "start": np.maximum(table.start[inside], window.start),
            "lane": middle,
            "stop": np.minimum(table.stop[inside], window.stop),
            "same": middle,
            "name": codes,
        }
    )
    segments = hv.Segments(frame, ["start", "lane", "stop", "same"], ["name"])
    counted: Any = rasterize(
        segments,
        aggregator=ds.by("name", ds.count()),
        x_range=(window.start, window.stop),
        y_range=(window.first, window.last),
        width=columns,
        height=rows,
        dynamic=False,
    )
    layers = [counted.dimension_values(dimension, flat=False) for dimension in counted.vdims]
    return np.nan_to_num(np.stack(layers))
