"""What stands in for the board while there is nothing to see: how to begin, or what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewer

from rlpanel.store.snapshot import Snapshot
from rlpanel.views import theme
from rlpanel.views.context import Context
from rlpanel.views.progress import bar_html
from rlpanel.views.runs import trouble_html
from rlpanel.views.theme import safe_text


class Stage(Viewer):
    """No runs yet, reading, or no samples yet: each says what it waits for.

    Parameters
    ----------
    context : Context
    on_demo : callable
        What the offer of a demo does.
    """

    def __init__(self, context: Context, on_demo: Callable[..., None]) -> None:
        super().__init__()
        self.context = context
        self._pane = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, theme.style("stage"), theme.style("progress")],
            sizing_mode="stretch_width",
            margin=0,
        )
        self._demo = pmui.Button(
            label="Watch the demo run",
            variant="contained",
            on_click=on_demo,
            margin=(12, 0),
            css_classes=["rl-demo"],
        )
        self._box = pn.Column(
            self._pane,
            self._demo,
            max_width=760,
            margin=(60, 40),
            sizing_mode="stretch_width",
            css_classes=["rl-stage"],
        )
        context.param.watch(self._draw, ["runs", "snapshot", "root"])
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._box

    def _draw(self, *_: Any) -> None:
        runs, snapshot = self.context.runs, self.context.snapshot
        self._demo.visible = not runs
        self._pane.object = _waiting(snapshot) if runs else _how_to_begin(self.context.root)


def _waiting(snapshot: Snapshot) -> str:
    if not snapshot.version or not snapshot.progress.caught_up:
        return f"<h2>Reading …</h2>{bar_html(snapshot.progress) if snapshot.version else ''}"
    return (
        "<h2>No samples yet</h2><p>The run's files hold no whole line that is a sample. "
        f"New lines appear here by themselves.</p>{trouble_html(snapshot)}"
    )


def _how_to_begin(root: str) -> str:
    where = f"<code>{safe_text(root)}</code>" if root else "the folder given"
    return (
        f"<h2>No runs yet</h2><p>Nothing below {where} looks like a rollout log. This page follows the "
        "folder: a run appears as soon as a rank writes its first line.</p>"
        "<p>Each rank appends one line a sample to a <code>.jsonl</code> file of its own:</p>"
        '<pre>{"step": 3, "prompt": "2 + 2 =", "response": "4", "reward": 1.0,\n'
        ' "response_tokens": ["4"], "logprobs": [-0.02], "ref_logprobs": [-0.11]}</pre>'
        "<p>Only <code>step</code> and one of <code>prompt</code> and <code>response</code> are needed; "
        "what is not logged is not shown. Another folder: <code>rlpanel serve FOLDER</code>.</p>"
    )
