"""The tab with the timeline of a step, and its pane: one bar per rollout, divided into its phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.events import DoubleTap, PressUp, RangesUpdate, Tap
from bokeh.models import ColumnDataSource
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import finish_on_board
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, has_times, read_spans, times_of
from rlpanel.panels.timeline.span_table import PHASE, SLOWEST, Window, colorings_of, orders_of, session_labels
from rlpanel.panels.timeline.timeline_plot import (
    COLUMNS,
    ROWS,
    Picture,
    Timeline,
    frame_of,
    load_bokeh,
    picture_of,
    timeline_of,
    timeline_plot,
    window_of,
)
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

# -- timeline figure -----------------------------------------------------------------------------------
# The HoloViews pane of the tab: made anew for other lanes or colours, redrawn for another window.


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


# -- timeline view -------------------------------------------------------------------------------------
# The tab with the timeline of a step: one bar per rollout, divided into its phases.
#
# Its head has order, colours, legend, a note, and the slowest rollouts as buttons.


def rollout_at(timeline: Timeline, x: float, y: float) -> int:
    """Return the position of the rollout nearest to a time in a lane; -1 if the lane has none.

    Parameters
    ----------
    timeline : Timeline
    x, y : float
        Seconds, and a lane; neither needs to be on the plot.
    """
    if not np.isfinite([x, y]).all():
        return -1
    members = np.flatnonzero(timeline.lanes.lane == int(np.floor(y)))
    if not len(members):
        return -1
    start = timeline.lanes.offset[members]
    stop = start + timeline.times.seconds[members]
    return int(members[np.maximum(start - x, x - stop).argmin()])


#: Number of the slowest rollouts that have a button.
_SLOWEST = 5


class TimelineHead(Component):
    """Drawn by ``timeline_head.js``.

    It sends pairs: ``["ready", 0]`` once it is drawn, ``["order", name]``, ``["color", name]``,
    ``["pick", position of a rollout]`` and ``["all", 0]``.
    """

    data = param.Dict(default={}, doc="What is shown; see `head_data`.")
    zoomed = param.Boolean(default=False, doc="Whether only a part of the timeline is in view.")

    _esm = read_assets("panels/ui/dom.js", "panels/timeline/timeline_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/timeline/timeline_head.css")]


def head_data(timeline: Timeline, order: str, coloring: str) -> dict[str, Any]:
    """Return what the head shows of a timeline.

    Returns
    -------
    dict
        ``note``, ``order``, ``orders``, ``coloring``, ``colorings``; ``entries``: names and colours of the
        legend; ``rollouts``: positions, texts and titles of the slowest.
    """
    times, table = timeline.times, timeline.table
    used = np.unique(table.code[table.code >= 0]).tolist()
    slowest = np.argsort(-times.seconds, kind="stable")[:_SLOWEST].tolist()
    return {
        "note": note_of(times),
        "order": order,
        "orders": orders_of(times),
        "coloring": coloring,
        "colorings": colorings_of(times),
        "entries": [(table.names[code], table.colors[code]) for code in used],
        "rollouts": [
            (
                at,
                f"{number(float(times.seconds[at]))} s",
                tr("Show the sample of rollout {place}", place=place),
            )
            for place, at in enumerate(slowest, 1)
        ],
    }


def note_of(times: RolloutTimes) -> str:
    """Return a sentence on the step's times, and on what is not known of them."""
    if not len(times):
        return tr("No rollout of this step has times.")
    middle, longest = np.quantile(times.seconds, [0.5, 1.0])
    label = tr("{count:,} rollouts: median {median} s, slowest {slowest} s.")
    parts = [label.format(count=len(times), median=number(float(middle)), slowest=number(float(longest)))]
    if not times.exact:
        parts.append(tr("Phases are sums; their order in time was not logged."))
    elif times.exact < len(times):
        label = tr("Phases of {count:,} rollouts are sums; their order in time was not logged.")
        parts.append(label.format(count=len(times) - times.exact))
    return " ".join(parts)


_NO_TIMES = (
    "This run logs no times. Log `timing` with each sample, for example "
    '{"start": 1700000000.0, "generation": 4.2, "tool": 1.1}, to see what rollouts wait for.'
)


class TimelineTab(Viewer):
    """Timeline of the selected step; a click selects the rollout's sample.

    Spans are read and images are computed on a thread; the event loop only replaces what is drawn.
    """

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._order, self._coloring = SLOWEST, PHASE
        self._timeline: Timeline | None = None
        self._window: Window | None = None  # None if everything is in view
        self._picture: Picture | None = None
        # A browser that still builds the tab's views ignores a child that is replaced: the plot stays blank.
        self._browser_ready = False
        self._key: Any = None
        self._reading: BackgroundTask[tuple[Timeline, Picture]] = BackgroundTask(
            self._show, context.threads.views
        )
        self._zooming: BackgroundTask[Picture] = BackgroundTask(
            lambda picture: self._figure.draw(picture), context.threads.views
        )
        self._head = TimelineHead(sizing_mode="stretch_width", margin=0)
        self._head.on_message(self._on_message)
        self._figure = TimelineFigure(self._zoom, self._tap)
        self._column = pn.Column(
            self._head,
            self._figure,
            sizing_mode="stretch_both",
            margin=(8, 14, 8, 14),
            css_classes=["rl-timeline"],
        )
        watch_step(context, self._load)
        context.selection.param.watch(self._load, "dark")
        context.param.watch(self._mark, "sample")
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _load(self, *_: Any) -> None:
        """Show the times of the columns, and then the spans of the lines."""
        self._reading.stop()
        self._zooming.stop()
        context, step = self.context, self.context.selection.step
        if not self.active:
            return
        if step is None or context.index is None or not has_times(context.snapshot):
            self._timeline = self._key = None
            self._head.data = {"note": _NO_TIMES}
            self._figure.clear()
            return
        key = (context.index, step, self._order, self._coloring, context.selection.dark)
        if key != self._key:
            self._window = None
        self._key = key
        self._reading.start(self._read(step))

    def _read(self, step: int) -> Iterator[tuple[Timeline, Picture]]:
        """Yield the timeline with more and more logged spans, on a thread."""
        load_bokeh()  # here, since it would occupy the event loop for 200 ms
        context = self.context
        assert context.index is not None
        snapshot = context.snapshot
        sums = times_of(context.view, step)
        yield self._drawn(sums)
        for times in read_spans(context.index, snapshot, sums):
            yield self._drawn(times)

    def _drawn(self, times: RolloutTimes) -> tuple[Timeline, Picture]:
        order = self._order if self._order in orders_of(times) else SLOWEST
        by = self._coloring if self._coloring in colorings_of(times) else PHASE
        dark = self.context.selection.dark
        timeline = timeline_of(times, order=order, by=by, dark=dark, labels=session_labels())
        columns, rows = self._figure.pixels
        return timeline, picture_of(timeline, self._window, columns=columns, rows=rows)

    def _show(self, drawn: tuple[Timeline, Picture]) -> None:
        self._timeline, picture = drawn
        times = self._timeline.times
        if self._order not in orders_of(times):
            self._order = SLOWEST
        if self._coloring not in colorings_of(times):
            self._coloring = PHASE
        self._head.data = head_data(self._timeline, self._order, self._coloring)
        self._picture = picture
        self._show_plot()

    def _show_plot(self) -> None:
        """Show the newest picture, if the browser is ready for a plot."""
        timeline, picture = self._timeline, self._picture
        if not self._browser_ready or timeline is None or picture is None:
            return
        if len(timeline.times):
            self._figure.show_timeline(timeline, picture, self._key, self._window)
        else:
            self._figure.clear()
        self._head.zoomed = self._window is not None
        if picture.window != self._in_view(timeline):  # the viewer zoomed while it was computed
            self._redraw(timeline)
        self._mark()

    def _zoom(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        """Draw the part that the viewer chose; the image or the rectangles are made on a thread."""
        timeline = self._timeline
        if timeline is None:
            return
        window = window_of(timeline, x, y)
        self._window = None if window == timeline.table.window else window
        self._head.zoomed = self._window is not None
        self._redraw(timeline)

    def _in_view(self, timeline: Timeline) -> Window:
        return self._window or timeline.table.window

    def _redraw(self, timeline: Timeline) -> None:
        """Draw what is in view, with as many cells as the plot has pixels."""
        window, (columns, rows) = self._in_view(timeline), self._figure.pixels

        def draw() -> Iterator[Picture]:
            if timeline is self._timeline:
                yield picture_of(timeline, window, columns=columns, rows=rows)

        self._zooming.start(draw())

    def _tap(self, x: float, y: float) -> None:
        """Select the sample of the rollout at a place of the plot."""
        timeline = self._timeline
        at = -1 if timeline is None else rollout_at(timeline, x, y)
        if timeline is not None and at >= 0:
            self.context.choose_sample(timeline.times.uids[at])

    def _mark(self, *_: Any) -> None:
        """Mark the bar of the selected sample."""
        timeline, sample = self._timeline, self.context.sample
        if not self.active or timeline is None:
            return
        uids = timeline.times.uids
        at = uids.index(sample.uid) if sample is not None and sample.uid in uids else -1
        self._figure.mark(timeline, at)

    def _on_message(self, message: Any) -> None:
        """Handle a click in the head, and that it is drawn. The message comes from the browser."""
        action, value = pair_of(message)
        if action == "ready" and not self._browser_ready:
            self._browser_ready = True
            self._show_plot()
        timeline = self._timeline
        if timeline is None:
            return
        times = timeline.times
        if action == "order" and value in orders_of(times):
            self._order = value
            self._load()
        elif action == "color" and value in colorings_of(times):
            self._coloring = value
            self._load()
        elif action == "pick" and isinstance(value, int) and 0 <= value < len(times):
            self.context.choose_sample(times.uids[value])
        elif action == "all":
            self._figure.show_all(timeline)
            whole = timeline.table.window
            self._zoom((whole.start, whole.stop), (whole.first, whole.last))
