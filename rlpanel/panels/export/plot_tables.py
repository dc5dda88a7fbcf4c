"""Tables of the plotted numbers for export: one row per point, bar or cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from rlpanel.board_url import STEP
from rlpanel.display_settings import Display
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.plots.plot_elements import Ridges
from rlpanel.panels.plots.series import Points
from rlpanel.store.snapshot.alignment import AXIS_LABELS
from rlpanel.store.snapshot.value_density import Density


class PlotLine(NamedTuple):
    """One line of a plot: its run, its curve, and its points as `curve_points` returns them."""

    run: str
    curve: str
    points: Points


_NO_LINE = PlotLine("", "", {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n", "raw")})


def lines_frame(lines: list[PlotLine], alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    """Return lines as one table, one after another: run, curve, x axis, mean, lo, hi, band, n.

    With smoothing, ``mean`` holds the raw values, and ``lo`` and ``hi`` belong to ``smoothed``.
    """
    return pd.concat(
        [_line_frame(line, alignment, display, smoothing) for line in lines or [_NO_LINE]],
        ignore_index=True,
    )


def _line_frame(line: PlotLine, alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    points, count = line.points, len(line.points["x"])
    x = pd.Series(points["x"])
    smoothed = {"smoothed": points["y"]} if smoothing else {}
    banded = np.isfinite(points["lo"]) | np.isfinite(points["hi"])
    return pd.DataFrame(
        {
            "run": [well_formed(line.run)] * count,
            "curve": [well_formed(line.curve)] * count,
            AXIS_LABELS[alignment].replace(" ", "_"): x.astype("Int64") if alignment == STEP else x,
            "mean": points["raw"],
            **smoothed,
            "lo": points["lo"],
            "hi": points["hi"],
            "band": np.where(banded, _band(display), ""),
            "n": pd.Series(points["n"]).astype("Int64"),
        }
    )


def _band(display: Display) -> str:
    return f"{display.variance_scale:g} std" if display.band == "std" else display.band


def density_frame(density: Density) -> pd.DataFrame:
    """Return the non-empty cells: first and last step, range of values, and number of samples."""
    column, cell = np.nonzero(density.counts)
    edges, first = density.axis.edges, density.first + column * density.width
    return pd.DataFrame(
        {
            "from_step": first,
            "to_step": first + density.width - 1,
            "from": edges[cell],
            "to": edges[cell + 1],
            "samples": density.counts[column, cell],
        }
    )


def ridges_frame(shape: Ridges) -> pd.DataFrame:
    """Return the outlines from oldest to newest: first and last step, value, height (at most 1)."""
    points = len(shape.values)
    return pd.DataFrame(
        {
            "from_step": np.repeat(shape.first, points),
            "to_step": np.repeat(shape.last, points),
            "value": np.tile(shape.values, len(shape.first)),
            "height": shape.heights.ravel(),
        }
    )
