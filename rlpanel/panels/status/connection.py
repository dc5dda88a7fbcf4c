"""Connection status in the header: reports a lost server, and reloads the page when the server is back.

A lost connection ends the session on the server, so the page cannot continue. ``connection.js`` polls
``./health`` with growing pauses (back-off) and reloads the page; its URL contains the selection. A connection
can also be silent without being closed, for example after suspend. Therefore the server sends a heartbeat.
"""

from __future__ import annotations

from typing import Any

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.assets import read_assets

#: Seconds between two heartbeats; ``connection.js`` reports a problem after three missing ones.
BEAT = 5.0


class Connection(Component):
    """Message about a lost or silent connection; empty while heartbeats arrive."""

    beat = param.Integer(default=0, doc="Changes every `BEAT` seconds while the server draws this page.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/clock.js", "panels/status/connection.js")
    _stylesheets = [read_assets("panels/status/connection.css")]

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(css_classes=["rl-connection"], **params)
        context.param.watch(self._tick, "now")

    def _tick(self, event: Any) -> None:
        self.beat = int(event.new // BEAT)
