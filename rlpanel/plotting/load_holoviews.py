"""Loads HoloViews, in a notebook with scripts and style sheets that need no network."""

from __future__ import annotations

from functools import cache

import holoviews as hv

from rlpanel.panel_fixes.embedded_sheets import embed_in_plots


@cache
def load_holoviews() -> None:
    """Load the Bokeh backend once; to be called before the first plot is made."""
    hv.extension("bokeh", inline=True, logo=False)
    embed_in_plots()
