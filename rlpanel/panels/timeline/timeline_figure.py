"""The HoloViews pane of the tab: made anew for other lanes or colours, redrawn for another window."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import panel as pn
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.events import DoubleTap, PressUp, RangesUpdate, Tap
from bokeh.models import ColumnDataSource
from panel.viewable import Viewer

from rlpanel.panels.plots.plot_elements import finish_on_board
from rlpanel.panels.timeline.span_table import Window
from rlpanel.panels.timeline.timeline_plot import (
    COLUMNS,
    ROWS,
    Picture,
    Timeline,
    frame_of,
    load_bokeh,
    timeline_plot,
)
from rlpanel.panels.ui import theme

Zoom = Callable[[tuple[float, float], tuple[float, float]], None]
#: Bokeh's events of a click: the last two are a second click within 300 ms, and one that lasts longer.
_CLICKS = (Tap, DoubleTap, PressUp)
_NO_MARK: dict[str, list[float]] = {"left": [], "bottom": [], "right": [], "top": []}


class TimelineFigure(Viewer):
    """The plot of a `Timeline`.

    Parameters
    ----------
    on_zoom : callable
        Gets the ranges of seconds and lanes that the viewer chose.
    on_tap : callable
        Gets the place of a click: seconds and lane.
    """

    def __init__(self, on_zoom: Zoom, on_tap: Callable[[float, float], None]) -> None:
        super().__init__()
        self._on_zoom, self._on_tap = on_zoom, on_tap
        self._pane = pn.pane.HoloViews(
            None, sizing_mode="stretch_both", min_height=220, margin=0, linked_axes=False
        )
        self._key: Any = None
        self._extent: Any = None
        self._pictures: Any = None
        self._marks = ColumnDataSource(data=_NO_MARK)
        self._figure: Any = None

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    @property
    def pixels(self) -> tuple[int, int]:
        """Columns and rows of an image that fills the plot."""
        try:
            width, height = self._figure.inner_width, self._figure.inner_height
        except (AttributeError, UnsetValueError):  # no plot, or the browser has not drawn it yet
            return COLUMNS, ROWS
        return min(max(width, 200), 2_000), min(max(height, 100), 1_000)

    def clear(self) -> None:
        """Hide the plot."""
        self._key = self._pane.object = self._figure = None

    def show_timeline(self, timeline: Timeline, picture: Picture, key: Any, window: Window | None) -> None:
        """Draw a picture; a plot with the same key and entries is kept.

        A click or a box that the viewer draws would be lost with a plot that is replaced.
        """
        table = timeline.table
        key = (key, table.names, table.colors, tuple(timeline.lanes.names))
        extent = (table.lanes, table.seconds)
        if key == self._key and self._pictures is not None:
            if extent != self._extent and window is None:
                self.show_all(timeline)
            self.draw(picture)
        else:
            self._key = key
            self._make(timeline, picture)
        self._extent = extent

    def draw(self, picture: Picture) -> None:
        """Draw another picture in the same plot."""
        if self._pictures is not None and self._pane.object is not None:
            self._pictures.send(picture)

    def mark(self, timeline: Timeline, rollout: int) -> None:
        """Draw an outline around a rollout; -1 for none."""
        if self._figure is None:
            return
        if rollout < 0:
            self._marks.data = _NO_MARK
            return
        lane, start = int(timeline.lanes.lane[rollout]), float(timeline.lanes.offset[rollout])
        stop = start + float(timeline.times.seconds[rollout])
        self._marks.data = {"left": [start], "bottom": [lane], "right": [stop], "top": [lane + 1]}

    def show_all(self, timeline: Timeline) -> None:
        """Bring the whole timeline into view."""
        if self._figure is not None:
            table = timeline.table
            self._figure.x_range.update(start=0.0, end=table.seconds)
            self._figure.y_range.update(start=float(table.lanes), end=0.0)

    def _make(self, timeline: Timeline, picture: Picture) -> None:
        load_bokeh()
        import holoviews as hv

        dark = timeline.dark
        self._pictures = hv.streams.Pipe(data=picture)
        plot = timeline_plot(timeline, self._pictures, lambda data: data)
        self._pane.object = plot.opts(
            **frame_of(timeline, picture.window),
            responsive=True,
            min_height=220,
            toolbar=None,
            default_tools=[],
            tools=["box_zoom"],
            active_tools=["box_zoom"],
            show_frame=False,
            xlabel=timeline.labels.seconds,
            ylabel="",
            hooks=[lambda made, _: self._finish(made.state, dark)],
            backend="bokeh",
        )

    def _finish(self, figure: Any, dark: bool) -> None:
        """Style the figure that HoloViews made, and handle clicks and zooms."""
        colors = theme.palette(dark)
        finish_on_board(figure, dark)
        figure.xgrid.visible = figure.ygrid.visible = False
        if figure is not self._figure:  # HoloViews calls hooks again for each picture
            self._figure = figure
            self._outline(figure, colors["text"])
            for click in _CLICKS:
                figure.on_event(click, lambda event: self._on_tap(*_numbers(event.x, event.y)))
            figure.on_event(RangesUpdate, self._on_ranges)

    def _outline(self, figure: Any, color: str) -> None:
        """Add the outline of the chosen rollout, which HoloViews would draw more slowly."""
        self._marks = ColumnDataSource(data=_NO_MARK)
        box = {"left": "left", "bottom": "bottom", "right": "right", "top": "top"}
        figure.quad(**box, source=self._marks, fill_alpha=0, line_color=color, line_width=1.5)

    def _on_ranges(self, event: Any) -> None:
        x0, x1, y0, y1 = _numbers(event.x0, event.x1, event.y0, event.y1)
        if all(map(math.isfinite, (x0, x1, y0, y1))):
            self._on_zoom((x0, x1), (y0, y1))


def _numbers(*values: Any) -> tuple[float, ...]:
    """Return what the browser sent as numbers; NaN for anything else."""
    return tuple(float(value) if isinstance(value, (int, float)) else math.nan for value in values)
