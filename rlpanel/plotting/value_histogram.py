"""Histogram of a column over the samples of some steps, with the counts of `Run.histogram`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from hvplot import hvPlotTabular

from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.plotting.chosen_steps import Steps, check_column, rows_at, steps_text
from rlpanel.plotting.element_style import colors_of, frame_options, glyph_options, themed
from rlpanel.plotting.linked_samples import linked, sample_table
from rlpanel.queries.run_data import RunData


def value_histogram(
    run: RunData,
    column: str,
    steps: Steps,
    bins: int,
    dark: bool | None,
    options: Mapping[str, Any],
) -> Any:
    """Return the plot of `RunPlots.distribution`."""
    view = run.view
    check_column(view, column)
    rows = rows_at(view, steps)
    values = np.asarray(view.counted(column, rows), float)
    finite = values[np.isfinite(values)]
    edges = _edges_around(view.histogram(column, bins).edges, finite)
    info, colors = describe(column), colors_of(dark)
    mean = f", mean {number(float(finite.mean()))}" if len(finite) else ""
    title = f"{run.name}, {steps_text(steps)}: {len(finite):,} samples{mean}"
    frame = frame_options(dark, options, title=title, xlabel=info.axis, ylabel="samples")
    style = {"color": colors.get(info.color, colors["muted"]), "line_color": colors["surface"]}
    style |= glyph_options(options)

    def draw(samples: pd.DataFrame) -> Any:
        counted = samples.loc[np.isfinite(samples[column]), [column]]
        return themed(hvPlotTabular(counted).hist(column, bins=edges, **style, **frame), dark)

    return linked(sample_table(view, rows, [column]), draw)


def _edges_around(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the edges of the intervals from the one of the smallest to that of the largest value."""
    if not len(values):
        return edges
    first = int(np.searchsorted(edges, values.min(), side="right")) - 1
    last = int(np.searchsorted(edges, values.max(), side="right"))
    return edges[max(first, 0) : last + 1]
