"""Empty state of the board: getting started, reading, or a run without samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_badge import problems_html
from rlpanel.panels.status.backlog_bar import bar_html
from rlpanel.panels.status.getting_started import getting_started_html
from rlpanel.panels.status.notice import Notice
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.snapshot import Snapshot


class EmptyState(Notice):
    """Cover of the page while there are no samples: explains what is missing, and offers the demo.

    It does not replace the views: a table or plot built without a size may stay empty.

    Parameters
    ----------
    context : Context
    on_demo : callable
        Called by the button that opens the demo.
    """

    _stylesheets: ClassVar[list[str]] = [*Notice._stylesheets, read_assets("panels/status/empty_state.css")]

    def __init__(self, context: Context, on_demo: Callable[[], None]) -> None:
        super().__init__(
            buttons={"demo": ""}, sizing_mode="stretch_width", margin=0, css_classes=["rl-stage"]
        )
        self.context, self._on_demo = context, on_demo
        context.param.watch(self._draw, ["runs", "view", "root", "root_diagnosis"])
        self._draw()

    def receive(self, message: Any) -> None:
        """Open the demo. The message comes from the browser."""
        if message == "demo":
            self._on_demo()

    def _draw(self, *_: Any) -> None:
        context = self.context
        if context.snapshot.samples:
            self.visible = False
        elif context.runs:
            self.param.update(html=_waiting(context.snapshot), buttons={"demo": ""}, visible=True)
        else:
            html = getting_started_html(context.root, context.root_diagnosis)
            label = "" if context.read_only else tr("Open the demo run")
            self.param.update(html=html, buttons={"demo": label}, visible=True)


def _waiting(snapshot: Snapshot) -> str:
    if not snapshot.version or not snapshot.progress.caught_up:
        title, progress = tr("Reading …"), bar_html(snapshot.progress) if snapshot.version else ""
        return f"<h2>{title}</h2>{progress}"
    title = tr("No samples yet")
    text = tr(
        "The run's files contain no complete line with a sample. New samples appear here automatically."
    )
    return f"<h2>{title}</h2><p>{text}</p>{problems_html(snapshot)}"
