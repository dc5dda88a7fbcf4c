"""Other runs' lines over one curve: a colour a run; a run that grows sends its own line alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.models.glyphs import MultiLine

from rlpanel.panels.curves import curve_points, trainer_scalars
from rlpanel.panels.plots import series
from rlpanel.panels.plots.alignment import alignment_of, axis_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.overlay_run import OverlayRun
from rlpanel.panels.ui import theme
from rlpanel.settings import Display
from rlpanel.store.snapshot.run_view import RunView

#: How strong the raw line is behind the smoothed one.
RAW_ALPHA = 0.28
#: Columns of the source, and what they are among a curve's points.
_COLUMNS = {"xs": "x", "ys": "y", "raws": "raw"}
_NOTHING = {name: np.empty(0) for name in _COLUMNS.values()}


class OverlayCurves:
    """The lines of all other runs in one plot.

    All are one glyph: a renderer a run would cost milliseconds each, in the browser and here, and eight runs
    in four plots are to stand at once.

    Parameters
    ----------
    context : Context
    plot : figure
    curve : str
        As `rlpanel.panels.curves.trainer_scalars` names it.
    """

    def __init__(self, context: Context, plot: Any, curve: str) -> None:
        self._context, self._plot, self.curve = context, plot, curve
        self._display = Display(band="none")  # a band of another run is not drawn, so it is not worked out
        empty: dict[str, Any] = {name: [] for name in ("run", "color", *_COLUMNS)}
        self._source = ColumnDataSource(empty, name=f"over-{curve}")
        self._lines: Any = None  # most pages never lay a run over another
        self._raw: Any = None
        self._made: dict[str, tuple[RunView, tuple[object, ...], series.Points]] = {}
        self._sent: dict[str, tuple[str, series.Points]] = {}

    def draw(self) -> None:
        """Bring the lines to the newest snapshots, and to the runs that are chosen and not hidden."""
        context, selection = self._context, self._context.selection
        shown = [other for other in context.others if other.key not in context.muted]
        if shown and self._lines is None:
            self._lines = self._add("ys", line_width=1.4)
        wanted = {other.key: (other.color(selection.dark), self._points(other)) for other in shown}
        colors = [(key, color) for key, (color, _) in wanted.items()]
        if colors == [(key, color) for key, (color, _) in self._sent.items()]:
            self._patch(wanted)
        else:
            self._source.data = {
                "run": [key for key, _ in colors],
                "color": [color for _, color in colors],
                **{name: [points[of] for _, points in wanted.values()] for name, of in _COLUMNS.items()},
            }
        self._sent = wanted
        self._turn_raw(on=selection.smooth > 0 and bool(shown))

    @property
    def shown(self) -> list[tuple[OverlayRun, series.Points]]:
        """The runs whose lines are drawn, and their points."""
        return [
            (other, self._sent[other.key][1]) for other in self._context.others if other.key in self._sent
        ]

    def _patch(self, wanted: dict[str, tuple[str, series.Points]]) -> None:
        """Send the lines of the runs that changed."""
        news = [
            (place, points)
            for place, (key, (_, points)) in enumerate(wanted.items())
            if points is not self._sent[key][1]
        ]
        if news:
            self._source.patch(
                {name: [(place, points[of]) for place, points in news] for name, of in _COLUMNS.items()}
            )

    def _points(self, other: OverlayRun) -> series.Points:
        """The line of a run; the same object as long as nothing changed."""
        selection = self._context.selection
        alignment = alignment_of(self._context.snapshot, selection.align)
        asked = (alignment, selection.smooth, self._context.display.zero_shift)
        known = self._made.get(other.key)
        if known is not None and known[0] is other.view and known[1] == asked:
            return known[2]
        # A split of the run itself stands where the run's steps stand, and has no trainer's log of its own.
        own = other.is_split
        axis, found = axis_of(self._context.snapshot if own else other.snapshot, alignment), _NOTHING
        if own and trainer_scalars.scalar_of(self.curve) is not None:
            axis = None
        if axis is not None and trainer_scalars.has(other.view, self.curve):
            self._display.zero_shift = self._context.display.zero_shift
            found = curve_points.points(other.view, self.curve, axis, self._display, selection.smooth)
        self._made[other.key] = other.view, asked, found
        return found

    def _turn_raw(self, *, on: bool) -> None:
        if on and self._raw is None:
            self._raw = self._add("raws", line_width=1, line_alpha=RAW_ALPHA)
        if self._raw is not None and self._raw.visible != on:
            self._raw.visible = on

    def _add(self, ys: str, **look: Any) -> Any:
        drawn = MultiLine(xs="xs", ys=ys, line_color="color", **look)
        [renderer] = theme.over(self._plot, self._source, drawn, level="underlay")
        return renderer
