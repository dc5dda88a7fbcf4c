"""A bar of tabs, grouped by what they are about."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class TabBar(Component):
    """Tabs drawn by ``tab_bar.js``; a click or an arrow key sends the tab's key."""

    tabs = param.List(
        default=[], doc="One JSON object per tab: key, title, and the group that it belongs to."
    )
    value = param.String(default="", doc="Key of the open tab.")

    _esm = read_assets("panels/ui/dom.js", "panels/inputs/tab_bar.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/inputs/tab_bar.css")]
