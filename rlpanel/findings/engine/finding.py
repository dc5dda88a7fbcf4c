"""The result of a rule: a sentence, its evidence, and the samples behind it; also as a dict for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rlpanel.analysis.step_windows import StepWindows

Severity = Literal["alarm", "warning", "info"]

#: Severities, the worst first.
SEVERITIES: tuple[Severity, ...] = ("alarm", "warning", "info")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation of a rule; it must claim no more than its evidence shows.

    Attributes
    ----------
    severity : str
        ``alarm``: it continues in the newest complete steps and harms training;
        ``warning``: it deserves attention; ``info``: it ended long ago.
    sentence : str
        What happened, since when and where, in one sentence.
    evidence : tuple of str
        Measured numbers, one sentence each.
    advice : str
        What to check next; may be empty.
    steps : tuple of int
        The affected steps, ascending; empty if the finding is about the whole run.
    ongoing : bool
        True if the newest complete steps are affected.
    worst : int, optional
        The most affected step.
    rank : int, optional
        The only affected rank; None if it is not limited to one.
    category : str
        The only affected category, such as ``lang = zh``; empty if it is not limited to one.
    column : str
        The curve that shows the problem; may be empty.
    where : str
        Filter expression for the affected samples; empty for all samples of the steps.
    split : str
        Split that holds the affected samples if it is not the one that was checked; else empty. The filter
        ``where`` is for its samples.
    sort : str
        Column by which the grid shows the cause first, descending with a leading ``-``; may be empty.
    color : str
        Token metric that shows the cause in the token view; may be empty.
    tab : str
        Key of the sample's tab that shows the cause, such as ``conversation``; empty: the sample chooses.
    tool : str
        Tool whose failed call shows the cause; empty if it is not a tool.
    uid : str
        An example sample; may be empty.
    compared : StepWindows, optional
        The steps that the evidence compares, and those before; None if it compares none.
    symptoms : tuple of Finding
        Findings with the same cause.
    subject : str
        Distinguishes findings of the same rule and stays the same while the problem lasts, for example a
        column or a rank; may be empty.
    rule, title : str
        Name of the rule and its title on the screen; `rlpanel.findings.engine.rule.rule` fills them in.
    """

    severity: Severity
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    steps: tuple[int, ...] = ()
    ongoing: bool = False
    worst: int | None = None
    rank: int | None = None
    category: str = ""
    column: str = ""
    where: str = ""
    split: str = ""
    sort: str = ""
    color: str = ""
    tab: str = ""
    tool: str = ""
    uid: str = ""
    compared: StepWindows | None = None
    symptoms: tuple[Finding, ...] = ()
    subject: str = ""
    rule: str = ""
    title: str = ""

    @property
    def key(self) -> str:
        """Identifier that stays the same while the problem lasts."""
        return f"{self.rule}:{self.subject}"

    @property
    def onset(self) -> int | None:
        """The first affected step; None if the finding is about the whole run."""
        return self.steps[0] if self.steps else None

    @property
    def last(self) -> int | None:
        """The last affected step; None if the finding is about the whole run."""
        return self.steps[-1] if self.steps else None


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as a dict of values that JSON can hold.

    ``steps`` is the number of affected steps, ``metric`` the column of the curve that shows the finding, and
    ``filter`` the expression for its samples. ``compared`` has first and last step of the two windows that
    the evidence compares; null for none. ``symptoms`` is a list of such dicts. For the other keys see
    `Finding`.
    """
    return {
        "rule": finding.rule,
        "title": finding.title,
        "subject": finding.subject,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "evidence": list(finding.evidence),
        "advice": finding.advice,
        "steps": len(finding.steps),
        "onset": _integer(finding.onset),
        "last": _integer(finding.last),
        "ongoing": bool(finding.ongoing),
        "worst": _integer(finding.worst),
        "rank": _integer(finding.rank),
        "category": finding.category,
        "metric": finding.column,
        "filter": finding.where,
        "split": finding.split,
        "sort": finding.sort,
        "uid": finding.uid,
        "compared": [list(bounds) for bounds in finding.compared] if finding.compared is not None else None,
        "symptoms": [finding_dict(symptom) for symptom in finding.symptoms],
    }


def _integer(value: int | None) -> int | None:
    """Convert an integer of numpy, which JSON cannot hold."""
    return None if value is None else int(value)
