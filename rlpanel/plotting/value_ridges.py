"""Ridges of a column: its values over a few ranges of steps, the newest in front, as on the board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd

from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.plots.plot_elements import ridge_area, ridges
from rlpanel.plotting.chosen_steps import check_column
from rlpanel.plotting.element_style import colors_of, frame_options, glyph_options, themed
from rlpanel.plotting.linked_samples import linked, sample_table
from rlpanel.queries.run_data import RunData
from rlpanel.store.snapshot.value_density import Density, density


def value_ridges(run: RunData, column: str, dark: bool | None, options: Mapping[str, Any]) -> hv.Overlay:
    """Return the plot of `RunPlots.ridge`."""
    view = run.view
    check_column(view, column)
    snapshot = view.snapshot
    counted = density(snapshot, column, log=False)
    assert counted is not None  # the column has a finite value
    shape = ridges(counted)
    info, colors = describe(column), colors_of(dark)
    title = f"{run.name}: {info.label}, {int(counted.counts.sum()):,} samples"
    frame = frame_options(dark, options, title=title, xlabel=info.axis, ylabel="steps") | {
        "yticks": shape.ticks
    }
    style = {"color": colors.get(info.color, colors["muted"]), "alpha": 0.7, "line_width": 0.8}
    style |= {"line_color": colors["surface"], **glyph_options(options)}

    def draw(ridge: int, samples: pd.DataFrame) -> Any:
        inside = samples[samples["step"].between(shape.first[ridge], shape.last[ridge])]
        part = ridges(counted, _counts_of(counted, inside, column))
        return themed(ridge_area(part, ridge, column, **style, **frame), dark)

    table = sample_table(view, snapshot.alive_rows, [column])
    return hv.Overlay([linked(table, partial(draw, ridge)) for ridge in range(len(shape.heights))])


def _counts_of(counted: Density, samples: pd.DataFrame, column: str) -> Density:
    """Count the values of some samples in the same cells."""
    values = samples[column].to_numpy()
    finite = np.isfinite(values)
    step = samples["step"].to_numpy()[finite].astype(np.int64)
    bins = counted.axis.bins
    cells = (step - counted.first) // counted.width * bins + counted.axis.bin_of(values[finite])
    counts = np.bincount(cells, minlength=counted.counts.size).reshape(counted.counts.shape)
    return replace(counted, counts=counts)
