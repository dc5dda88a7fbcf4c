"""A notice with buttons, which appears while there is something to say."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


class Notice(Component):
    """Base class of notices, drawn by ``notice.js``. A click sends the name of a button."""

    html = param.String(default="", doc="The HTML. The caller has escaped what comes from a log.")
    buttons = param.Dict(
        default={}, doc="Name of each button, which is its CSS class → its label; empty while it is hidden."
    )

    _esm = read_assets("panels/ui/dom.js", "panels/status/notice.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/status/notice.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(visible=False, **params)
