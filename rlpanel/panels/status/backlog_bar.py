"""The line that tells how far a backlog is read, and stops it; gone when all is in."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.store.backlog.throughput import describe
from rlpanel.store.snapshot.snapshot import Progress

#: What is nearly read is not worth a line that comes and goes.
NEARLY = 0.99


class BacklogBar(Viewer):
    """A bar over the curves while older lines of the run are not read yet."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/status/backlog_bar.css")],
            sizing_mode="stretch_width",
            margin=0,
        )
        self._halt = pmui.Button(
            label="stop", size="small", variant="text", margin=(0, 8), align="center",
            on_click=self._turn, css_classes=["rl-halt"],
        )  # fmt: skip
        self._row = pn.Row(
            self._pane,
            self._halt,
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
            css_classes=["rl-backlog"],
        )
        context.param.watch(self._draw, "view")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._row

    def _draw(self, *_: Any) -> None:
        progress = self.context.snapshot.progress
        if progress.fraction < NEARLY and (progress.halted or not progress.caught_up):
            note = "older steps are left out" if progress.halted else "newest steps first"
            with pn.io.hold():
                self._pane.object = bar_html(progress, note)
                self._halt.label = "go on" if progress.halted else "stop"
                self._row.visible = True
        elif self._row.visible:
            self._row.visible = False

    def _turn(self, *_: Any) -> None:
        """Stop the backlog, or let it go on: for everybody who looks at the run."""
        if self.context.index is not None:
            self.context.index.pause(not self.context.snapshot.progress.halted)


def bar_html(progress: Progress, note: str = "") -> str:
    """A bar with bytes, rate and time left beside it."""
    share = min(progress.fraction, 1.0)
    words = describe(progress.bytes_read, progress.bytes_total, 0.0 if progress.halted else progress.rate)
    return (
        f'<div class="row"><span class="num">{"Stopped at" if progress.halted else "Reading"} {words}</span>'
        f'<span class="bar" role="progressbar" '
        f'aria-valuenow="{100 * share:.0f}"><i style="width:{share:.1%}"></i></span>'
        f"<span>{note}</span></div>"
    )
