"""List of findings with their evidence, always visible: for notebooks and for the HTML report."""

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
    """List of findings with their evidence, updated when the run grows."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._last_check = 0.0
        self._pane = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, read_assets("panels/findings/findings_list.css")],
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-finding-report"],
        )
        context.param.watch(self._check_if_due, ["view", "now"])
        self._check_if_due()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _check_if_due(self, *_: Any) -> None:
        now = time.time()
        if now - self._last_check >= EVERY:
            self._last_check = now
            self._pane.object = findings_html(self.context.view, now)


def findings_html(view: RunView, now: float) -> str:
    """Run the rules and return their findings with the evidence as HTML."""
    findings = check(view, FindingSettings.from_environment(), now).findings
    if not findings:
        return '<p class="note">No findings in the complete steps.</p>'
    return f'<ul class="findings">{"".join(map(_finding_html, findings))}</ul>'


def _finding_html(finding: Finding) -> str:
    mark = "▲" if finding.severity == "alarm" else "●"
    evidence = "".join(f"<p>{safe_text(line)}</p>" for line in finding.evidence)
    return (
        f'<li class="{safe_text(finding.severity)}"><b><span>{mark}</span> {safe_text(finding.sentence)}</b>'
        f"{evidence}</li>"
    )
