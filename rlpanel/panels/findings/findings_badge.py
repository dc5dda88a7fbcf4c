"""What the rules found: a badge that counts, a list with the evidence, a way to the samples behind it."""

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

#: Seconds between two looks at a run that goes on.
EVERY = 3.0


class FindingsPopup(JSComponent):
    """The badge and its list, drawn in ``findings.js``; a click comes back as the finding's key."""

    found = param.List(default=[], doc="The findings as plain objects.")
    checked = param.Boolean(default=False, doc="Whether the rules have looked at the run.")
    on_open = param.Callable(doc="Called with the key of the finding that was clicked.", precedence=-1)

    _esm = read_assets("panels/findings/findings_badge.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/findings/findings_badge.css")]
    _rename: ClassVar[dict[str, None]] = {"on_open": None}

    def _handle_msg(self, msg: Any) -> None:
        if isinstance(msg, str):
            self.on_open(msg)


class FindingsBadge(Viewer):
    """Follows the selected run's findings; a click opens step, curve and samples."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._found: dict[str, Finding] = {}
        self._seen: tuple[object, ...] = ()
        self._looked = 0.0
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
        context.param.watch(self._look, ["view", "now"])

    def __panel__(self) -> pn.viewable.Viewable:
        return self._list

    def _restart(self, *_: Any) -> None:
        self._looked, self._found = 0.0, {}
        self._work.stop()
        self._list.param.update(found=[], checked=False)

    def _look(self, *_: Any) -> None:
        """Look again, when there is something new and some time has passed."""
        context = self.context
        now, index = time.time(), context.index
        if index is None or not context.snapshot.progress.caught_up or now - self._looked < EVERY:
            return
        self._looked = now
        self._work.start(_found(index, self._thresholds, now, context.snapshot.split))

    def _show(self, found: list[Finding]) -> None:
        self._found = {finding.key: finding for finding in found}
        self._list.param.update(found=[_plain(finding) for finding in found], checked=True)

    def _open(self, key: str) -> None:
        """Show what is behind a finding: its last step, or the shown one where that is among them."""
        finding = self._found.get(key)
        if finding is None:
            return
        context, selection = self.context, self.context.selection
        with pn.io.hold():
            shown = [curve.columns[0] for curve in curves_of(context)]
            if finding.column and finding.column not in shown and context.view.has(finding.column):
                selection.curves = [*shown, finding.column]
            if finding.uid:
                context.choose_sample(finding.uid)
            elif finding.steps:
                among = selection.step in finding.steps
                context.choose_range(selection.step if among else finding.steps[-1], finding.where)


def _found(index: RunIndex, thresholds: FindingSettings, now: float, split: str) -> Iterator[list[Finding]]:
    yield cached_findings(index, thresholds, now, split)


def _plain(finding: Finding) -> dict[str, Any]:
    """As the browser takes it; it shows texts as texts, never as HTML."""
    plain = asdict(finding) | {"key": finding.key, "steps": len(finding.steps)}
    return {name: plain[name] for name in ("key", "severity", "sentence", "evidence", "steps", "where")}
