"""Plots of many samples or of one: points, ranges of groups, tokens as stems, a timeline."""

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
from rlpanel.panels.plots.density_plot import ramp
from rlpanel.panels.plots.plot_elements import GROUP_COLORS, scatter_points
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, read_spans, times_of
from rlpanel.panels.timeline.span_table import colorings_of, orders_of
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
from rlpanel.plotting.plotted_run import (
    GROUP,
    SAMPLE,
    Steps,
    check_column,
    group_numbers,
    linked,
    rows_at,
    sample_numbers,
    sample_table,
    steps_text,
)
from rlpanel.queries.groups import groups
from rlpanel.queries.run_data import RunData
from rlpanel.queries.sample import sample_tokens
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, groups_of
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.shorten import plot_text

# -- sample plots --------------------------------------------------------------------------------------
# Plots of many samples: a point for each by two columns, and the range of each group.


#: Maximum number of points that a browser draws; more samples are counted in cells.
MAX_POINTS = 20_000
#: Maximum number of cells along each axis.
CELLS = 128


def sample_scatter(
    run: RunData, x: str, y: str, steps: Steps, dark: bool | None, options: Mapping[str, Any]
) -> Any:
    """Return the plot of `RunPlots.scatter`."""
    view = run.view
    for column in (x, y):
        check_column(view, column)
    rows = rows_at(view, steps)
    finite = np.isfinite(view.values(x, rows)) & np.isfinite(view.values(y, rows))
    rows = rows[finite]
    left_out = len(finite) - len(rows)
    title = f"{run.name}, {steps_text(steps)}: {len(rows):,} samples"
    title += f", {left_out:,} without both" if left_out else ""
    labels = {"xlabel": describe(x).axis, "ylabel": describe(y).axis}
    table = sample_table(view, rows, [x, y])
    if len(rows) <= MAX_POINTS:
        frame = frame_options(dark, options, title=title, **labels)
        return linked(table, lambda samples: _points(samples, x, y, dark, frame, glyph_options(options)))
    edges = [_edges(view, rows, column) for column in (x, y)]
    title += f" in cells of {_width(edges[0])} × {_width(edges[1])}"
    frame = frame_options(dark, options, title=title, **labels)
    return linked(table, lambda samples: _cells(samples, x, y, edges, dark, frame, glyph_options(options)))


def _points(
    samples: pd.DataFrame,
    x: str,
    y: str,
    dark: bool | None,
    frame: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    style = {"color": colors_of(dark)["policy"], "size": 26, "alpha": 0.7, **options}
    return themed(scatter_points(samples, x, y, hover_cols=["step", "rank"], **style, **frame), dark)


def _cells(
    samples: pd.DataFrame,
    x: str,
    y: str,
    edges: list[np.ndarray],
    dark: bool | None,
    frame: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Return the number of samples in each cell as an image; hvPlot has no plot that counts exactly."""
    counts, _, _ = np.histogram2d(samples[x], samples[y], bins=(edges[0], edges[1]))
    shown = np.where(counts > 0, counts, np.nan).T[::-1]
    bounds = (edges[0][0], edges[1][0], edges[0][-1], edges[1][-1])
    colors = colors_of(dark)
    image = hv.Image(shown, [x, y], "samples", bounds=bounds)
    style = {
        "cmap": ramp(colors["policy"], colors["surface"], theme.is_dark(dark))[1:],
        "cnorm": "log",
        "colorbar": True,
        "tools": ["hover"],
        "clipping_colors": {"NaN": "transparent"},
    }
    return themed(image.opts(**{**style, **holoviews_names(frame), **options}, backend="bokeh"), dark)


def _edges(view: RunView, rows: np.ndarray, column: str) -> np.ndarray:
    """Return the edges of the cells: intervals of `Run.histogram`, at least 1 wide for whole numbers."""
    edges = view.histogram(column, CELLS).edges
    whole = (view.values(column, rows) % 1 == 0).all()
    return (
        np.arange(np.floor(edges[0]), np.ceil(edges[-1]) + 1) if whole and edges[1] - edges[0] < 1 else edges
    )


def _width(edges: np.ndarray) -> str:
    return number(float(edges[1] - edges[0]))


_REWARDS = ("mean", "std", "min", "max")


def group_ranges(run: RunData, step: int | None, dark: bool | None, options: Mapping[str, Any]) -> hv.Overlay:
    """Return the plot of `RunPlots.groups`."""
    if step is None:
        steps = run.view.snapshot.steps.values
        step = int(steps[-1]) if len(steps) else 0
    view, frame = run.view, groups(run, step, all_steps=True).frame()
    found = groups_of(view, step)
    if found is None or "reward_mean" not in frame:
        raise SettingError(f"no groups with rewards at step {step} in {run.name}")
    frame[GROUP] = group_numbers(view.snapshot, np.array([rows[0] for rows in found.members]))
    table = sample_table(view, np.concatenate(found.members), ["reward"])
    frame = frame.sort_values("reward_mean", kind="stable", ignore_index=True)
    colors = colors_of(dark)
    frame["position"] = frame.index + 1.0
    frame["color"] = [colors[GROUP_COLORS[signal]] for signal in frame["signal"]]
    frame["name"] = [plot_text(name) for name in frame["group"]]
    frame = _with_texts(frame)
    counts = frame["signal"].value_counts()
    states = [f"{counts[state]:,} {state}" for state in (ALL_LOW, ALL_HIGH) if state in counts]
    title = ", ".join([f"{run.name}, step {step}: {len(frame):,} groups", *states])
    shared = frame_options(
        dark, options, title=title, xlabel="groups, sorted by mean", ylabel=describe("reward").axis
    )
    shared = {"xlim": (0, len(frame) + 1), **shared}
    texts = ["name", "samples", "signal", *[name for name in frame if str(name).endswith("_text")]]
    tips = [(name.removesuffix("_text").replace("_", " "), f"@{{{name}}}") for name in texts]

    def draw_segments(samples: pd.DataFrame) -> Any:
        ranges = ["position", "reward_min", "position", "reward_max"]
        segments = hv.Segments(_groups_of_samples(frame, samples), ranges, ["color"]).opts(
            color="color", alpha=0.45, line_width=5, backend="bokeh", **holoviews_names(shared)
        )
        return themed(segments, dark)

    def draw_marks(samples: pd.DataFrame) -> Any:
        marks = hvPlotTabular(_groups_of_samples(frame, samples)).scatter(
            "position", "reward_mean", hover_cols=[*texts, "color"], hover_tooltips=tips,
            **{"color": "color", "size": 36, **glyph_options(options)}, **shared,
        )  # fmt: skip
        return themed(marks, dark)

    def selects(marks: hv.dim) -> hv.dim:
        chosen = frame.loc[marks.apply(hv.Dataset(frame)), GROUP].tolist()
        return (hv.dim("step") == step) & hv.dim(GROUP).isin(chosen)

    segments = linked(table, draw_segments, selects=lambda _: None)  # a box selects by the means
    return hv.Overlay([segments, linked(table, draw_marks, selects)])


def _groups_of_samples(frame: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the groups as they are without the other samples, each at its place."""
    rewards = samples.dropna(subset=[GROUP, "reward"]).groupby(GROUP)["reward"]
    found = rewards.agg(["count", "mean", "std", "min", "max"]).reindex(frame[GROUP]).reset_index(drop=True)
    if (found["count"] == frame["samples"]).all():
        return frame
    part = frame.assign(samples=found["count"], **{f"reward_{name}": found[name] for name in _REWARDS})
    return _with_texts(part[found["count"] > 0])


def _with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the groups with the texts of their rewards for the tooltip."""
    return frame.assign(**{f"reward_{name}_text": frame[f"reward_{name}"].map(number) for name in _REWARDS})


# -- rollout plots -------------------------------------------------------------------------------------
# Plots of one sample: its tokens as stems, and its rollout on a timeline.


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
