"""Badge in the header with the number of findings; its list shows the evidence and opens the samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, ClassVar

import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.findings_cache import cached_findings
from rlpanel.panels.curves.curve_selection import curves_of
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex

#: Minimum number of seconds between two checks of a growing run.
EVERY = 3.0


class FindingsPopup(JSComponent):
    """Badge and list, drawn by ``findings_badge.js``; a click sends the key of a finding."""

    found = param.List(default=[], doc="The findings as JSON objects.")
    checked = param.Boolean(default=False, doc="True once the rules have run.")
    on_open = param.Callable(doc="Called with the key of the clicked finding.", precedence=-1)

    _esm = read_assets("panels/findings/findings_badge.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/findings/findings_badge.css")]
    _rename: ClassVar[dict[str, None]] = {"on_open": None}

    def _handle_msg(self, msg: Any) -> None:
        if isinstance(msg, str):
            self.on_open(msg)


class FindingsBadge(Viewer):
    """Badge for the selected run; a click on a finding opens its step, curve and samples."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._findings: dict[str, Finding] = {}
        self._last_check = 0.0
        self._thresholds = FindingSettings.from_environment()
        self._work: BackgroundTask[list[Finding]] = BackgroundTask(self._show)
        self._list = FindingsPopup(
            on_open=self._open,
            margin=(0, 10, 0, 0),
            align="center",
            css_classes=["rl-findings"],
            styles={"margin-left": "auto"},
        )
        context.param.watch(self._restart, "index")
        context.param.watch(self._check_if_due, ["view", "now"])

    def __panel__(self) -> pn.viewable.Viewable:
        return self._list

    def _restart(self, *_: Any) -> None:
        self._last_check, self._findings = 0.0, {}
        self._work.stop()
        self._list.param.update(found=[], checked=False)

    def _check_if_due(self, *_: Any) -> None:
        """Run the rules in the background, at most every `EVERY` seconds and not while a backlog is read."""
        context = self.context
        now, index = time.time(), context.index
        if index is None or not context.snapshot.progress.caught_up or now - self._last_check < EVERY:
            return
        self._last_check = now
        self._work.start(_compute_findings(index, self._thresholds, now, context.snapshot.split))

    def _show(self, findings: list[Finding]) -> None:
        self._findings = {finding.key: finding for finding in findings}
        self._list.param.update(found=[_to_json(finding) for finding in findings], checked=True)

    def _open(self, key: str) -> None:
        """Select the samples of a finding: of the current step if it is affected, else of the last one."""
        finding = self._findings.get(key)
        if finding is None:
            return
        context, selection = self.context, self.context.selection
        with pn.io.hold():
            visible = [curve.columns[0] for curve in curves_of(context)]
            if finding.column and finding.column not in visible and context.view.has(finding.column):
                selection.curves = [*visible, finding.column]
            if finding.uid:
                context.choose_sample(finding.uid)
            elif finding.steps:
                affected = selection.step in finding.steps
                context.choose_range(selection.step if affected else finding.steps[-1], finding.where)


def _compute_findings(
    index: RunIndex, thresholds: FindingSettings, now: float, split: str
) -> Iterator[list[Finding]]:
    yield cached_findings(index, thresholds, now, split)


def _to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as a JSON object for the browser, which shows its texts as text, never as HTML."""
    plain = asdict(finding) | {"key": finding.key, "steps": len(finding.steps)}
    return {name: plain[name] for name in ("key", "severity", "sentence", "evidence", "steps", "where")}
