"""Plots of a contrast and of clusters: HoloViews elements, made anew whenever their numbers change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rlpanel.analysis.difference import Difference, label_of
from rlpanel.analysis.response_clusters import ResponseCluster
from rlpanel.panels.explain.link_rows import one_line
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui import theme

#: Maximum number of bars, and characters of their labels.
MOST_BARS, LABEL_CHARS = 12, 26
_ROW_HEIGHT, _AXES_HEIGHT = 19, 40


def effect_plot(differences: Sequence[Difference], dark: bool) -> Any:
    """Return the largest effects as bars with their standard errors, the largest on top."""
    hv = holoviews()
    colors = theme.palette(dark)
    shown = list(reversed(differences[:MOST_BARS]))
    frame = pd.DataFrame(
        {
            "name": _distinct([label_of(difference) for difference in shown]),
            "effect": [difference.tested.effect for difference in shown],
            "error": [difference.tested.error for difference in shown],
            "color": [
                colors["policy" if difference.tested.effect > 0 else "reference"] for difference in shown
            ],
        }
    )
    bars = frame.hvplot.barh("name", "effect", color="color", line_color=None, **_size(len(frame)))
    errors = hv.ErrorBars(frame, "name", ["effect", "error"])
    errors = errors.opts(
        color=colors["text"], upper_head=None, lower_head=None, invert_axes=True, backend="bokeh"
    )
    return (bars * errors).opts(**_options(len(frame), dark, tr("effect, standard deviations")))


def cluster_plot(clusters: Sequence[ResponseCluster], dark: bool) -> Any:
    """Return the sizes of the largest clusters as bars, the largest on top."""
    holoviews()
    shown = list(reversed(clusters[:MOST_BARS]))
    frame = pd.DataFrame(
        {
            "response": _distinct([cluster.example or tr("(empty)") for cluster in shown]),
            "samples": [cluster.size for cluster in shown],
        }
    )
    bars = frame.hvplot.barh(
        "response", "samples", color=theme.palette(dark)["policy"], line_color=None, **_size(len(frame))
    )
    return bars.opts(**_options(len(frame), dark, "samples"))


def holoviews() -> Any:
    """Import HoloViews and hvPlot, which takes long, and only once they are needed."""
    import holoviews as hv

    if "bokeh" not in hv.Store.renderers:
        hv.extension("bokeh")
    import hvplot.pandas  # noqa: F401

    return hv


def finish_figure(figure: Any, dark: bool) -> None:
    """Apply the board's style to a figure that HoloViews made."""
    theme.restyle(figure, dark)
    figure.xgrid.visible = True
    figure.xgrid.grid_line_color = theme.palette(dark)["line"]
    figure.background_fill_alpha = figure.border_fill_alpha = 0
    for axis in figure.axis:
        axis.update(axis_label_text_font_style="normal", axis_label_text_font_size="11px")


def _distinct(labels: Sequence[str]) -> list[str]:
    """Return labels that are short, of one line and different, as a categorical axis needs."""
    found: list[str] = []
    for label in labels:
        text = well_formed(one_line(label))
        text = text if len(text) <= LABEL_CHARS else f"{text[: LABEL_CHARS - 1]}…"
        while text in found:
            text += "\u200b"
        found.append(text)
    return found


def _size(rows: int) -> dict[str, Any]:
    return {"height": rows * _ROW_HEIGHT + _AXES_HEIGHT, "responsive": True}


def _options(rows: int, dark: bool, title: str) -> dict[str, Any]:
    """Return the options of a bar plot in the board's style."""

    def finish(plot: Any, _: Any) -> None:
        figure = plot.state
        finish_figure(figure, dark)
        figure.ygrid.visible = False
        figure.yaxis.major_label_text_color = theme.palette(dark)["text"]
        figure.min_border_left = 8

    return {
        **_size(rows),
        "toolbar": None,
        "default_tools": [],
        "show_frame": False,
        "show_legend": False,
        "xlabel": "",
        "ylabel": title,  # the axes of horizontal bars are exchanged
        "hooks": [finish],
        "backend": "bokeh",
    }
