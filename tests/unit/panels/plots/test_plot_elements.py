"""Bars of effects and clusters: the largest on top, with short and different labels."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh.models import HoverTool

from rlpanel.panels.plots.plot_elements import LABEL_CHARS, MAX_BARS, cluster_bars, effect_bars, holoviews
from rlpanel.panels.ui import theme

LONG = "a label that is longer than its axis"


@pytest.mark.parametrize("dark", [True, False])
def test_effects_have_the_colour_of_the_set_that_has_more(dark: bool) -> None:
    plot = effect_bars(["more", "less"], np.array([0.5, -0.2]), np.array([0.1, 0.1]), dark, "effect")
    colors = theme.palette(dark)
    frame = plot.get(0).data
    assert frame[["name", "color"]].values.tolist() == [
        ["less", colors["reference"]],
        ["more", colors["policy"]],
    ]
    assert plot.get(1).data["error"].tolist() == [0.1, 0.1]


def test_clusters_with_the_same_beginning_have_rows_of_their_own() -> None:
    frame = cluster_bars([f"{LONG} {at}" for at in range(MAX_BARS + 1)], np.arange(MAX_BARS + 1), True).data
    assert frame["samples"].tolist() == list(range(MAX_BARS))[::-1]
    assert frame["response"].nunique() == MAX_BARS
    assert {len(name.rstrip("\u200b")) for name in frame["response"]} == {LABEL_CHARS}


def test_tooltips_name_the_number() -> None:
    plot = holoviews().renderer("bokeh").get_plot(cluster_bars(["yes"], np.array([3]), True)).state
    [hover] = plot.select(HoverTool)
    assert [label for label, _ in hover.tooltips] == ["response", "samples"]
