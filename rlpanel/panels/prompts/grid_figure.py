"""The grid of pass rates as a HoloViews image: its pixels, a lane per prompt, and bands of classes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.events import RangesUpdate, Tap
from bokeh.models import ColumnDataSource, CustomJSHover, FixedTicker, HoverTool
from panel.viewable import Viewer

from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import finish_on_board, holoviews
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.prompt_grid import PromptGrid

# -- grid image ----------------------------------------------------------------------------------------
# Pass rates of prompt × step as the pixels of a view: sums of passes, divided by sums of samples.
#
# The plot is a HoloViews image. Its pixels are summed here, not by datashader: each is a quotient of two sums
# over cells that already have whole places, which two `numpy.bincount` give. Datashader would need a frame of
# coordinates of all cells, twice the memory, and numba, which compiles for seconds at the first picture.


#: Cells that are added up at once.
_BLOCK = 1 << 21


@dataclass(frozen=True)
class GridWindow:
    """The part of a grid that is in view: positions of steps and lanes, the last of each excluded."""

    start: int
    stop: int
    first: int
    last: int

    @property
    def lanes(self) -> int:
        """Number of lanes in view."""
        return self.last - self.first

    @property
    def steps(self) -> int:
        """Number of steps in view."""
        return self.stop - self.start


@dataclass(frozen=True)
class GridImage:
    """Passes and samples of each pixel, shape (rows, columns) each; the first row is the first lane."""

    window: GridWindow
    passed: np.ndarray
    samples: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """Pass rate of each pixel; NaN without samples."""
        with np.errstate(invalid="ignore"):
            return np.where(self.samples > 0, self.passed / np.maximum(self.samples, 1), np.nan)


def window_of(grid: PromptGrid, lanes: int, x: tuple[float, float], y: tuple[float, float]) -> GridWindow:
    """Return the window of the ranges that a viewer chose: whole steps and lanes, within the grid."""
    steps = len(grid.steps)
    start, stop = (float(np.clip(edge, 0, steps)) for edge in sorted(x))
    first, last = (float(np.clip(edge, 0, lanes)) for edge in sorted(y))
    if not stop > start or not last > first:
        return GridWindow(0, steps, 0, lanes)
    return GridWindow(int(start), int(np.ceil(stop)), int(first), int(np.ceil(last)))


def lanes_of(grid: PromptGrid, prompts: np.ndarray) -> np.ndarray:
    """Return the lane of each prompt of the grid, shape (P,): its place in ``prompts``, or -1 for none."""
    lanes = np.full(len(grid), -1, np.int32)
    lanes[prompts] = np.arange(len(prompts), dtype=np.int32)
    return lanes


def grid_image(grid: PromptGrid, lanes: np.ndarray, window: GridWindow, columns: int, rows: int) -> GridImage:
    """Return the pixels of a window, at most ``rows`` × ``columns``; there are no more than lanes and steps.

    Parameters
    ----------
    grid : PromptGrid
    lanes : ndarray of int, shape (P,)
        See `lanes_of`.
    window : GridWindow
    columns, rows : int
    """
    columns, rows = max(min(columns, window.steps), 1), max(min(rows, window.lanes), 1)
    passed, samples = np.zeros(rows * columns), np.zeros(rows * columns)
    # Tables from position to pixel are short, so that a cell costs two look-ups.
    x = np.full(len(grid.steps), -1, np.int32)
    x[window.start : window.stop] = np.arange(window.steps) * columns // max(window.steps, 1)
    lane = lanes - window.first
    y = np.where((lane >= 0) & (lane < window.lanes) & (lanes >= 0), lane * rows // max(window.lanes, 1), -1)
    y = y.astype(np.int32)
    for begin in range(0, len(grid.prompt), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        column, row = x[grid.step[part]], y[grid.prompt[part]]
        inside = np.flatnonzero((column >= 0) & (row >= 0))
        pixel = row[inside] * columns + column[inside]
        passed += np.bincount(pixel, grid.passed[part][inside], rows * columns)
        samples += np.bincount(pixel, grid.samples[part][inside], rows * columns)
    return GridImage(window, passed.reshape(rows, columns), samples.reshape(rows, columns))


# -- grid figure ---------------------------------------------------------------------------------------
# The grid of pass rates as a HoloViews image: a lane per prompt, a column per step, bands of classes.


#: Height of the plot, and pixels of an image unless the size of the plot is known.
HEIGHT = 280
COLUMNS, ROWS = 900, 240
#: Shades of the pass rate, an odd number: the middle one is the neutral colour.
SHADES = 41
#: Most labels of an axis of steps, and least height of a band with a label, as a share of the view.
_LABELS, _BAND = 8, 0.05
_NEUTRAL = {True: "#59616f", False: "#c3c9d3"}
_ROW_OF = "Math.min(names.length - 1, Math.max(0, Math.floor((value - first) * names.length / lanes)))"
_NAME = f"return names[{_ROW_OF}] ?? ''"
_COLUMN_OF = "Math.min(steps.length - 1, Math.max(0, Math.floor((value - start) * steps.length / count)))"
_STEP = f"return steps[{_COLUMN_OF}]"
_RATE = "return Number.isFinite(value) ? Math.round(value * 100) + ' %' : '–'"


@dataclass(frozen=True)
class GridPicture:
    """An image with what its axes and tooltips say.

    Attributes
    ----------
    image : GridImage
    names : tuple of str
        Of each row of the image: the prompt, or how many it holds.
    columns : tuple of str
        Of each column of the image: its steps.
    bands : tuple of (int, int, str)
        First lane, last lane (excluded) and title of each class.
    ticks : mapping of float to str
        Labels of the axis of steps by position.
    """

    image: GridImage
    names: tuple[str, ...]
    columns: tuple[str, ...]
    bands: tuple[tuple[int, int, str], ...]
    ticks: dict[float, str]


def import_plots() -> None:
    """Import HoloViews with its Bokeh backend, for a thread: it takes half a second of the event loop."""
    import holoviews.plotting.bokeh  # noqa: F401


def plots_are_imported() -> bool:
    """Return True if HoloViews was imported with its Bokeh backend."""
    return "holoviews.plotting.bokeh" in sys.modules


def rate_colors(dark: bool) -> list[str]:
    """Return the shades from no pass, over the neutral colour, to all passes.

    They are the board's colours for below and above a neutral value. Readers without red or green cones see
    the difference, too.
    """
    colors = theme.palette(dark)
    ends = [_channels(each) for each in (colors["reference"], _NEUTRAL[dark], colors["policy"])]
    at = np.linspace(0, 2, SHADES)
    mixed = np.array([np.interp(at, [0, 1, 2], [end[channel] for end in ends]) for channel in range(3)])
    return ["#" + "".join(f"{round(value):02x}" for value in color) for color in mixed.T.tolist()]


def _channels(color: str) -> list[int]:
    return [int(color[at : at + 2], 16) for at in (1, 3, 5)]


def step_ticks(steps: np.ndarray, start: int, stop: int) -> dict[float, str]:
    """Return labels by the middle of their columns: the ends of the view, and round steps between."""
    shown = steps[start:stop]
    places = list(range(len(shown)))
    if len(shown) > _LABELS:
        low, high = int(shown[0]), int(shown[-1])
        widths = (power * each for power in 10 ** np.arange(19) for each in (1, 2, 5))
        width = int(next(each for each in widths if (high - low) / each <= _LABELS - 2))
        last, room = len(shown) - 1, len(shown) / _LABELS / 1.5
        places = [0]
        for place in np.searchsorted(shown, np.arange(low // width * width, high, width)).tolist():
            if place - places[-1] >= room and last - place >= room:
                places.append(place)
        places.append(last)
    return {start + place + 0.5: f"{shown[place]:,}" for place in places}


class GridFigure(Viewer):
    """The plot of a `GridPicture`.

    Parameters
    ----------
    on_zoom : callable
        Gets the ranges of steps and lanes that the viewer chose.
    on_tap : callable
        Gets the place of a click: position of the step, and lane.
    """

    def __init__(self, on_zoom: Callable[..., None], on_tap: Callable[[float, float], None]) -> None:
        super().__init__()
        self._on_zoom, self._on_tap = on_zoom, on_tap
        self._pane: Any = None  # made with the first picture: it imports HoloViews
        self._box = pn.Column(
            sizing_mode="stretch_width", visible=False, margin=(0, 14), css_classes=["rl-prompt-grid"]
        )
        self._pictures: Any = None
        self._figure: Any = None
        self._key: Any = None
        self._picture: GridPicture | None = None
        self._bands = ColumnDataSource({"y": []})
        self._names, self._steps = CustomJSHover(code=_NAME), CustomJSHover(code=_STEP)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._box

    @property
    def pixels(self) -> tuple[int, int]:
        """Columns and rows of an image that fills the plot."""
        try:
            width, height = self._figure.inner_width, self._figure.inner_height
        except (AttributeError, UnsetValueError):  # no plot, or the browser has not drawn it yet
            return COLUMNS, ROWS
        return min(max(width, 200), 2_000), min(max(height, 100), 600)

    def clear(self) -> None:
        """Hide the plot."""
        self._key = self._figure = self._pictures = None
        if self._pane is not None:
            self._pane.object = None
        self._box.visible = False

    def show_grid(self, picture: GridPicture, key: object, dark: bool, whole: tuple[int, int]) -> None:
        """Draw a picture; a plot with the same key is kept, with the part that is in view.

        Parameters
        ----------
        picture : GridPicture
        key : object
            Changes with the run, the theme and the size of the grid.
        dark : bool
        whole : tuple of (int, int)
            Number of steps and of lanes.
        """
        self._picture = picture
        if key == self._key and self._pictures is not None:
            self._pictures.send(picture)
            return
        self._key, self._figure = key, None
        self._make(picture, dark, whole)
        self._box.visible = True

    def show_all(self, steps: int, lanes: int) -> None:
        """Bring the whole grid into view."""
        if self._figure is not None:
            self._figure.x_range.update(start=0.0, end=float(steps))
            self._figure.y_range.update(start=float(lanes), end=0.0)

    def _make(self, picture: GridPicture, dark: bool, whole: tuple[int, int]) -> None:
        hv = holoviews()
        if self._pane is None:
            self._pane = pn.pane.HoloViews(
                None, sizing_mode="stretch_width", height=HEIGHT, margin=0, linked_axes=False
            )
            self._box.append(self._pane)
        self._pictures = hv.streams.Pipe(data=picture)
        self._names, self._steps = CustomJSHover(code=_NAME), CustomJSHover(code=_STEP)
        hover = HoverTool(
            tooltips=[
                (tr("prompt"), "$y{custom}"),
                (tr("step"), "$x{custom}"),
                (tr("passed"), "@image{custom}"),
                (tr("samples"), "@samples{0,0}"),
            ],
            formatters={"$y": self._names, "$x": self._steps, "@image": CustomJSHover(code=_RATE)},
        )

        def draw(data: GridPicture) -> Any:
            window, rate = data.image.window, data.image.rate
            rows, columns = rate.shape
            x = window.start + (np.arange(columns) + 0.5) * window.steps / columns
            y = window.first + (np.arange(rows) + 0.5) * window.lanes / rows
            values = (x, y, rate.astype(np.float32), data.image.samples.astype(np.int32))
            edges = (window.start, window.first, window.stop, window.last)
            return hv.Image(values, ["step", "prompt"], ["passed", "samples"], bounds=edges)

        plot = hv.DynamicMap(draw, streams=[self._pictures])
        self._pane.object = plot.opts(
            cmap=rate_colors(dark),
            clim=(0, 1),
            clipping_colors={"NaN": "#00000000"},
            xlim=(0, whole[0]),
            ylim=(0, max(whole[1], 1)),
            invert_yaxis=True,
            responsive=True,
            min_height=HEIGHT,
            toolbar=None,
            default_tools=[],
            tools=[hover, "box_zoom"],
            active_tools=["box_zoom"],
            show_frame=False,
            show_grid=False,
            xlabel=tr("step"),
            ylabel="",
            hooks=[lambda made, _: self._finish(made.state, dark)],
            backend="bokeh",
        )

    def _finish(self, figure: Any, dark: bool) -> None:
        """Style the figure that HoloViews made, and label what is in view."""
        picture, colors = self._picture, theme.palette(dark)
        finish_on_board(figure, dark)
        figure.xgrid.visible = figure.ygrid.visible = False
        if figure is not self._figure:  # HoloViews calls hooks again for each picture
            self._figure, self._bands = figure, ColumnDataSource({"y": []})
            figure.hspan(y="y", source=self._bands, line_color=colors["text"], line_width=1)
            figure.on_event(Tap, lambda event: self._on_tap(*_numbers(event.x, event.y)))
            figure.on_event(RangesUpdate, self._on_ranges)
        if picture is None:
            return
        window = picture.image.window
        figure.xaxis.ticker = FixedTicker(ticks=list(picture.ticks))
        figure.xaxis.major_label_overrides = dict(picture.ticks)
        labels = {}
        for first, last, title in picture.bands:
            top, end = max(first, window.first), min(last, window.last)
            if end - top >= _BAND * window.lanes:
                labels[(top + end) / 2] = title
        figure.yaxis.ticker = FixedTicker(ticks=list(labels))
        figure.yaxis.major_label_overrides = labels
        self._bands.data = {"y": [first for first, *_ in picture.bands if first]}
        self._names.args = {
            "names": list(picture.names),
            "first": window.first,
            "lanes": max(window.lanes, 1),
        }
        self._steps.args = {
            "steps": list(picture.columns),
            "start": window.start,
            "count": max(window.steps, 1),
        }

    def _on_ranges(self, event: Any) -> None:
        x0, x1, y0, y1 = _numbers(event.x0, event.x1, event.y0, event.y1)
        if all(map(math.isfinite, (x0, x1, y0, y1))):
            self._on_zoom((x0, x1), (y0, y1))


def _numbers(*values: Any) -> tuple[float, ...]:
    """Return what the browser sent as numbers; NaN for anything else."""
    return tuple(float(value) if isinstance(value, (int, float)) else math.nan for value in values)
