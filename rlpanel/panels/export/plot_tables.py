"""The numbers that plots are drawn from, as tables to take away: a row a point, a bar or a cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.plots.alignment import STEP, WORDS
from rlpanel.panels.plots.ridge_plot import Ridges
from rlpanel.panels.plots.series import Points
from rlpanel.settings import Display
from rlpanel.store.snapshot.value_density import Density


class PlotLine(NamedTuple):
    """One line of a plot: whose it is, what it is, and its points as `curve_points` gives them."""

    run: str
    curve: str
    points: Points


_NOTHING = PlotLine("", "", {name: np.empty(0) for name in ("x", "y", "lo", "hi", "n", "raw")})


def lines_frame(lines: list[PlotLine], alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    """Lines one after another: run, curve, the axis, mean, lo, hi, band, n.

    Where lines are smoothed, ``mean`` is the raw one behind, and lo and hi are those of ``smoothed``.
    """
    return pd.concat(
        [_line_frame(line, alignment, display, smoothing) for line in lines or [_NOTHING]],
        ignore_index=True,
    )


def _line_frame(line: PlotLine, alignment: str, display: Display, smoothing: float) -> pd.DataFrame:
    points, count = line.points, len(line.points["x"])
    place = pd.Series(points["x"])
    smoothed = {"smoothed": points["y"]} if smoothing else {}
    banded = np.isfinite(points["lo"]) | np.isfinite(points["hi"])
    return pd.DataFrame(
        {
            "run": [well_formed(line.run)] * count,
            "curve": [well_formed(line.curve)] * count,
            WORDS[alignment].replace(" ", "_"): place.astype("Int64") if alignment == STEP else place,
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


def density_frame(found: Density) -> pd.DataFrame:
    """Cells that hold any: first and last step, the values between which they lie, and how many samples."""
    column, part = np.nonzero(found.counts)
    edges, first = found.axis.edges, found.first + column * found.width
    return pd.DataFrame(
        {
            "from_step": first,
            "to_step": first + found.width - 1,
            "from": edges[part],
            "to": edges[part + 1],
            "samples": found.counts[column, part],
        }
    )


def ridges_frame(shape: Ridges) -> pd.DataFrame:
    """Outlines from the oldest to the newest: first and last step, value, height; the highest of all is 1."""
    points = len(shape.values)
    return pd.DataFrame(
        {
            "from_step": np.repeat(shape.first, points),
            "to_step": np.repeat(shape.last, points),
            "value": np.tile(shape.values, len(shape.first)),
            "height": shape.heights.ravel(),
        }
    )
