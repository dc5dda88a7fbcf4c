"""The header of the page: toggle of the side panel, run, connection, findings, theme and help."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.app.page.page_controls import PageControls, SideToggle
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.findings.findings_popup import FindingsPopup
from rlpanel.panels.session.browser_pace import BrowserPace
from rlpanel.panels.sidebar.run_badge import RunBadge
from rlpanel.panels.status.connection import Connection
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script


class Header(Region):
    """The header's parts, from left to right."""

    toggle = param.String()
    badge = param.String()
    connection = param.String()
    pace = param.String()
    findings = param.String()
    buttons = param.String()

    _esm = region_script(
        toggle=SideToggle,
        badge=RunBadge,
        connection=Connection,
        pace=BrowserPace,
        findings=FindingsPopup,
        buttons=PageControls,
    )
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/header.css")]

    def __init__(self, parts: dict[str, Component], **params: Any) -> None:
        super().__init__(
            parts, sizing_mode="stretch_width", height=46, margin=0, css_classes=["rl-header"], **params
        )
