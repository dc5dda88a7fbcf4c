"""What the rules found as a list that lies open: for a notebook, and for a report in one file."""

from __future__ import annotations

import time
from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.findings.check import check
from rlpanel.findings.engine.finding import Finding
from rlpanel.panels.findings.findings_badge import EVERY
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView


class FindingsList(Viewer):
    """The findings with their evidence, looked for again when the run grows."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._looked = 0.0
        self._pane = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, read_assets("panels/findings/findings_list.css")],
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-finding-report"],
        )
        context.param.watch(self._look, ["view", "now"])
        self._look()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _look(self, *_: Any) -> None:
        now = time.time()
        if now - self._looked >= EVERY:
            self._looked = now
            self._pane.object = findings_html(self.context.view, now)


def findings_html(view: RunView, now: float) -> str:
    """What the rules found, with the evidence."""
    found = check(view, FindingSettings.from_environment(), now).found
    if not found:
        return '<p class="note">The rules found nothing in the steps that are complete.</p>'
    return f'<ul class="findings">{"".join(map(_finding, found))}</ul>'


def _finding(finding: Finding) -> str:
    mark = "▲" if finding.severity == "alarm" else "●"
    evidence = "".join(f"<p>{safe_text(line)}</p>" for line in finding.evidence)
    return (
        f'<li class="{safe_text(finding.severity)}"><b><span>{mark}</span> {safe_text(finding.sentence)}</b>'
        f"{evidence}</li>"
    )
