"""A page of Panel alone with seven figures and a table: the least that a page like the board costs."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import panel as pn
from bokeh.plotting import figure

#: Points of a curve, and rows and columns of the table, as the recorded run of the board has them.
STEPS, ROWS, COLUMNS = 60, 64, 4


def bare_page() -> pn.Column:
    """Return the page."""
    values = np.random.default_rng(0).normal(size=(7, STEPS))
    figures = []
    for each in values:
        plot = figure(height=120, sizing_mode="stretch_width", toolbar_location=None)
        plot.varea(x=np.arange(STEPS), y1=each - 1, y2=each + 1, fill_alpha=0.2)
        plot.line(np.arange(STEPS), each)
        figures.append(pn.pane.Bokeh(plot, sizing_mode="stretch_width"))
    table = pd.DataFrame({f"column {at}": [f"text {row}" for row in range(ROWS)] for at in range(COLUMNS)})
    return pn.Column(
        pn.Row(*figures[:5], sizing_mode="stretch_width"),
        pn.Row(*figures[5:], sizing_mode="stretch_width"),
        pn.widgets.Tabulator(table, pagination="remote", page_size=20, sizing_mode="stretch_width"),
        sizing_mode="stretch_both",
    )


if __name__ == "__main__":
    pn.extension("tabulator")
    pn.serve(bare_page, address="127.0.0.1", port=int(sys.argv[1]), show=False)
