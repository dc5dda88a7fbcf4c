"""The timeline as a HoloViews plot: rectangles with their numbers, or an image where there are many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rlpanel.number_text import number
from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_colors import (
    ENGLISH_LABELS,
    NAME_CHARS,
    PHASE,
    TimelineLabels,
    color_spans,
    phase_names,
)
from rlpanel.panels.timeline.span_raster import span_image
from rlpanel.panels.timeline.span_table import SpanTable, Window, span_table
from rlpanel.panels.timeline.swim_lanes import SLOWEST, SwimLanes, lanes_of
from rlpanel.panels.ui import theme
from rlpanel.texts.shorten import plot_text

if TYPE_CHECKING:
    import holoviews as hv

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
