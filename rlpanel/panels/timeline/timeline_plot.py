"""The timeline as a HoloViews plot: rectangles with numbers, or an image of many spans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rlpanel.number_text import number
from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_table import (
    ENGLISH_LABELS,
    NAME_CHARS,
    PHASE,
    SLOWEST,
    SpanTable,
    SwimLanes,
    TimelineLabels,
    Window,
    color_spans,
    lanes_of,
    phase_names,
    span_table,
)
from rlpanel.panels.ui import theme
from rlpanel.texts.shorten import plot_text

if TYPE_CHECKING:
    import holoviews as hv


# -- span raster ---------------------------------------------------------------------------------------
# Draws many spans as an image: each cell shows the phase, version or lag that prevails in it.


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


# -- timeline plot -------------------------------------------------------------------------------------
# The timeline as a HoloViews plot: rectangles with their numbers, or an image where there are many.


#: Maximum numbers of rectangles and of lanes in view; more are drawn as an image.
MAX_RECTANGLES, MAX_LANES = 8_000, 1_000
#: Pixels of an image, unless the size of the plot is known.
COLUMNS, ROWS = 1_000, 400
#: Share of a lane that stays free above and below its rectangles.
_GAP = 0.1
#: Columns of the rectangles.
_COLUMNS = ("start", "bottom", "stop", "top", "color", "span", "rollout")
#: Bokeh does not accept an empty column of numbers as colours, so the texts have their own type.
_NO_RECTANGLES = pd.DataFrame({name: [] for name in _COLUMNS}).astype(dict.fromkeys(_COLUMNS[4:], object))
#: Shows a cell's name instead of its number.
_NAME_OF_CELL = "return names[value] ?? ''"


@dataclass(frozen=True)
class Timeline:
    """The rollouts of a step, with the lanes and the spans that a plot draws."""

    times: RolloutTimes
    lanes: SwimLanes
    table: SpanTable
    dark: bool
    labels: TimelineLabels = ENGLISH_LABELS


@dataclass(frozen=True)
class Picture:
    """The part of a timeline that is in view, ready to be drawn.

    Attributes
    ----------
    window : Window
    image : ndarray of uint8, shape (rows, columns)
        As `span_image` returns it; one empty cell if there are rectangles.
    rectangles : DataFrame
        Columns ``start``, ``bottom``, ``stop``, ``top``, ``color``, ``span`` and ``rollout``; empty if there
        is an image.
    """

    window: Window
    image: np.ndarray = field(default_factory=lambda: np.zeros((1, 1), np.uint8))
    rectangles: pd.DataFrame = field(default_factory=lambda: _NO_RECTANGLES)


def timeline_of(
    times: RolloutTimes,
    *,
    order: str = SLOWEST,
    by: str = PHASE,
    dark: bool,
    labels: TimelineLabels = ENGLISH_LABELS,
) -> Timeline:
    """Return the timeline of a step in an order of `orders_of`, with the colours of `colorings_of`."""
    lanes = lanes_of(times, order, labels)
    table = span_table(times, lanes, color_spans(times, by, dark, labels), dark, labels)
    return Timeline(times, lanes, table, dark, labels)


def window_of(timeline: Timeline, x: tuple[float, float], y: tuple[float, float]) -> Window:
    """Return the window of the ranges that a viewer chose: whole lanes, within the timeline."""
    whole = timeline.table.window
    start, stop = (float(np.clip(edge, whole.start, whole.stop)) for edge in sorted(x))
    low, high = (float(np.clip(edge, 0, whole.last)) for edge in sorted(y))
    if not stop > start or not high > low:
        return whole
    return Window(start, stop, int(np.floor(low)), int(np.ceil(high)))


def picture_of(
    timeline: Timeline, window: Window | None = None, *, columns: int = COLUMNS, rows: int = ROWS
) -> Picture:
    """Return what a window shows; it does not touch HoloViews and may run on any thread."""
    table = timeline.table
    window = window or table.window
    inside = table.inside(window)
    if len(inside) <= MAX_RECTANGLES and window.lanes <= MAX_LANES:
        return Picture(window, rectangles=_rectangles(timeline, inside))
    return Picture(window, image=span_image(table, window, columns, rows))


def _rectangles(timeline: Timeline, inside: np.ndarray) -> pd.DataFrame:
    """Return the rectangles of some spans with what their tooltips say."""
    table = timeline.table
    start, stop, lane = table.start[inside], table.stop[inside], table.lane[inside]
    rollouts, place = np.unique(table.rollout[inside], return_inverse=True)
    about = np.array(_descriptions(timeline.times, rollouts, timeline.labels), object)
    names = np.array([*table.names, timeline.labels.not_known], object)
    colors = np.array([*table.colors, theme.palette(timeline.dark)["line"]], object)
    spans = [
        timeline.labels.span.format(name=name, seconds=number(seconds))
        for name, seconds in zip(names[table.code[inside]], (stop - start).tolist(), strict=True)
    ]
    columns = (start, lane + _GAP, stop, lane + 1 - _GAP, colors[table.code[inside]], spans, about[place])
    return pd.DataFrame(dict(zip(_COLUMNS, columns, strict=True)))


def _descriptions(times: RolloutTimes, rollouts: np.ndarray, labels: TimelineLabels) -> list[str]:
    """Return a line about each of some rollouts: its seconds by phase, its lag, version and status."""
    phases = len(times.phases)
    sums = np.bincount(times.owner * phases + times.phase, times.end - times.begin, len(times) * phases)
    names = phase_names(times, labels)
    lines = []
    for at in rollouts.tolist():
        parts = [labels.total.format(seconds=number(float(times.seconds[at])))]
        of_phase = sums[at * phases : (at + 1) * phases].tolist()
        parts += [
            labels.span.format(name=name, seconds=number(s))
            for name, s in zip(names, of_phase, strict=True)
            if s > 0
        ]
        if np.isfinite(times.version[at]):
            parts.append(labels.policy_version.format(version=f"{times.version[at]:.0f}"))
        if np.isfinite(times.lag[at]):
            parts.append(labels.lag.format(lag=f"{times.lag[at]:.0f}"))
        if times.failed[at]:
            parts.append(labels.status.format(status=plot_text(times.status[at], NAME_CHARS)))
        lines.append(", ".join(parts))
    return lines


def image_element(timeline: Timeline, picture: Picture) -> hv.Image:
    """Return the image; a tooltip names what prevails in a cell."""
    import holoviews as hv
    from bokeh.models import CustomJSHover, HoverTool

    table, window = timeline.table, picture.window
    bounds: tuple[float, ...] = (window.start, window.first, window.stop, window.last)
    if not picture.image.any():
        bounds = (-2, -2, -1, -1)  # out of view, so that it has no tooltip
    image = hv.Image(picture.image[::-1], ["seconds", "lane"], "cell", bounds=bounds)
    names = ["", timeline.labels.not_known, *table.names]
    hover = HoverTool(
        tooltips=[(timeline.labels.mostly, "@image{custom}")],
        formatters={"@image": CustomJSHover(args={"names": names}, code=_NAME_OF_CELL)},
    )
    palette = ["#00000000", theme.palette(timeline.dark)["line"], *table.colors]
    style = {"cmap": palette, "clim": (-0.5, len(palette) - 0.5), "tools": [hover]}
    return image.opts(**style, backend="bokeh")


def rectangles_element(picture: Picture, labels: TimelineLabels = ENGLISH_LABELS) -> hv.Rectangles:
    """Return the rectangles; a tooltip tells about a span and its rollout."""
    import holoviews as hv
    from bokeh.models import HoverTool

    hover = HoverTool(tooltips=[("", "@span"), (labels.rollout, "@rollout")])
    element = hv.Rectangles(picture.rectangles, list(_COLUMNS[:4]), list(_COLUMNS[4:]))
    style = {"color": "color", "line_color": None, "tools": [hover]}
    return element.opts(**style, backend="bokeh")


def frame_of(timeline: Timeline, window: Window | None = None) -> dict[str, Any]:
    """Return HoloViews' options of the frame: the first lane at the top, and the names of groups of lanes."""
    window = window or timeline.table.window
    ticks = [(lane + 0.5, plot_text(name, NAME_CHARS)) for lane, name in timeline.lanes.names]
    options: dict[str, Any] = {
        "xlim": (window.start, window.stop),
        "ylim": (float(window.first), float(max(window.last, 1))),
        "invert_yaxis": True,
        "show_grid": False,
    }
    return options | {"yticks": ticks or [(0, "")]}


def timeline_plot(timeline: Timeline, stream: Any, draw: Callable[..., Picture]) -> hv.Overlay:
    """Return a plot that draws the pictures of a stream; `frame_of` has the options of its frame.

    Parameters
    ----------
    timeline : Timeline
    stream : Stream
        Its events have the arguments of ``draw``.
    draw : callable
        Returns a `Picture`.
    """
    import holoviews as hv

    parts = [
        hv.DynamicMap(lambda **event: image_element(timeline, draw(**event)), streams=[stream]),
        hv.DynamicMap(lambda **event: rectangles_element(draw(**event), timeline.labels), streams=[stream]),
    ]
    return parts[0] * parts[1]


def load_bokeh() -> None:
    """Load HoloViews' backend, which takes long, once a plot is needed."""
    import holoviews as hv

    if "bokeh" not in hv.Store.renderers:
        hv.extension("bokeh")
