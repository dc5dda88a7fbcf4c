"""Plot of what the rollouts of a step did, as on the tab *Timeline*."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import holoviews as hv

from rlpanel.errors import SettingError
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, read_spans, times_of
from rlpanel.panels.timeline.span_colors import colorings_of
from rlpanel.panels.timeline.swim_lanes import orders_of
from rlpanel.panels.timeline.timeline_plot import (
    Picture,
    Timeline,
    frame_of,
    picture_of,
    rectangles_element,
    timeline_of,
    timeline_plot,
    window_of,
)
from rlpanel.plotting.element_style import (
    frame_options,
    glyph_options,
    holoviews_names,
    is_dark,
    themed,
)
from rlpanel.queries.run_data import RunData


def rollout_timeline(
    run: RunData, step: int | None, order: str, color: str, dark: bool | None, options: Mapping[str, Any]
) -> Any:
    """Return the plot of `RunPlots.timeline`."""
    if step is None:
        steps = run.view.snapshot.steps.values
        step = int(steps[-1]) if len(steps) else 0
    times = _times(run, step)
    _check("order", order, orders_of(times))
    _check("color", color, colorings_of(times))
    timeline = timeline_of(times, order=order, by=color, dark=is_dark(dark))
    title = f"{run.name}, step {step}: {len(times):,} rollouts"
    frame = frame_options(dark, options, title=title, xlabel="seconds", ylabel="")
    picture = picture_of(timeline)
    if len(picture.rectangles):
        plot = rectangles_element(picture).opts(**glyph_options(options), backend="bokeh")
    else:
        plot = _zoomed(timeline)
    return themed(plot.opts(**frame_of(timeline) | holoviews_names(frame), backend="bokeh"), dark)


def _times(run: RunData, step: int) -> RolloutTimes:
    """Return the times of a step with the logged spans."""
    view = run.view
    times = times_of(view, step)
    if not len(times):
        raise SettingError(f"no rollouts with times at step {step} in {run.name}")
    for read in read_spans(run.index, view.snapshot, times):
        times = read
    return times


def _zoomed(timeline: Timeline) -> Any:
    """Return an image that is drawn again, or replaced by rectangles, for the part that is in view."""

    @lru_cache(maxsize=1)  # the image and the rectangles ask for the same picture
    def draw(x_range: Any, y_range: Any) -> Picture:
        return picture_of(timeline, window_of(timeline, x_range, y_range) if x_range and y_range else None)

    return timeline_plot(timeline, hv.streams.RangeXY(), draw)


def _check(option: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise SettingError(f"no {option} {value!r}; available: {', '.join(known)}")
