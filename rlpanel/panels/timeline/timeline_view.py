"""The tab with the timeline of a step: one bar per rollout, divided into its phases.

The browser draws only the lanes in view on a canvas, so that a step may have thousands of rollouts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context, watch_step
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, has_times, read_spans, times_of
from rlpanel.panels.timeline.swim_lanes import SLOWEST, lanes_of, orders_of
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

_NO_TIMES = (
    "This run logs no times. Log `timing` with each sample, for example "
    '{"start": 1700000000.0, "generation": 4.2, "tool": 1.1}, to see what rollouts wait for.'
)


class TimelineComponent(JSComponent):
    """Canvas with the lanes, drawn by ``timeline.js``.

    It sends pairs: ``["order", name]`` and ``["pick", position of a rollout]``.
    """

    data = param.Dict(default={}, doc="Lanes and segments as little-endian arrays; see `_payload`.")
    chosen = param.Integer(default=-1, doc="Position of the selected sample among the rollouts; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")

    _esm = read_assets("panels/ui/dom.js", "panels/timeline/timeline.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/timeline/timeline.css")]


class TimelineTab(Viewer):
    """Timeline of the selected step; a click selects the rollout's sample."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._order = SLOWEST
        self._times: RolloutTimes | None = None
        self._task: BackgroundTask[RolloutTimes] = BackgroundTask(self._show)
        dark = context.selection.dark
        self._canvas = TimelineComponent(dark=dark, sizing_mode="stretch_both", css_classes=["rl-timeline"])
        context.selection.param.watch(lambda event: setattr(self._canvas, "dark", event.new), "dark")
        self._canvas.on_msg(lambda event: self._on_message(event.data))
        self._column = pn.Column(self._canvas, sizing_mode="stretch_both", margin=(8, 14, 8, 14))
        watch_step(context, self._load)
        context.param.watch(self._mark, "sample")
        self.param.watch(self._load, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _load(self, *_: Any) -> None:
        """Show the times of the columns, and read the spans of the lines on a thread."""
        self._task.stop()
        context, step = self.context, self.context.selection.step
        if not self.active:
            return
        if step is None or context.index is None or not has_times(context.snapshot):
            self._times = None
            self._canvas.data = {"empty": _NO_TIMES}
            return
        times = times_of(context.view, step)
        self._show(times)
        self._task.start(read_spans(context.index, context.snapshot, times))

    def _show(self, times: RolloutTimes) -> None:
        self._times = times
        if self._order not in orders_of(times):
            self._order = SLOWEST
        self._canvas.data = _payload(times, self._order)
        self._mark()

    def _mark(self, *_: Any) -> None:
        """Mark the bar of the selected sample."""
        times, sample = self._times, self.context.sample
        if not self.active or times is None or sample is None:
            return
        self._canvas.chosen = times.uids.index(sample.uid) if sample.uid in times.uids else -1

    def _on_message(self, message: Any) -> None:
        """Handle a click. The message comes from the browser."""
        if self._times is None or not (isinstance(message, list) and len(message) == 2):
            return
        action, value = message
        if action == "order" and value in orders_of(self._times):
            self._order = value
            self._show(self._times)
        elif action == "pick" and isinstance(value, int) and 0 <= value < len(self._times):
            self.context.choose_sample(self._times.uids[value])


def _payload(times: RolloutTimes, order: str) -> dict[str, Any]:
    """Return what the browser draws.

    Returns
    -------
    dict
        ``order``, ``orders``, ``lanes``, ``seconds``, ``names``, ``phases``, ``note``; arrays over rollouts
        ``lane`` (int32), ``offset``, ``duration``, ``lag`` (float32), ``failed`` (uint8), ``status``; arrays
        over segments ``owner``, ``phase`` (int32), ``begin``, ``end`` (float32), sorted by owner.
    """
    lanes = lanes_of(times, order)
    sort = np.argsort(times.owner, kind="stable")
    return {
        "order": order,
        "orders": orders_of(times),
        "lanes": lanes.count,
        "seconds": lanes.seconds,
        "names": lanes.names,
        "phases": list(times.phases),
        "note": _note(times),
        "status": [text if failed else "" for text, failed in zip(times.status, times.failed, strict=True)],
        "lane": lanes.lane.astype("<i4").tobytes(),
        "offset": lanes.offset.astype("<f4").tobytes(),
        "duration": times.seconds.astype("<f4").tobytes(),
        "lag": times.lag.astype("<f4").tobytes(),
        "failed": times.failed.astype(np.uint8).tobytes(),
        "owner": times.owner[sort].astype("<i4").tobytes(),
        "phase": times.phase[sort].astype("<i4").tobytes(),
        "begin": times.begin[sort].astype("<f4").tobytes(),
        "end": times.end[sort].astype("<f4").tobytes(),
    }


def _note(times: RolloutTimes) -> str:
    """Return a sentence on the step's times, and on what is not known of them."""
    if not len(times):
        return "No rollout of this step has times."
    middle, longest = np.quantile(times.seconds, [0.5, 1.0])
    seconds = f"median {number(float(middle))} s, slowest {number(float(longest))} s"
    parts = [f"{len(times):,} rollouts: {seconds}."]
    if times.exact < len(times):
        summed = "Phases" if not times.exact else f"Phases of {len(times) - times.exact:,} rollouts"
        parts.append(f"{summed} are sums; their order in time was not logged.")
    return " ".join(parts)
