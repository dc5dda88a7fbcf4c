"""The bar above the grid: number of samples, search, a button for new samples, and the query bar."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.samples.query_bar import QueryBar
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script


class GridHead(Component):
    """Number of samples, a field that searches texts, and a button that loads new samples, by a message."""

    html = param.String(default="", doc="The grid's title and the number of samples, as HTML.")
    search = param.String(default="", doc="The search, as written.")
    new = param.String(default="", doc="Label of the button; empty without new samples.")

    SET_IN_BROWSER = frozenset({"search"})
    _esm = read_assets("panels/ui/dom.js", "panels/samples/grid_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/samples/grid_head.css")]


class SampleBar(Region):
    """The grid's head above its query bar."""

    head = param.String()
    query = param.String()

    _esm = region_script(head=GridHead, query=QueryBar)
    _stylesheets: ClassVar[list[str]] = [
        read_assets("panels/ui/region.css", "panels/samples/sample_bar.css"),
    ]

    def __init__(self, head: GridHead, query: QueryBar, **params: Any) -> None:
        super().__init__({"head": head, "query": query}, sizing_mode="stretch_width", margin=0, **params)
