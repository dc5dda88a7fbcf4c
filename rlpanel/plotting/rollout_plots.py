"""Plots of one sample: its tokens as stems, and its rollout on a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
from hvplot import hvPlotTabular

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
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
from rlpanel.panels.ui import theme
from rlpanel.plotting.element_style import (
    colors_of,
    frame_options,
    glyph_options,
    holoviews_names,
    themed,
)
from rlpanel.plotting.plotted_run import SAMPLE, linked, sample_numbers, sample_table
from rlpanel.queries.run_data import RunData
from rlpanel.queries.sample import sample_tokens
from rlpanel.texts.shorten import plot_text

#: Maximum number of tokens that are drawn one by one.
MAX_TOKENS = 4000


def token_stems(
    run: RunData, uid: str, metric: str, dark: bool | None, options: Mapping[str, Any]
) -> hv.Overlay:
    """Return the plot of `RunPlots.tokens`."""
    view, table = run.view, sample_tokens(run, uid)
    tokens, metrics = table.frame(), table.about["available"]
    metric = metric or next((name for name in ("kl_k3", "surprisal") if name in metrics), "")
    if metric not in metrics:
        raise SettingError(f"no token metric {metric!r} in {uid}; available: {', '.join(metrics) or 'none'}")
    frame, size = thinned(tokens[np.isfinite(tokens[metric])], metric)
    frame["value"] = frame[metric].map(number)
    frame["text"] = [plot_text(repr(token)) for token in frame.get("token", frame["position"])]
    info, colors = describe(metric), colors_of(dark)
    title = f"{uid}, step {tokens.attrs['step']}: {len(tokens):,} tokens"
    title += f"; each mark: the farthest from the median of {size}" if size > 1 else ""
    shared = frame_options(dark, options, title=title, xlabel="token", ylabel=info.axis)
    style = {"color": colors.get(info.color, colors["muted"]), **glyph_options(options)}

    def draw_stems(samples: pd.DataFrame) -> Any:
        stems = hv.Spikes(_tokens_of_samples(frame, samples), "position", metric).opts(
            color=style["color"], alpha=0.5, backend="bokeh", **holoviews_names(shared)
        )
        return themed(stems, dark)

    def draw_marks(samples: pd.DataFrame) -> Any:
        tips = [("token", "@text"), ("position", "@position"), (plot_text(info.label), "@value")]
        marks = hvPlotTabular(_tokens_of_samples(frame, samples)).scatter(
            "position", metric, hover_cols=["text", "value"], hover_tooltips=tips,
            **{"size": 14, **style}, **shared,
        )  # fmt: skip
        return themed(marks, dark)

    row = np.array([view.snapshot.row(uid)])
    number_of_sample = sample_numbers(view.snapshot, row).tolist()

    def selects(marks: hv.dim) -> hv.dim:
        chosen = marks.apply(hv.Dataset(frame)).any()
        return hv.dim(SAMPLE).isin(number_of_sample if chosen else [])

    table = sample_table(view, row, [])
    stems = linked(table, draw_stems, selects=lambda _: None)  # a box selects by the marks
    return hv.Overlay([stems, linked(table, draw_marks, selects)])


def _tokens_of_samples(frame: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return all tokens if their sample is among the samples, else none."""
    return frame if samples[SAMPLE].notna().any() else frame[:0]


def thinned(tokens: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, int]:
    """Return at most `MAX_TOKENS` tokens, and of how many each is chosen: the farthest from the median."""
    size = -(-len(tokens) // MAX_TOKENS)
    if size <= 1:
        return tokens.copy(), 1
    distance = (tokens[metric] - tokens[metric].median()).abs()
    chosen = distance.groupby(np.arange(len(tokens)) // size).idxmax()
    return tokens.loc[chosen].copy(), size


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
    timeline = timeline_of(times, order=order, by=color, dark=theme.is_dark(dark))
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
