"""Distribution of a column's values over the steps, shown in a curve card instead of the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from bokeh.models import ColumnDataSource

from rlpanel.board_url import STEP
from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.export.card_export import density_frame, ridges_frame
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.density_plot import DensityPlot
from rlpanel.panels.plots.plot_elements import ridges
from rlpanel.panels.plots.ridge_plot import RidgePlot
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.marked_steps import MarkedSteps
from rlpanel.store.snapshot.alignment import RunAxis
from rlpanel.store.snapshot.snapshot import Snapshot

#: Values of the setting *band* that replace the curve by a plot of the distribution.
DISTRIBUTION_BANDS = ("density", "ridge")


class ValueDistribution:
    """Creates the density or ridge plot that the display settings ask for.

    There is no such plot for a metric with one value per step, with overlay runs, or on another axis than the
    step: these are drawn as lines only.
    """

    def __init__(self, context: Context, column: str, mean: ColumnDataSource, height: int) -> None:
        self.context = context
        self._column, self._mean, self._height = column, mean, height
        self._plot: DensityPlot | RidgePlot | None = None
        self._plot_key = ("", False)

    @property
    def pane(self) -> Any:
        """The plot's pane; None while the card shows lines."""
        return self._plot.pane if self._plot is not None else None

    @property
    def note(self) -> str:
        """Text with the number of values that a log scale cannot show; empty if it shows all."""
        counted = self._plot.density if self._plot is not None else None
        return (
            tr("{left_out:,} values ≤ 0 left out", left_out=counted.left_out)
            if counted is not None and counted.left_out
            else ""
        )

    @property
    def make_table(self) -> Callable[[], pd.DataFrame] | None:
        """A function that returns the plot's data as a table; None without a plot or without data."""
        counted = self._plot.density if self._plot is not None else None
        if counted is None:
            return None
        if isinstance(self._plot, RidgePlot):
            return lambda: ridges_frame(ridges(counted))
        return lambda: density_frame(counted)

    def draw(self, snapshot: Snapshot) -> None:
        """Update the plot to a snapshot and to the settings."""
        display = self.context.display
        kind = display.band if snapshot.has_number(self._column) else ""
        if kind not in DISTRIBUTION_BANDS or self.context.overlays or self.context.selection.align != STEP:
            self._plot, self._plot_key = None, ("", False)
            return
        plot = self._plot
        if plot is None or self._plot_key != (kind, display.log_values):
            plot = self._make(kind, display.log_values)
        plot.draw(snapshot)
        if plot.density is not None and plot.density.axis.log != plot.log:  # most values are not above 0
            plot = self._make(kind, False)
            plot.draw(snapshot)
        self._plot, self._plot_key = plot, (kind, display.log_values)
        if isinstance(plot, DensityPlot):
            plot.show_mean(not display.zero_shift)

    def move_cursor(self, step: int | None) -> None:
        """Move the cursor to the selected step."""
        if self._plot is not None:
            self._plot.move_cursor(step)

    def shade(self, axis: RunAxis, marked: MarkedSteps | None) -> None:
        """Shade the marked steps of a heatmap; ridges have no axis of steps."""
        if isinstance(self._plot, DensityPlot):
            if marked is not None:
                self._plot.shading.restyle(marked.color, self.context.selection.dark)
            self._plot.shading.draw(axis, marked.steps if marked is not None else ())

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        if self._plot is not None:
            self._plot.restyle(dark)

    def _make(self, kind: str, log: bool) -> DensityPlot | RidgePlot:
        color = trainer_scalars.describe(self._column).color
        plot: DensityPlot | RidgePlot
        if kind == "ridge":
            plot = RidgePlot(self._column, color, self._height, log=log, on_pick=self._pick)
        else:
            plot = DensityPlot(self._column, color, self._mean, self._height, log=log, on_pick=self._pick)
        plot.restyle(self.context.selection.dark)
        return plot

    def _pick(self, x: float, within: ValueRange) -> None:
        self.context.choose_range(self.context.nearest_step(x), within.text)
