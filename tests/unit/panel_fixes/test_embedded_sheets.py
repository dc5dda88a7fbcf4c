"""Style sheets in a notebook without network."""

from __future__ import annotations

import holoviews as hv
import panel as pn
import pytest
from panel.io.resources import CDN_DIST

from rlpanel.plotting.run_plots import load_holoviews


@pytest.mark.upstream_fault
def test_a_plot_of_holoviews_still_names_style_sheets_of_a_cdn() -> None:
    load_holoviews()
    with pn.config.set(inline=True):
        [data, _] = hv.renderer("bokeh").components(hv.Curve([1, 2]))
    assert CDN_DIST in data["text/html"]
