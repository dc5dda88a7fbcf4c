"""A small bar chart with layers in different colours; all bars are replaced together."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.glyphs import Quad

from rlpanel.panels.ui import theme

HEIGHT = 112


class BarChart:
    """A bar chart with one layer per colour; the first layer is at the back.

    Parameters
    ----------
    alphas : dict of str to float
        Name of a theme colour → opacity of its layer.
    x_labels : bool
        Whether the x axis is shown.
    name : str
        Prefix of the data sources' names; the colour follows.
    """

    def __init__(self, alphas: dict[str, float], *, x_labels: bool = True, name: str = "") -> None:
        self.plot = theme.quiet_figure(
            height=HEIGHT,
            x_range=Range1d(start=0, end=1),
            y_range=Range1d(start=0, end=1),
        )
        self.plot.xaxis.visible = x_labels
        self._sources = {color: ColumnDataSource(_bars(), name=f"{name}{color}") for color in alphas}
        self._glyphs: dict[str, Any] = {}
        for color, alpha in alphas.items():
            bars = Quad(
                left="left", right="right", top="top", bottom="bottom", fill_alpha=alpha, line_width=0.7
            )
            [self._glyphs[color]] = theme.add_glyphs(self.plot, self._sources[color], bars)
        tips = [("from", "@left{0.000}"), ("to", "@right{0.000}"), ("value", "@value{0.[000]}")]
        self.plot.add_tools(HoverTool(tooltips=tips, renderers=list(self._glyphs.values())))
        self.pane = pn.pane.Bokeh(self.plot, sizing_mode="stretch_width", height=HEIGHT, margin=(0, 6))

    def draw(self, layers: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Replace all bars.

        Parameters
        ----------
        layers : dict of str to (left, right, height), each an ndarray of shape (B,)
            Bars by colour. Layers that are missing here are emptied.
        """
        columns = {color: _bars(*layers.get(color, ())) for color in self._sources}
        with theme.hold_changes():
            for color, bars in columns.items():
                # Lists, because an array without bytes makes a notebook's channel miscount its messages.
                self._sources[color].data = {name: values.tolist() for name, values in bars.items()}
            self._fit([bars for bars in columns.values() if len(bars["left"])])

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        colors = theme.palette(dark)
        with theme.hold_changes():
            theme.restyle(self.plot, dark)
            for name, renderer in self._glyphs.items():
                renderer.glyph.update(fill_color=colors[name], line_color=colors["surface"])

    def _fit(self, bars: list[dict[str, np.ndarray]]) -> None:
        """Set the axis ranges from the bars; Bokeh's automatic range logs warnings while there are none."""
        if bars:
            left, right = min(b["left"].min() for b in bars), max(b["right"].max() for b in bars)
            low, high = min(b["bottom"].min() for b in bars), max(b["top"].max() for b in bars)
            x_margin, y_margin = 0.03 * (right - left), 0.06 * ((high - low) or 1)
            self.plot.x_range.update(start=left - x_margin, end=right + x_margin)
            self.plot.y_range.update(start=low - (y_margin if low < 0 else 0), end=high + y_margin)


def _bars(
    left: np.ndarray | None = None, right: np.ndarray | None = None, height: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    if left is None or right is None or height is None:
        return {name: np.empty(0) for name in ("left", "right", "top", "bottom", "value")}
    top, bottom = np.maximum(height, 0), np.minimum(height, 0)
    return {"left": left, "right": right, "top": top, "bottom": bottom, "value": height}
