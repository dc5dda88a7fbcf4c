"""Bars of clusters: the largest on top, with short and different labels."""

from __future__ import annotations

import numpy as np
from bokeh.models import HoverTool

from rlpanel.panels.plots.plot_elements import LABEL_CHARS, MAX_BARS, cluster_bars, holoviews

LONG = "a label that is longer than its axis"


def test_clusters_with_the_same_beginning_have_rows_of_their_own() -> None:
    frame = cluster_bars([f"{LONG} {at}" for at in range(MAX_BARS + 1)], np.arange(MAX_BARS + 1), True).data
    assert frame["samples"].tolist() == list(range(MAX_BARS))[::-1]
    assert frame["response"].nunique() == MAX_BARS
    assert {len(name.rstrip("\u200b")) for name in frame["response"]} == {LABEL_CHARS}


def test_tooltips_name_the_number() -> None:
    plot = holoviews().renderer("bokeh").get_plot(cluster_bars(["yes"], np.array([3]), True)).state
    [hover] = plot.select(HoverTool)
    assert [label for label, _ in hover.tooltips] == ["response", "samples"]
