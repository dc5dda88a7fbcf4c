"""The top of the sample panel: header, actions and tabs of the shown sample, drawn by one region."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.inputs.tab_bar import TabBar
from rlpanel.panels.sample.sample_actions import SampleActions
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html, Region, region_script


class SampleHead(Html):
    """Place and scores of the shown sample."""

    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/sample/sample_head.css")]

    def __init__(self) -> None:
        super().__init__(css_classes=["rl-sample-head"])


class SampleTop(Region):
    """Header, actions and tabs, below each other."""

    head = param.String()
    actions = param.String()
    tabs = param.String()

    _esm = region_script(head=SampleHead, actions=SampleActions, tabs=TabBar)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "panels/sample/sample_top.css")]

    def __init__(self, **parts: Component) -> None:
        super().__init__(parts, sizing_mode="stretch_width", margin=0)
