"""Loads HoloViews, in a notebook with scripts and style sheets that need no network."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import holoviews as hv
from holoviews.core.dimension import LabelledData

from rlpanel.panel_fixes.embedded_sheets import embed_sheets

#: HoloViews' name of the display of notebooks.
_NOTEBOOK = "html+js"


@cache
def load_holoviews() -> None:
    """Load the Bokeh backend once; to be called before the first plot is made."""
    if "bokeh" not in hv.Store.renderers or not hv.extension._loaded:
        hv.extension("bokeh", inline=True, logo=False)
    display = hv.Store._display_hooks[_NOTEBOOK].get(LabelledData)
    if display is not None:  # in a notebook
        hv.Store.set_display_hook(_NOTEBOOK, LabelledData, _without_network(display))


def _without_network(display: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the display with Panel's style sheets embedded; Panel would load them from a CDN."""

    def show(plot: Any) -> Any:
        shown = display(plot)
        if shown is None:
            return None
        data, metadata = shown
        return {
            **data,
            "text/html": embed_sheets(data["text/html"]),
        } if "text/html" in data else data, metadata

    return show
