"""Distribution of a column's values over the steps, in a curve card: a heatmap behind the line, or ridges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from rlpanel.board_url import STEP
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.curves.curve_plot import HEIGHT, CurvePlot
from rlpanel.panels.export.card_export import density_frame, ridges_frame
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.density_plot import DensityLayer
from rlpanel.panels.plots.plot_elements import ridges
from rlpanel.panels.plots.ridge_plot import RidgePlot
from rlpanel.panels.plots.series import band_of
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.run_view import RunView


class ValueDistribution:
    """Draws the density or the ridges that the chosen band asks for.

    There are none for a metric with one value per step, with overlay runs, on another axis than the step, or
    shifted to begin at zero: these are drawn as lines only.

    Parameters
    ----------
    context : Context
    plot : CurvePlot
        The plot that gets the heatmap.
    """

    def __init__(self, context: Context, plot: CurvePlot) -> None:
        self.context = context
        #: ``density``, ``ridge``, or empty for none.
        self.kind = ""
        self._plot, self._column, self._log = plot, plot.curve.columns[0], plot.curve.log
        self._layer: DensityLayer | None = None
        self._ridges: RidgePlot | None = None

    @property
    def pane(self) -> Any:
        """The pane of the ridges; None while the card shows the curve."""
        return self._ridges.pane if self._ridges is not None else None

    @property
    def note(self) -> str:
        """Text with the number of values that a log scale cannot show; empty if it shows all."""
        counted = self._shown.density if self._shown is not None else None
        return (
            tr("{left_out:,} values ≤ 0 left out", left_out=counted.left_out)
            if counted is not None and counted.left_out
            else ""
        )

    @property
    def make_table(self) -> Callable[[], pd.DataFrame] | None:
        """A function that returns the plot's data as a table; None without a plot or without data."""
        counted = self._shown.density if self._shown is not None else None
        if counted is None:
            return None
        if self.kind == "ridge":
            return lambda: ridges_frame(ridges(counted))
        return lambda: density_frame(counted)

    def draw(self, view: RunView) -> None:
        """Update to a view and to the settings."""
        self.kind = kind = self._kind(view)
        if kind == "density":
            self._layer = self._layer or self._add_layer()
            self.kind = kind if self._layer.draw(view.snapshot) else ""
        elif self._layer is not None:
            self._layer.hide()
        if kind == "ridge":
            self._ridges = self._ridges or self._make_ridges(self._log)
            self._ridges.draw(view.snapshot)
            if self._ridges.density is not None and self._ridges.density.axis.log != self._ridges.log:
                self._ridges = self._make_ridges(False)  # most values are not above 0
                self._ridges.draw(view.snapshot)
        else:
            self._ridges = None
        self._plot.show_over(density=self.kind == "density")

    def axis(self, least: float) -> tuple[float, float] | None:
        """Return start and end of the value axis of the density; None without one."""
        return self._layer.axis(least) if self._layer is not None else None

    def range_at(self, x: float, y: float) -> ValueRange | None:
        """Return the range of the values at a place of the density; None without one."""
        return self._layer.range_at(x, y) if self._layer is not None else None

    def move_cursor(self, step: int | None) -> None:
        """Highlight the ridge with the selected step."""
        if self._ridges is not None:
            self._ridges.move_cursor(step)

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        for part in (self._layer, self._ridges):
            if part is not None:
                part.restyle(dark)

    @property
    def _shown(self) -> DensityLayer | RidgePlot | None:
        return self._ridges or self._layer

    def _kind(self, view: RunView) -> str:
        """Return ``density``, ``ridge``, or the empty string where lines are drawn only."""
        selection, display = self.context.selection, self.context.display
        if self.context.overlays or selection.align != STEP or not view.snapshot.has_number(self._column):
            return ""
        kind = band_of(view, self._column, display.band)
        return kind if kind == "ridge" or (kind == "density" and not display.zero_shift) else ""

    def _add_layer(self) -> DensityLayer:
        color, mean = trainer_scalars.describe(self._column).color, self._plot.sources[self._column]
        layer = DensityLayer(self._plot.figure, self._column, color, mean, log=self._log)
        layer.restyle(self.context.selection.dark)
        return layer

    def _make_ridges(self, log: bool) -> RidgePlot:
        color = trainer_scalars.describe(self._column).color
        made = RidgePlot(self._column, color, HEIGHT, log=log, on_pick=self._pick)
        made.restyle(self.context.selection.dark)
        return made

    def _pick(self, x: float, within: ValueRange) -> None:
        self.context.choose_range(self.context.nearest_step(x), within.text)
