"""Distribution of a column's values over the run: a heatmap of step × value below the curve of the mean.

Each step is scaled by its own most frequent value, so narrow and wide distributions can both be read, and a
new step changes no other. The heatmap has a single hue that varies in lightness: colour-blind viewers can
read it, and a change of theme sends only a palette.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper, Range1d
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Image, Line

from rlpanel.panels.plots.quiet_figure import StepShading, add_glyphs, quiet_figure
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.value_density import Density, density

#: Number of shades; shade 0 means no samples.
SHADES = 64
#: Initial number of columns of the image.
_MIN_COLUMNS = 16
_TIPS = [("step", "$x{0}"), ("value", "$y{0.000}")]


class DensityPlot:
    """The heatmap with its cursor.

    Parameters
    ----------
    column, color : str
        The sample column, and the name of its theme colour.
    mean : ColumnDataSource
        Points of the mean, which is drawn over the heatmap.
    height : int
    log : bool
        Whether the value axis is logarithmic; a figure's axis type cannot be changed later.
    on_pick : callable
        Called with the clicked step and range of values.
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
        self.density: Density | None = None
        self._column, self._color, self._on_pick = column, color, on_pick
        self._shown = np.empty((0, 0), np.uint8)
        self._mapper = LinearColorMapper(palette=["#00000000"] * SHADES, low=0, high=SHADES)
        self._image = ColumnDataSource(_no_image(), name="density")
        self._plot: Any = quiet_figure(
            height=height,
            min_border_right=10,
            x_range=Range1d(start=0, end=1),
            y_range=Range1d(start=1, end=10),
            y_axis_type="log" if log else "linear",
        )
        image = Image(image="image", x="x", y="y", dw="dw", dh="dh", color_mapper=self._mapper)
        self._cells = self._plot.add_glyph(self._image, image, level="underlay")
        self.shading = StepShading(self._plot)
        # An outline in the surface's colour keeps the line of the mean visible on the brightest cells.
        self._outline, self._line = add_glyphs(
            self._plot,
            mean,
            Line(x="x", y="y", line_width=3.6, line_alpha=0.75),
            Line(x="x", y="y", line_width=1.3),
        )
        self._plot.add_tools(HoverTool(tooltips=_TIPS, renderers=[self._cells]))
        self._span = Span(dimension="height", line_width=1, line_alpha=0.9, visible=False)
        self._plot.add_layout(self._span)
        self._plot.on_event(Tap, self._on_tap)
        self.pane = pn.pane.Bokeh(
            self._plot,
            sizing_mode="stretch_width",
            height=height,
            margin=(0, 4, 0, 4),
        )

    def draw(self, snapshot: Snapshot) -> None:
        """Update the heatmap to a snapshot; only columns that changed are sent."""
        self.density = density(snapshot, self._column, log=self.log, before=self.density)
        if self.density is None:
            self._image.data = _no_image()
            self._shown = np.empty((0, 0), np.uint8)
            return
        image = _with_spare_columns(shades(self.density.counts))
        data = _image_of(self.density, image)
        position = {name: self._image.data[name] for name in data if name != "image"}
        if position == {name: data[name] for name in position} and image.shape == self._shown.shape:
            self._patch(image)
        else:
            self._image.data = data
        self._fit(self.density)
        self._shown = image

    def show_mean(self, shown: bool) -> None:
        """Show or hide the mean; it is hidden if it is shifted, because the values are not."""
        for line in (self._outline, self._line):
            if line.visible != shown:
                line.visible = shown

    def move_cursor(self, step: int | None) -> None:
        """Move the vertical line to the selected step."""
        if step is None:
            self._span.visible = False
        else:
            self._span.update(location=float(step), visible=True)

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(dark)
        theme.restyle(self._plot, dark)
        self._mapper.palette = ramp(colors[self._color], colors["surface"], dark)
        self._outline.glyph.line_color = colors["surface"]
        self._line.glyph.line_color = self._span.line_color = colors["text"]

    def _patch(self, image: np.ndarray) -> None:
        """Send the columns that changed."""
        for column in np.flatnonzero((image != self._shown).any(axis=0)).tolist():
            cells = (0, slice(None), slice(column, column + 1))
            self._image.patch({"image": [(cells, image[:, column].copy())]})

    def _fit(self, density: Density) -> None:
        width = density.width
        end = density.first + len(density.counts) * width
        self._plot.x_range.update(start=density.first - width / 2, end=end - width / 2)
        low, high = density.axis.low, density.axis.high
        margin = 0.03 * (high - low)
        self._plot.y_range.update(
            start=low if self.log else low - margin, end=high if self.log else high + margin
        )

    def _on_tap(self, event: Any) -> None:
        if self.density is not None and event.x is not None:
            low, high = self.density.value_range(
                self.density.column_of(event.x + self.density.width / 2), event.y
            )
            self._on_pick(event.x, ValueRange(self._column, low, high))


def shades(counts: np.ndarray) -> np.ndarray:
    """Return counts as shades, shape (bins, C): 0 for none, the maximum for a column's most frequent value.

    The square root keeps values visible that only a tenth of the samples have.
    """
    most = np.maximum(counts.max(axis=1, keepdims=True), 1)
    scaled = np.ceil(np.sqrt(counts / most) * (SHADES - 1))
    return np.ascontiguousarray(scaled.T.astype(np.uint8))


def ramp(color: str, surface: str, dark: bool) -> list[str]:
    """Return shades from the surface through a colour towards white (dark theme) or black (light theme)."""
    far = "#ffffff" if dark else "#000000"
    stops = [_rgb(surface), _rgb(color), _mix(_rgb(color), _rgb(far), 0.45)]
    position = np.linspace(0, 1, SHADES - 1) * 0.88 + 0.12  # the faintest shade still differs from none
    mixed = np.stack(
        [np.interp(position, [0, 0.6, 1], [stop[i] for stop in stops]) for i in range(3)], axis=1
    )
    return ["#00000000", *("#" + "".join(f"{round(part):02x}" for part in row) for row in mixed.tolist())]


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _mix(a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> tuple[int, int, int]:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _with_spare_columns(image: np.ndarray) -> np.ndarray:
    """Return the image with empty columns for further steps, so that a new step is only a patch."""
    bins, columns = image.shape
    larger = np.zeros((bins, max(_MIN_COLUMNS, 1 << (columns - 1).bit_length())), np.uint8)
    larger[:, :columns] = image
    return larger


def _image_of(density: Density, image: np.ndarray) -> dict[str, list[Any]]:
    """Return the image and its position as columns of the data source."""
    width = density.width
    return {
        "image": [image],
        "x": [density.first - width / 2],
        "y": [density.axis.low],
        "dw": [image.shape[1] * width],
        "dh": [density.axis.high - density.axis.low],
    }


def _no_image() -> dict[str, list[Any]]:
    return {name: [] for name in ("image", "x", "y", "dw", "dh")}
