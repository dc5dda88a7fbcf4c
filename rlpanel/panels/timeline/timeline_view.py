"""The tab with the timeline of a step: one bar per rollout, divided into its phases.

Its head has order, colours, legend, a note, and the slowest rollouts as buttons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, has_times, read_spans, times_of
from rlpanel.panels.timeline.span_colors import PHASE, colorings_of, session_labels
from rlpanel.panels.timeline.span_table import Window
from rlpanel.panels.timeline.swim_lanes import SLOWEST, orders_of
from rlpanel.panels.timeline.timeline_figure import TimelineFigure
from rlpanel.panels.timeline.timeline_plot import (
    Picture,
    Timeline,
    load_bokeh,
    picture_of,
    timeline_of,
    window_of,
)
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


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
