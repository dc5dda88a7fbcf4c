"""Distribution of a column's values over the run: a heatmap of step × value, or a ridge plot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, LinearColorMapper
from bokeh.models.glyphs import Image, Line

from rlpanel.panels.plots.plot_elements import ON_BOARD, Ridges, holoviews, ridge_area, ridges
from rlpanel.panels.plots.quiet_figure import add_glyphs
from rlpanel.panels.plots.value_axis import ValueRange, widen
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.value_density import Density, density

# -- density plot --------------------------------------------------------------------------------------
# Distribution of a column's values over the run: a heatmap of step × value behind the line of the mean.
#
# Each step is scaled by its own most frequent value, so narrow and wide distributions can both be read, and a
# new step changes no other. The heatmap has a single hue that varies in lightness: colour-blind viewers can
# read it, and a change of theme sends only a palette.


#: Number of shades; shade 0 means no samples.
SHADES = 64
#: Initial number of columns of the image.
_MIN_COLUMNS = 16


class DensityLayer:
    """The heatmap behind the line of a figure.

    Parameters
    ----------
    plot : figure
        Its value axis is logarithmic if ``log``.
    column, color : str
        The sample column, and the name of its theme colour.
    mean : ColumnDataSource
        Points of the mean, whose line gets an outline.
    log : bool
    """

    def __init__(
        self, plot: Any, column: str, color: str, mean: ColumnDataSource, *, log: bool = False
    ) -> None:
        self.log = log
        self.density: Density | None = None
        self._column, self._color = column, color
        self._shown = np.empty((0, 0), np.uint8)
        self._mapper = LinearColorMapper(palette=["#00000000"] * SHADES, low=0, high=SHADES)
        self._image = ColumnDataSource(_no_image(), name="density")
        image = Image(image="image", x="x", y="y", dw="dw", dh="dh", color_mapper=self._mapper)
        self._cells = plot.add_glyph(self._image, image, level="image")
        # An outline in the surface's colour keeps the line of the mean visible on the brightest cells.
        outline = Line(x="x", y="y", line_width=3.6, line_alpha=0.75)
        [self._outline] = add_glyphs(plot, mean, outline, level="underlay")

    def draw(self, snapshot: Snapshot) -> bool:
        """Update the heatmap to a snapshot, and return whether the values can be shown on the axis.

        Only columns that changed are sent.
        """
        self.density = density(snapshot, self._column, log=self.log, before=self.density)
        if self.density is None or self.density.axis.log != self.log:  # most values are not above 0
            self.hide()
            return False
        image = _with_spare_columns(shades(self.density.counts))
        data = _image_of(self.density, image)
        position = {name: self._image.data[name] for name in data if name != "image"}
        if position == {name: data[name] for name in position} and image.shape == self._shown.shape:
            self._patch(image)
        else:
            self._image.data = data
        self._shown = image
        self._show(True)
        return True

    def hide(self) -> None:
        """Hide the heatmap, and forget what it showed."""
        self.density = None
        self._shown = np.empty((0, 0), np.uint8)
        if self._image.data["image"]:
            self._image.data = _no_image()
        self._show(False)

    def axis(self, least: float = 0.0) -> tuple[float, float] | None:
        """Return start and end of the value axis; None while nothing is shown."""
        if self.density is None:
            return None
        low, high = self.density.axis.low, self.density.axis.high
        if self.log:
            return low, high
        low, high = widen(low, high, least)
        margin = 0.03 * (high - low)
        return low - margin, high + margin

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(dark)
        self._mapper.palette = ramp(colors[self._color], colors["surface"], dark)
        self._outline.glyph.line_color = colors["surface"]

    def range_at(self, x: float, y: float) -> ValueRange | None:
        """Return the range of the values that are drawn at a place; None while nothing is shown."""
        if self.density is None:
            return None
        low, high = self.density.value_range(self.density.column_of(x + self.density.width / 2), y)
        return ValueRange(self._column, low, high)

    def _show(self, on: bool) -> None:
        for part in (self._cells, self._outline):
            if part.visible != on:
                part.visible = on

    def _patch(self, image: np.ndarray) -> None:
        """Send the columns that changed."""
        for column in np.flatnonzero((image != self._shown).any(axis=0)).tolist():
            cells = (0, slice(None), slice(column, column + 1))
            self._image.patch({"image": [(cells, image[:, column].copy())]})


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


# -- ridge plot ----------------------------------------------------------------------------------------
# Ridge plot of a column's values over the run: a few ridges, each a range of steps, the newest in front.
#
# It is built with HoloViews on demand. Ridges are replaced as a whole, so nothing is streamed.


class RidgePlot:
    """The ridges of one column; like `DensityPlot`, but it highlights a ridge instead of moving a cursor."""

    def __init__(
        self,
        column: str,
        color: str,
        height: int,
        *,
        log: bool,
        on_pick: Callable[[float, ValueRange], None],
    ) -> None:
        self.log = log
        self.density: Density | None = None
        self._column, self._color, self._on_pick = column, color, on_pick
        self._height = height
        self._dark = True
        self._step: int | None = None
        self._drawn: Ridges | None = None
        self.pane = pn.pane.HoloViews(
            None,
            sizing_mode="stretch_width",
            height=height,
            margin=(0, 4, 0, 4),
            linked_axes=False,
        )

    def draw(self, snapshot: Snapshot) -> None:
        """Update the ridges to a snapshot."""
        before, self.density = (
            self.density,
            density(snapshot, self._column, log=self.log, before=self.density),
        )
        if before is None or self.density is None or not _equal(before, self.density):
            self._rebuild()

    def move_cursor(self, step: int | None) -> None:
        """Highlight the ridge that contains the selected step."""
        if self._drawn is not None and self._ridge_of(step) != self._ridge_of(self._step):
            self._step = step
            self._rebuild()
        self._step = step

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        if dark != self._dark:
            self._dark = dark
            self._rebuild()

    def _rebuild(self) -> None:
        self._drawn = ridges(self.density) if self.density is not None else None
        self.pane.object = self._overlay(self._drawn) if self._drawn is not None else None

    def _overlay(self, shape: Ridges) -> Any:
        """Return the ridges as a HoloViews overlay. Time runs downwards; the newest ridge is drawn last."""
        colors, selected = theme.palette(self._dark), self._ridge_of(self._step)
        areas = []
        for ridge in range(len(shape.heights)):
            line: dict[str, Any] = (
                {"line_color": colors["text"], "line_width": 1.4, "fill_alpha": 0.9}
                if ridge == selected
                else {"line_color": colors["surface"], "line_width": 0.8, "fill_alpha": 0.6}
            )
            areas.append(
                ridge_area(shape, ridge, "value", color=colors[self._color], responsive=True, **line)
            )
        return holoviews().Overlay(areas).opts(
            **ON_BOARD, height=self._height, responsive=True, yticks=shape.ticks[::2], xlabel="", ylabel="",
            logx=self.log, hooks=[self._finish],
        )  # fmt: skip

    def _finish(self, plot: Any, _: Any) -> None:
        """Style the figure that HoloViews made, and handle clicks."""
        figure = plot.state
        theme.restyle(figure, self._dark)
        figure.ygrid.visible = False
        figure.on_event(Tap, self._on_tap)

    def _ridge_of(self, step: int | None) -> int:
        """Return the index of the ridge that a step belongs to; -1 without step or ridges."""
        if step is None or self._drawn is None:
            return -1
        return int(np.clip(np.searchsorted(self._drawn.last, step), 0, len(self._drawn.last) - 1))

    def _on_tap(self, event: Any) -> None:
        if self.density is None or self._drawn is None or event.x is None:
            return
        ridge = int(np.clip(round(-event.y + 0.4), 0, len(self._drawn.last) - 1))
        step = float(self._drawn.last[ridge])
        low, high = self.density.value_range(self.density.column_of(step), event.x)
        self._on_pick(step, ValueRange(self._column, low, high))


def _equal(before: Density, after: Density) -> bool:
    return before.axis == after.axis and np.array_equal(before.counts, after.counts)
