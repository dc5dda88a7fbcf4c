"""Export of one card: texts and colours around its picture, and the plotted numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlpanel.board_url import STEP
from rlpanel.display_settings import Display
from rlpanel.panels.plots.plot_elements import Ridges
from rlpanel.panels.plots.series import Points
from rlpanel.store.snapshot.alignment import AXIS_LABELS
from rlpanel.store.snapshot.value_density import Density

#: Maximum number of characters of a run's or column's name within a file name.
_MAX_LENGTH = 100


class CardExport(NamedTuple):
    """The content of a card for export as a picture or as CSV.

    Attributes
    ----------
    name : str
        File name without extension: run, column and step.
    title, words : str
        Title and subtitle above the picture. The subtitle says what is drawn, and of which run and step.
    rows : callable
        Returns the plotted numbers as a table; called on a thread.
    legend : tuple of (str, str)
        Label and colour of each legend entry, if the plot has no legend of its own. The colour is a name of
        the theme's palette or a colour code.
    """

    name: str
    title: str
    words: str
    rows: Callable[[], pd.DataFrame]
    legend: tuple[tuple[str, str], ...] = ()


def file_name(run: str) -> str:
    """Return a run's or column's name with all characters replaced that are unsafe in file names."""
    characters = [
        character if character.isalnum() or character in "-_." else "_" for character in run[:_MAX_LENGTH]
    ]
    return "".join(characters) or "samples"


def well_formed(text: str) -> str:
    """Return text with lone surrogates replaced: file names may hold them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode("utf-8")


class PlotLine(NamedTuple):
    """One line of a plot: run, curve, points as `curve_points` returns them, and its band if it has one."""

    run: str
    curve: str
    points: Points
    band: str = ""


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
            "band": np.where(banded, _band(line.band or display.band, display), ""),
            "n": pd.Series(points["n"]).astype("Int64"),
        }
    )


def _band(band: str, display: Display) -> str:
    return f"{display.variance_scale:g} std" if band == "std" else band


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
