"""List of findings with evidence and links to their rules: for notebooks and for the HTML report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar
from urllib.parse import quote

from markupsafe import Markup

from rlpanel.findings.check import check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.panels.findings.findings_badge import EVERY
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html, safe_text
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView

# -- rule page -----------------------------------------------------------------------------------------
# Addresses of the rules' descriptions in the documentation.
#
# The package's metadata names the repository, see ``hatch_build.py``. A build that does not know it has no
# links.


_PAGE = "findings.md"


def rule_anchor(rule: str) -> str:
    """Return the anchor of a rule's heading, as GitHub and the site make it.

    Raises
    ------
    KeyError
        If there is no such rule.
    """
    title = f"{RULES[rule].label} · {rule}".lower()
    return "".join(sign for sign in title if sign.isalnum() or sign in "_- ").replace(" ", "-")


def rule_address(rule: str, index: str | None = None) -> str:
    """Return the address of a rule's description; empty if the rule or the documentation's place is unknown.

    Parameters
    ----------
    rule : str
    index : str, optional
        Address of the documentation's first page; by default that of the package's metadata.
    """
    index = documentation() if index is None else index
    if rule not in RULES or not index.startswith(("https://", "http://")):
        return ""
    return f"{index.rpartition('/')[0]}/{_PAGE}#{quote(rule_anchor(rule))}"


@cache
def documentation() -> str:
    """Return the address of the documentation's first page; empty if the package's metadata has none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        found = metadata("rlpanel").get_all("Project-URL") or []
    except PackageNotFoundError:  # a folder on the path, which was not installed
        return ""
    addresses = dict(each.partition(", ")[::2] for each in found)
    return addresses.get("Documentation", "")


# -- findings list -------------------------------------------------------------------------------------
# List of findings with their evidence, always visible: for notebooks and for the HTML report.


#: Signs of the severities, as in the list of the badge.
_MARKS = {"alarm": "▲", "warning": "●", "info": "○"}


class FindingsList(Html):
    """List of findings with their evidence, updated when the run grows."""

    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/findings/findings_list.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0, css_classes=["rl-finding-report"])
        self.context = context
        self._last_check = 0.0
        context.param.watch(self._check_if_due, ["view", "now"])
        self._check_if_due()

    def _check_if_due(self, *_: Any) -> None:
        now = time.time()
        if now - self._last_check >= EVERY:
            self._last_check = now
            self.html = findings_html(self.context.view, now)


def findings_html(view: RunView, now: float) -> str:
    """Run the rules and return their findings as HTML: what goes on first, then what ended long ago."""
    return list_html(check(view, FindingSettings.from_environment(), now).findings)


def list_html(findings: Sequence[Finding]) -> str:
    """Return findings as HTML, with evidence, advice and symptoms; those that ended are below "Earlier"."""
    past = [finding for finding in findings if finding.severity == "info"]
    present = [finding for finding in findings if finding.severity != "info"]
    if not findings:
        return note_html(tr("No findings in the complete steps."))
    html = _items(present) if present else note_html(tr("No finding concerns the newest complete steps."))
    if past:
        summary = tr("Earlier ({past})", past=len(past))
        html += (
            f'<details class="earlier"{"" if present else " open"}><summary>{summary}</summary>'
            f"{_items(past)}</details>"
        )
    return html


def _items(findings: Sequence[Finding]) -> str:
    return f'<ul class="findings">{"".join(map(_finding_html, findings))}</ul>'


def _finding_html(finding: Finding) -> str:
    evidence = "".join(f"<p>{safe_text(tr_finding(line))}</p>" for line in finding.evidence)
    advice = (
        Markup("<p><b>{}</b> {}</p>").format(tr("Check next:"), tr_finding(finding.advice))
        if finding.advice
        else ""
    )
    if address := rule_address(finding.rule):
        advice += Markup('<p><a href="{}" target="_blank" rel="noopener">{}</a></p>').format(
            address, tr("About this rule")
        )
    symptoms = "".join(
        f"<li>{_mark(symptom)} {safe_text(tr_finding(symptom.sentence))}</li>" for symptom in finding.symptoms
    )
    seen = tr("Also seen")
    also = f'<div class="symptoms"><p>{seen}</p><ul>{symptoms}</ul></div>' if symptoms else ""
    return (
        f"<li>{_mark(finding)} <span>{safe_text(tr(finding.title))}</span>"
        f"<strong>{safe_text(tr_finding(finding.sentence))}</strong>{evidence}{advice}{also}</li>"
    )


def _mark(finding: Finding) -> str:
    """Return the sign of a severity, which is read aloud as its name."""
    severity = finding.severity
    name = tr(severity)
    return f'<span class="mark {severity}" role="img" aria-label="{name}">{_MARKS[severity]}</span>'
