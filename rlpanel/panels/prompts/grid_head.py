"""Controls around the grid of prompts: legend, category, waste, and the curriculum file of a class."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class PassGridHead(Component):
    """Drawn by ``grid_head.js``; a click sends a pair of an action and a value."""

    data = param.Dict(
        default={},
        doc="Legend, categories, facts, weights, and the labels of fields and buttons; missing parts are "
        "not drawn.",
    )

    _esm = read_assets("panels/ui/dom.js", "panels/export/download.js", "panels/prompts/prompt_grid_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/prompts/grid_head.css")]
