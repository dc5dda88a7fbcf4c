"""The notices above the curves: a link's query, the backlog, and findings."""

from __future__ import annotations

from typing import ClassVar

import param

from rlpanel.panels.findings.findings_popup import CurrentFindings, OpenedFinding
from rlpanel.panels.status.backlog_bar import BacklogBar
from rlpanel.panels.status.link_notice import LinkNotice
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script


class Notices(Region):
    """The notices, from top to bottom; those that have nothing to say take up no space."""

    link_notice = param.String()
    backlog = param.String()
    current = param.String()
    opened = param.String()

    _esm = region_script(
        link_notice=LinkNotice, backlog=BacklogBar, current=CurrentFindings, opened=OpenedFinding
    )
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "app/page/notices.css")]
