"""Say beside the age that the page lost its server, and load the page again when the server answers.

A lost connection ends the session on the server, so nothing on the page can go on: ``connection.js`` asks
``./health`` with growing pauses and loads the page again at its address, which holds the selection. A
connection may also be silent without being closed, after sleep or while the server is stopped; so the server
sends a beat.
"""

from __future__ import annotations

from typing import Any

import param
from panel.custom import JSComponent

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.assets import read_assets

#: Seconds between two beats; ``connection.js`` waits for three of them.
BEAT = 5.0


class Connection(JSComponent):
    """Empty while news come from the server; else what happened and since when."""

    beat = param.Integer(default=0, doc="Changes every `BEAT` seconds while the server draws this page.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/clock.js", "panels/status/connection.js")
    _stylesheets = [read_assets("panels/status/connection.css")]

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(margin=(0, 0, 0, 10), align="center", css_classes=["rl-connection"], **params)
        context.param.watch(self._tick, "now")

    def _tick(self, event: Any) -> None:
        self.beat = int(event.new // BEAT)
