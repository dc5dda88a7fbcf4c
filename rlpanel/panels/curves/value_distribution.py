"""What stands in a curve's card while its values are wanted rather than their mean: a density or ridges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from bokeh.models import ColumnDataSource

from rlpanel.panels.curves import trainer_scalars
from rlpanel.panels.export.plot_tables import density_frame, ridges_frame
from rlpanel.panels.plots.alignment import STEP
from rlpanel.panels.plots.density_plot import DensityPlot
from rlpanel.panels.plots.ridge_plot import RidgePlot, ridges
from rlpanel.panels.plots.value_range import ValueRange
from rlpanel.panels.session.context import Context
from rlpanel.store.snapshot.snapshot import Snapshot

#: Bands that are plots of their own.
SPREADS = ("density", "ridge")


class ValueDistribution:
    """Makes the plot that the display settings ask for; none for a number that is one a step.

    Nor while other runs lie over the curve, or it stands on another axis than the steps: that is drawn in
    lines alone.
    """

    def __init__(self, context: Context, column: str, mean: ColumnDataSource, height: int) -> None:
        self.context = context
        self._column, self._mean, self._height = column, mean, height
        self._plot: DensityPlot | RidgePlot | None = None
        self._made = ("", False)

    @property
    def pane(self) -> Any:
        """The plot; None while a band is wanted."""
        return self._plot.pane if self._plot is not None else None

    @property
    def words(self) -> str:
        """What the plot leaves out; empty if nothing."""
        found = self._plot.found if self._plot is not None else None
        return f"{found.left_out:,} not above 0" if found is not None and found.left_out else ""

    @property
    def rows(self) -> Callable[[], pd.DataFrame] | None:
        """Makes the table of what the plot shows; None where there is no plot, or nothing in it."""
        found = self._plot.found if self._plot is not None else None
        if found is None:
            return None
        if isinstance(self._plot, RidgePlot):
            return lambda: ridges_frame(ridges(found))
        return lambda: density_frame(found)

    def draw(self, snapshot: Snapshot) -> None:
        """Bring the plot to a snapshot and to the settings."""
        display = self.context.display
        kind = display.band if snapshot.has_number(self._column) else ""
        if kind not in SPREADS or self.context.others or self.context.selection.align != STEP:
            self._plot, self._made = None, ("", False)
            return
        plot = self._plot
        if plot is None or self._made != (kind, display.log_values):
            plot = self._make(kind, display.log_values)
        plot.draw(snapshot)
        if plot.found is not None and plot.found.axis.log != plot.log:  # there is no logarithm to take
            plot = self._make(kind, False)
            plot.draw(snapshot)
        self._plot, self._made = plot, (kind, display.log_values)
        if isinstance(plot, DensityPlot):
            plot.show_mean(not display.zero_shift)

    def move_cursor(self, step: int | None) -> None:
        """The selected step."""
        if self._plot is not None:
            self._plot.move_cursor(step)

    def restyle(self, dark: bool) -> None:
        """Colours for dark or light."""
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
