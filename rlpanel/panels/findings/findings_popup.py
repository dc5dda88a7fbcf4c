"""The badge and the list of findings as the browser draws them, and the line of the opened finding."""

from __future__ import annotations

from typing import Any, ClassVar

import param

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.findings.finding_landing import step_choices
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.snapshot import Snapshot


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
