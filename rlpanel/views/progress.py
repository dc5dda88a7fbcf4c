"""The line that tells how far a backlog is read; gone when all is in."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.store.pace import describe
from rlpanel.store.snapshot import Progress
from rlpanel.views import theme
from rlpanel.views.context import Context

#: What is nearly read is not worth a line that comes and goes.
NEARLY = 0.99


class Backlog(Viewer):
    """A bar over the curves while older lines of the run are still being read."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, theme.style("progress")],
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
            css_classes=["rl-backlog"],
        )
        context.param.watch(self._draw, "snapshot")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: Any) -> None:
        progress = self.context.snapshot.progress
        if not progress.caught_up and progress.fraction < NEARLY:
            self._pane.param.update(object=bar_html(progress, "newest steps first"), visible=True)
        elif self._pane.visible:
            self._pane.visible = False


def bar_html(progress: Progress, note: str = "") -> str:
    """A bar with bytes, rate and time left beside it."""
    share = min(progress.fraction, 1.0)
    words = describe(progress.bytes_read, progress.bytes_total, progress.rate)
    return (
        f'<div class="row"><span class="num">Reading {words}</span><span class="bar" role="progressbar" '
        f'aria-valuenow="{100 * share:.0f}"><i style="width:{share:.1%}"></i></span>'
        f"<span>{note}</span></div>"
    )
