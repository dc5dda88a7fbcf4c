"""How a column's values lie over the whole run: step × value as a heatmap under the curve of their mean.

Each step is coloured by itself, its most frequent value full: so a narrow step and a wide one can both be
read, and a new step changes no other. One hue from the surface to the colour's far end, so that it needs no
sense of hue, and a change of theme sends a palette alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper, LogTicker, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Image, Line

from rlpanel.panels.plots.value_range import ValueRange
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.value_density import Density, density

#: Shades of the image; 0 is nothing.
SHADES = 64
#: Columns that the image has room for at first.
_FIRST = 16
_TIPS = [("step", "$x{0}"), ("value", "$y{0.000}")]


class DensityPlot:
    """The heatmap with its cursor.

    Parameters
    ----------
    column, color : str
        The sample column, and the theme's colour for it.
    mean : ColumnDataSource
        Points of the mean, which is drawn over the heatmap.
    height : int
    log : bool
        Whether the value axis is logarithmic; the figure's axes cannot be changed later.
    on_pick : callable
        Takes the step and the range of values that were clicked.
    """

    def __init__(
        self,
        column: str,
        color: str,
        mean: ColumnDataSource,
        height: int,
        *,
        log: bool,
        on_pick: Callable[[float, ValueRange], None],
    ) -> None:
        self.log = log
        self.found: Density | None = None
        self._column, self._color, self._on_pick = column, color, on_pick
        self._shown = np.empty((0, 0), np.uint8)
        self._mapper = LinearColorMapper(palette=["#00000000"] * SHADES, low=0, high=SHADES)
        self._image = ColumnDataSource(_no_image(), name="density")
        self._plot: Any = theme.quiet_figure(
            height=height,
            min_border_right=10,
            x_range=Range1d(start=0, end=1),
            y_range=Range1d(start=1, end=10),
            y_axis_type="log" if log else "linear",
        )
        if log:
            self._plot.yaxis.ticker = LogTicker(desired_num_ticks=3, num_minor_ticks=0)
        image = Image(image="image", x="x", y="y", dw="dw", dh="dh", color_mapper=self._mapper)
        self._cells = self._plot.add_glyph(self._image, image, level="underlay")
        # A line in the surface's colour around the mean's, which would be lost in the brightest cells.
        self._casing, self._line = theme.over(
            self._plot,
            mean,
            Line(x="x", y="y", line_width=3.6, line_alpha=0.75),
            Line(x="x", y="y", line_width=1.3),
        )
        self._plot.add_tools(HoverTool(tooltips=_TIPS, renderers=[self._cells]))
        self._span = Span(dimension="height", line_width=1, line_alpha=0.9, visible=False)
        self._plot.add_layout(self._span)
        self._plot.on_event(Tap, self._tapped)
        self.pane = pn.pane.Bokeh(
            self._plot,
            sizing_mode="stretch_width",
            height=height,
            margin=(0, 4, 0, 4),
        )

    def draw(self, snapshot: Snapshot) -> None:
        """Bring the heatmap to a snapshot; only columns that changed are sent."""
        self.found = density(snapshot, self._column, log=self.log, before=self.found)
        if self.found is None:
            self._image.data = _no_image()
            self._shown = np.empty((0, 0), np.uint8)
            return
        image = _roomy(shades(self.found.counts))
        data = _image_of(self.found, image)
        here = {name: self._image.data[name] for name in data if name != "image"}
        if here == {name: data[name] for name in here} and image.shape == self._shown.shape:
            self._patch(image)
        else:
            self._image.data = data
        self._fit(self.found)
        self._shown = image

    def show_mean(self, shown: bool) -> None:
        """Whether the mean is drawn: not where it is shifted and the values are not."""
        for line in (self._casing, self._line):
            if line.visible != shown:
                line.visible = shown

    def move_cursor(self, step: int | None) -> None:
        """The selected step's line."""
        if step is None:
            self._span.visible = False
        else:
            self._span.update(location=float(step), visible=True)

    def restyle(self, dark: bool) -> None:
        """Colours for dark or light."""
        colors = theme.palette(dark)
        theme.restyle(self._plot, dark)
        self._mapper.palette = ramp(colors[self._color], colors["surface"], dark)
        self._casing.glyph.line_color = colors["surface"]
        self._line.glyph.line_color = self._span.line_color = colors["text"]

    def _patch(self, image: np.ndarray) -> None:
        """Send the columns that differ."""
        for place in np.flatnonzero((image != self._shown).any(axis=0)).tolist():
            cells = (0, slice(None), slice(place, place + 1))
            self._image.patch({"image": [(cells, image[:, place].copy())]})

    def _fit(self, found: Density) -> None:
        width = found.width
        end = found.first + len(found.counts) * width
        self._plot.x_range.update(start=found.first - width / 2, end=end - width / 2)
        low, high = found.axis.low, found.axis.high
        room = 0.03 * (high - low)
        self._plot.y_range.update(
            start=low if self.log else low - room, end=high if self.log else high + room
        )

    def _tapped(self, event: Any) -> None:
        if self.found is not None and event.x is not None:
            low, high = self.found.cell(self.found.place(event.x + self.found.width / 2), event.y)
            self._on_pick(event.x, ValueRange(self._column, low, high))


def shades(counts: np.ndarray) -> np.ndarray:
    """Counts as shades, shape (bins, C): 0 for none, the most frequent value of each column full.

    By the square root, so that a tenth of the samples can still be seen.
    """
    most = np.maximum(counts.max(axis=1, keepdims=True), 1)
    scaled = np.ceil(np.sqrt(counts / most) * (SHADES - 1))
    return np.ascontiguousarray(scaled.T.astype(np.uint8))


def ramp(color: str, surface: str, dark: bool) -> list[str]:
    """Shades from the surface over a colour to its far end: light in the dark, dark in the light."""
    far = "#ffffff" if dark else "#000000"
    stops = [_rgb(surface), _rgb(color), _mix(_rgb(color), _rgb(far), 0.45)]
    at = np.linspace(0, 1, SHADES - 1) * 0.88 + 0.12  # the faintest shade still differs from none
    mixed = np.stack([np.interp(at, [0, 0.6, 1], [stop[i] for stop in stops]) for i in range(3)], axis=1)
    return ["#00000000", *("#" + "".join(f"{round(part):02x}" for part in row) for row in mixed.tolist())]


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _mix(a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _roomy(image: np.ndarray) -> np.ndarray:
    """The image with empty columns for further steps, so that the next one is a patch."""
    bins, columns = image.shape
    room = np.zeros((bins, max(_FIRST, 1 << (columns - 1).bit_length())), np.uint8)
    room[:, :columns] = image
    return room


def _image_of(found: Density, image: np.ndarray) -> dict[str, list[Any]]:
    """The image and where it lies."""
    width = found.width
    return {
        "image": [image],
        "x": [found.first - width / 2],
        "y": [found.axis.low],
        "dw": [image.shape[1] * width],
        "dh": [found.axis.high - found.axis.low],
    }


def _no_image() -> dict[str, list[Any]]:
    return {name: [] for name in ("image", "x", "y", "dw", "dh")}
