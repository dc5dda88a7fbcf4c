"""Findings as plain dicts for JSON."""

from __future__ import annotations

from typing import Any

from rlpanel.findings.engine.finding import Finding


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as a dict of values that JSON can hold.

    ``steps`` is the number of affected steps, ``metric`` the column of the curve that shows the finding, and
    ``filter`` the expression for its samples. ``symptoms`` is a list of such dicts. For the other keys see
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
        "symptoms": [finding_dict(symptom) for symptom in finding.symptoms],
    }


def _integer(value: int | None) -> int | None:
    """Convert an integer of numpy, which JSON cannot hold."""
    return None if value is None else int(value)
