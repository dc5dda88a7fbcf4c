"""Empty state of the board: getting started, reading, or a run without samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_badge import problems_html
from rlpanel.panels.status.backlog_bar import bar_html
from rlpanel.panels.status.getting_started import getting_started_html
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.snapshot import Snapshot


class EmptyState(Viewer):
    """Page content while there are no samples: explains what is missing, and offers the demo.

    Parameters
    ----------
    context : Context
    on_demo : callable
        Called by the button that opens the demo.
    """

    def __init__(self, context: Context, on_demo: Callable[..., None]) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[
                theme.CSS,
                read_assets("panels/status/empty_state.css"),
                read_assets("panels/status/backlog_bar.css"),
            ],
            sizing_mode="stretch_width",
            margin=0,
        )
        self._demo = button(
            tr("Open the demo run"), on_demo, margin=(12, 0), align="start", css_classes=["rl-demo"]
        )
        self._box = pn.Column(
            self._pane,
            self._demo,
            max_width=760,
            margin=(60, 40),
            sizing_mode="stretch_width",
            css_classes=["rl-stage"],
        )
        context.param.watch(self._draw, ["runs", "view", "root", "root_diagnosis"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._box

    def _draw(self, *_: Any) -> None:
        runs, snapshot = self.context.runs, self.context.snapshot
        self._demo.visible = not runs and not self.context.read_only
        self._pane.object = (
            _waiting(snapshot)
            if runs
            else getting_started_html(self.context.root, self.context.root_diagnosis)
        )


def _waiting(snapshot: Snapshot) -> str:
    if not snapshot.version or not snapshot.progress.caught_up:
        title, progress = tr("Reading …"), bar_html(snapshot.progress) if snapshot.version else ""
        return f"<h2>{title}</h2>{progress}"
    title = tr("No samples yet")
    text = tr(
        "The run's files contain no complete line with a sample. New samples appear here automatically."
    )
    return f"<h2>{title}</h2><p>{text}</p>{problems_html(snapshot)}"
