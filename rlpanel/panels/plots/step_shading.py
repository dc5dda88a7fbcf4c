"""Shading of steps behind a curve: one vertical strip for each stretch of consecutive steps.

The strips have a data source of their own, so that shading sends a few numbers and no curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.models.glyphs import VStrip

from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.alignment import RunAxis


class StepShading:
    """The shaded steps of one plot.

    Parameters
    ----------
    plot : figure
        The strips are drawn behind its curves, and on top of its images.
    """

    def __init__(self, plot: Any) -> None:
        self._plot = plot
        self._color: str | None = None
        self._strips: Any = None  # created with the first shaded step: most plots have none

    def draw(self, axis: RunAxis, steps: Sequence[int]) -> None:
        """Shade these steps; without steps, nothing is shaded."""
        left, right = strips(axis, np.asarray(steps, np.int64))
        if self._strips is None:
            if not len(left):
                return
            self._strips = self._add_strips()
        if not all(map(np.array_equal, self.edges, (left, right))):
            self._strips.data_source.data = {"left": left, "right": right}
        if self._strips.visible != bool(len(left)):
            self._strips.visible = bool(len(left))

    def restyle(self, color: str, dark: bool) -> None:
        """Colour the strips by a theme colour of the dark or light theme."""
        self._color = theme.palette(dark)[color]
        if self._strips is not None:
            self._strips.glyph.update(fill_color=self._color, line_color=self._color)

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Left and right edges of the strips that are shown."""
        shown = self._strips.data_source.data if self._strips is not None else _no_strips()
        return shown["left"], shown["right"]

    def _add_strips(self) -> Any:
        strip = VStrip(x0="left", x1="right", fill_alpha=0.12, line_alpha=0.35, line_width=1)
        if self._color is not None:
            strip.update(fill_color=self._color, line_color=self._color)
        source = ColumnDataSource(_no_strips(), name="shading")
        return self._plot.add_glyph(source, strip, level="underlay", visible=False)


def strips(axis: RunAxis, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the left and right edges of the strips that cover steps of a run.

    Parameters
    ----------
    axis : RunAxis
        Axis of the run; steps that it lacks are ignored.
    steps : ndarray of int, shape (M,)

    Returns
    -------
    left, right : ndarray of float, shape (K,)
        Positions halfway to the neighbouring steps, within the run. K is the number of stretches of steps
        that follow each other in the run.
    """
    marked = np.isin(axis.steps, steps)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    first, last = edges[::2], edges[1::2] - 1
    at = np.asarray(axis.positions, float)
    if not len(first):
        return _no_strips()["left"], _no_strips()["right"]
    end = len(at) - 1
    return (at[first] + at[np.maximum(first - 1, 0)]) / 2, (at[last] + at[np.minimum(last + 1, end)]) / 2


def _no_strips() -> dict[str, np.ndarray]:
    return {"left": np.empty(0), "right": np.empty(0)}
