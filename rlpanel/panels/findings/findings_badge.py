"""Checks the selected run by the rules, and shows the badge, the list and the opened finding."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, get_args
from urllib.parse import quote

import panel as pn
import param

from rlpanel.findings.check import CheckEnded, cached_findings
from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.curves.curve_bar import show_curve
from rlpanel.panels.export.python_cell import finding_cell
from rlpanel.panels.findings.finding_landing import (
    Landing,
    StepChoice,
    linked_landing,
    show_affected,
    show_end,
    show_finding,
    step_choices,
)
from rlpanel.panels.investigations.claim_writer import ClaimWriter
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

# -- findings popup ------------------------------------------------------------------------------------
# The badge and the list of findings as the browser draws them, and the line of the opened finding.


class FindingsPopup(Component):
    """Badge and list, drawn by ``findings_badge.js``; a click sends ``[key, step choice]``."""

    found = param.List(default=[], doc="The findings as JSON objects.")
    checked = param.Boolean(default=False, doc="True once the rules have run.")
    opened = param.String(default="", doc="Key of the opened finding; empty for none.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/ui/closing.js",
        "panels/findings/finding_links.js",
        "panels/findings/findings_badge.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/findings/finding_links.css", "panels/findings/findings_badge.css"),
    ]


class CurrentFindings(Component):
    """The worst current finding and the number of the others; a click sends ``[key, step choice]``.

    It has one size, also without a finding: nothing moves when one arrives.
    """

    found = param.List(default=[], doc="The current findings as JSON objects, the worst first.")
    checked = param.Boolean(default=False, doc="True once the rules have run.")

    _esm = read_assets(
        "panels/ui/dom.js", "panels/findings/finding_links.js", "panels/findings/current_findings.js"
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/findings/finding_links.css", "panels/findings/current_findings.css"),
    ]


class OpenedFinding(Component):
    """Line above the curves with the opened finding; a click sends ``[key, step choice or "close"]``."""

    finding = param.Dict(default={}, doc="The opened finding as a JSON object; empty for none.")
    step = param.Integer(default=None, allow_None=True, doc="The selected step.")
    writes = param.Boolean(default=False, doc="Whether claims can be written on this board.")
    claimed = param.Dict(default={}, doc="`key` of the finding that was claimed last, and what was `said`.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/export/download.js",
        "panels/findings/finding_links.js",
        "panels/findings/opened_finding.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/findings/finding_links.css", "panels/findings/opened_finding.css"),
    ]


def finding_json(finding: Finding, snapshot: Snapshot) -> dict[str, Any]:
    """Return a finding as a JSON object for the browser, which shows its texts as text, never as HTML."""
    return {
        "key": finding.key,
        "severity": finding.severity,
        "title": tr(finding.title),
        "sentence": tr_finding(finding.sentence),
        "evidence": [tr_finding(line) for line in finding.evidence],
        "advice": tr_finding(finding.advice),
        "rule": rule_text(finding.rule),
        "split": finding.split,
        "steps": {name: step for name, step in step_choices(finding, snapshot).items() if step is not None},
        "symptoms": [finding_json(symptom, snapshot) for symptom in finding.symptoms],
    }


def rule_text(name: str) -> str:
    """Return the condition of a rule with its thresholds, as `docs/findings.md` has it; empty if unknown."""
    if name not in RULES:
        return ""
    settings, rule = FindingSettings.from_environment(), RULES[name]
    values = ", ".join(f"RLPANEL_{each.upper()} {getattr(settings, each):g}" for each in rule.thresholds)
    return f"{rule.help} {values}" if values else rule.help


# -- findings badge ------------------------------------------------------------------------------------
# Checks the selected run by the rules, shows the findings, and opens the one that is clicked.


#: Minimum number of seconds between two checks of a growing run.
EVERY = 3.0


class FindingsBadge:
    """Badge for the selected run; a click on a finding opens its step, curve and samples.

    Attributes
    ----------
    popup : FindingsPopup
        The badge and the list that it opens, for the header.
    opened : OpenedFinding
        The line with the opened finding, hidden while none is open.
    current : CurrentFindings
        The worst finding that still goes on; hidden while one is open.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._findings: dict[str, Finding] = {}
        self._last_check = 0.0
        self._landing: Landing | None = None  # of the opened finding
        self._linked = True  # the key may come from the URL, without the rest of the selection
        self._thresholds = FindingSettings.from_environment()
        self._work: BackgroundTask[list[Finding]] = BackgroundTask(self._show, context.threads.views)
        self.popup = FindingsPopup(visible=context.index is not None, css_classes=["rl-findings"])
        self._claims = ClaimWriter(context, self._show_claimed)
        self.opened = OpenedFinding(
            visible=False, writes=not context.read_only, css_classes=["rl-opened-finding"]
        )
        self.current = CurrentFindings(css_classes=["rl-current-findings"])
        for component in (self.popup, self.opened, self.current):
            component.on_message(self._on_click)
        context.param.watch(self._restart, "index")
        context.param.watch(self._check_if_due, ["view", "now"])
        context.selection.param.watch(self._on_finding, "finding")
        context.selection.param.watch(self._update_step, "step")

    # -- checking --------------------------------------------------------------------------------

    def _restart(self, *_: Any) -> None:
        self._last_check, self._findings = 0.0, {}
        self.popup.visible = self.context.index is not None
        self._work.stop()
        self.popup.param.update(found=[], checked=False)
        self.current.param.update(found=[], checked=False)
        self.context.shaded_by_column = {}
        self._mark()

    def _check_if_due(self, *_: Any) -> None:
        """Run the rules in the background, at most every `EVERY` seconds and not while a backlog is read."""
        context = self.context
        now, index = time.time(), context.index
        if index is None or not context.snapshot.progress.caught_up or now - self._last_check < EVERY:
            return
        self._last_check = now
        self._work.start(_compute_findings(context, index, self._thresholds, now))

    def _show(self, findings: list[Finding]) -> None:
        """List the findings; follow the link to one of them; close the opened one if it no longer holds."""
        self._findings = {}
        for finding in findings:
            for each in (finding, *finding.symptoms):
                self._findings.setdefault(each.key, each)
        snapshot = self.context.snapshot
        shown = [finding_json(each, snapshot) for each in findings]
        self.popup.param.update(found=shown, checked=True)
        current = [each for each in shown if each["severity"] != "info"]
        self.current.param.update(found=current, checked=True)
        self.context.shaded_by_column = _marked_curves(self._findings.values())
        linked = self._findings.get(self.context.selection.finding)
        if linked is None:
            self.context.selection.finding = ""
        elif self._linked:
            self._follow_link(linked)
        self._linked = False
        self._mark()

    # -- opening ---------------------------------------------------------------------------------

    def _follow_link(self, finding: Finding) -> None:
        """Show the finding of a link; a link that names a step shows that step."""
        context = self.context
        if context.selection.follow:
            self._open(finding, "onset")
            return
        self._landing = linked_landing(context, finding)
        if context.selection.tab == finding.tab:
            show_end(context, finding, context.selection.uid)

    def _open(self, finding: Finding, choice: StepChoice) -> None:
        self._landing = show_finding(self.context, finding, choice, self._landing)

    def _on_finding(self, event: Any) -> None:
        """Undo what opening a finding has set once it is closed, also by a click on another run."""
        landing = self._landing
        if not event.new and landing is not None:
            self._landing = None
            landing.undo(self.context.selection)
        self._mark()

    def _on_click(self, message: Any) -> None:
        """Open a finding at one of its steps, or close the opened one. The message comes from the browser."""
        if not (isinstance(message, list) and len(message) == 2 and all(isinstance(m, str) for m in message)):
            return
        key, choice = message
        finding = self._findings.get(key)
        if choice == "close":
            self.context.selection.finding = ""
        elif finding is not None and choice == "python":
            self.opened.send({"copy": finding_cell(self.context, finding)})
        elif finding is not None and choice == "claim":
            self.opened.claimed = {"key": key, "said": tr("Writing …")}
            self._claims.finding(finding.rule, finding.subject, finding.sentence)
        elif finding is not None and choice == "curve":
            show_curve(self.context, finding.column)
        elif finding is not None and choice == "bisect":
            self._open(finding, "onset")
            self.context.selection.param.update(
                page="explain", explain=_bisect_of(finding, self.context.snapshot)
            )
        elif finding is not None and finding.split and choice == "samples":
            show_affected(self.context, finding)
        elif finding is not None and choice in get_args(StepChoice):
            self._open(finding, choice)

    def _show_claimed(self, said: str) -> None:
        self.opened.claimed = {**self.opened.claimed, "said": said}

    def _mark(self, *_: Any) -> None:
        """Shade the steps of the opened finding, and show its line."""
        finding = self._findings.get(self.context.selection.finding)
        marked = _marked(finding) if finding else None
        with pn.io.hold():
            worst = self.current.found[0]["sentence"] if self.current.found else ""
            self.context.headline = (
                finding_json(finding, self.context.snapshot)["sentence"] if finding else worst
            )
            if marked != self.context.shaded_steps:
                self.context.shaded_steps = marked
            self.popup.opened = finding.key if finding else ""
            self.current.visible = finding is None
            self.opened.param.update(
                finding=finding_json(finding, self.context.snapshot) if finding else {},
                visible=finding is not None,
            )

    def _update_step(self, event: Any) -> None:
        self.opened.step = event.new


def _bisect_of(finding: Finding, snapshot: Snapshot) -> str:
    """Return the question of the page *Explain* that walks back from the onset of a finding.

    A finding on what is no number of each sample, such as a trainer's scalar, asks about the reward.
    """
    if not snapshot.has_number(finding.column):
        return "bisect"
    return ":".join(["bisect", str(finding.onset), quote(finding.column, safe="")])


def _compute_findings(
    context: Context, index: RunIndex, thresholds: FindingSettings, now: float
) -> Iterator[list[Finding]]:
    """Return the findings; none once the server ends, which a long check would delay."""
    split = context.snapshot.split
    with suppress(CheckEnded):
        yield cached_findings(index, thresholds, now, split, context.threads.end_of_check())


def _marked_curves(findings: Iterable[Finding]) -> dict[str, MarkedSteps]:
    """Return the steps of each column's worst finding."""
    marked: dict[str, MarkedSteps] = {}
    for finding in sorted(findings, key=lambda each: SEVERITIES.index(each.severity)):
        if finding.column and finding.steps:
            marked.setdefault(finding.column, _marked(finding))
    return marked


def _marked(finding: Finding) -> MarkedSteps:
    return MarkedSteps(
        finding.steps,
        theme.SEVERITY_COLORS[finding.severity],
        finding.column,
        text=tr(finding.title),
        sentence=tr_finding(finding.sentence),
        advice=tr_finding(finding.advice),
        evidence=tuple(map(tr_finding, finding.evidence)),
        compared=finding.compared,
        tool=finding.tool,
    )
