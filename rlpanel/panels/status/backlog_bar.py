"""Progress bar of the backlog, with a button that pauses reading; hidden when everything is read."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.snapshot import Progress, describe

#: From this fraction on the bar is hidden, so that it does not flicker for short backlogs.
NEARLY = 0.99


class BacklogBar(Viewer):
    """Progress bar above the curves, shown while older lines of the run are not read yet."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/status/backlog_bar.css")],
            sizing_mode="stretch_width",
            align="center",
            margin=0,
        )
        self._button = button(tr("pause"), self._toggle, margin=(0, 0, 0, 12), css_classes=["rl-halt"])
        self._row = pn.Row(
            self._pane,
            self._button,
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
            note = tr("older steps are not read") if progress.halted else tr("newest steps first")
            with pn.io.hold():
                self._pane.object = bar_html(progress, note)
                self._button.label = tr("resume") if progress.halted else tr("pause")
                self._row.visible = True
        elif self._row.visible:
            self._row.visible = False

    def _toggle(self, *_: Any) -> None:
        """Pause or resume reading the backlog, for all sessions that show the run."""
        if self.context.index is not None:
            self.context.index.pause(not self.context.snapshot.progress.halted)


def bar_html(progress: Progress, note: str = "") -> str:
    """Return the progress bar as HTML, with bytes, throughput and remaining time."""
    share = min(progress.fraction, 1.0)
    text = describe(progress.bytes_read, progress.bytes_total, 0.0 if progress.halted else progress.rate)
    verb = tr("Paused at") if progress.halted else tr("Reading")
    return (
        f'<div class="row"><span class="num">{verb} {text}</span>'
        f'<span class="bar" role="progressbar" '
        f'aria-valuenow="{100 * share:.0f}"><i style="width:{share:.1%}"></i></span>'
        f"<span>{note}</span></div>"
    )
